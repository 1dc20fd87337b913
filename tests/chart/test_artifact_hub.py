"""What Artifact Hub shows of the chart: its CRDs, and examples of them that a cluster accepts."""

from typing import Any

import yaml

from tests.chart.helm import CHART
from tests.cluster.control_plane import ControlPlane

ANNOTATIONS: dict[str, str] = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]


def annotation(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(ANNOTATIONS[f"artifacthub.io/{name}"]))


def test_artifact_hub_shows_the_crds_of_the_chart() -> None:
    crds = [yaml.safe_load(file.read_text()) for file in (CHART / "files" / "crds").iterdir()]
    served = {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], version["name"])
        for crd in crds
        for version in crd["spec"]["versions"]
        if version["storage"]
    }
    assert {(crd["name"], crd["kind"], crd["version"]) for crd in annotation("crds")} == served


def test_the_examples_on_artifact_hub_are_accepted(control_plane: ControlPlane) -> None:
    (example,) = annotation("crdsExamples")
    path = f"/apis/{example['apiVersion']}/{example['kind'].lower().removesuffix('y')}ies"
    assert control_plane.api.create(f"{path}?dryRun=All&fieldValidation=Strict", example)["spec"] == example["spec"]
