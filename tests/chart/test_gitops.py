"""What Argo CD and Flux make of the chart, by their documented rules, and what docs/gitops.md tells their users.

Argo CD (docs/user-guide/helm.md, controller/hook.go): renders by `helm template --include-crds`, which asks no cluster.
It applies what has no hook annotation, runs `pre-delete` hooks when the Application is deleted (3.3 or newer), and
ignores `test`. Flux (helm-controller) calls Helm itself: install, upgrade and uninstall, with hooks.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, HOOK, IMAGE, Helm, Rendered

ROOT = CHART.parents[1]
PAGE = (ROOT / "docs" / "gitops.md").read_text()
VALUES = sorted((ROOT / "examples" / "values").glob("*.yaml"))
CRDS = {tuple(file.stem.split("_")) for file in (CHART / "files" / "crds").iterdir()}


def rendered_by_argo_cd(helm: Helm, *options: str) -> str:
    return helm.run(
        *(
            "template",
            "topology-webhook",
            str(CHART),
            "--namespace",
            "topology-webhook",
            "--include-crds",
            "--values",
            "-",
        ),
        *options,
        input=yaml.safe_dump(IMAGE),
    )


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def identity(raw: dict[str, Any]) -> tuple[str, str, str]:
    return raw["kind"], raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def hook(raw: dict[str, Any]) -> str:
    return str(raw["metadata"].get("annotations", {}).get(HOOK, ""))


def test_a_sync_is_the_same_each_time_and_without_what_an_uninstall_and_a_test_run(helm: Helm) -> None:
    text = rendered_by_argo_cd(helm)
    assert rendered_by_argo_cd(helm) == text
    synced = {identity(each) for each in objects(text) if not hook(each)}
    assert synced == {identity(each) for each in objects(rendered_by_argo_cd(helm, "--no-hooks"))}
    assert not {kind for kind, _, _ in synced} & {"Job", "Pod"}
    assert {hook(each) for each in objects(text)} == {"", "pre-delete", "test"}


def test_a_deletion_runs_the_job_with_its_rights(helm: Helm) -> None:
    hooks = [each for each in objects(rendered_by_argo_cd(helm)) if hook(each) == "pre-delete"]
    assert {each["kind"] for each in hooks} == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}
    # Argo CD creates them all at once. A pod of the Job that comes before its rights fails; the next one has them.
    (job,) = (each for each in hooks if each["kind"] == "Job")
    assert job["spec"].get("backoffLimit", 6) > 1


def test_neither_a_deletion_nor_a_pruning_takes_the_crds(rendered: Rendered) -> None:
    crds = rendered.of("CustomResourceDefinition")
    assert {(each["spec"]["group"], each["spec"]["names"]["plural"]) for each in crds} == CRDS
    for each in crds:
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/resource-policy"] == "keep"
        assert set(annotations["argocd.argoproj.io/sync-options"].split(",")) == {"Delete=false", "Prune=false"}


@pytest.mark.parametrize(
    ("left_out", "kept"), [("nodeResourceTopologies", "topologies"), ("topologies", "noderesourcetopologies")]
)
def test_each_crd_can_be_left_to_its_project(helm: Helm, left_out: str, kept: str) -> None:
    (crd,) = helm.template({"crds": {left_out: {"install": False}}}).of("CustomResourceDefinition")
    assert crd["spec"]["names"]["plural"] == kept


def documented(kind: str) -> dict[str, Any]:
    """The object of this kind on the page."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (found,) = (each for block in blocks for each in yaml.safe_load_all(block) if each.get("kind") == kind)
    return dict(found)


def test_the_application_ignores_every_field_that_others_write(rendered: Rendered) -> None:
    spec = documented("Application")["spec"]
    ignored = {(each["group"], each["kind"]): each["jqPathExpressions"] for each in spec["ignoreDifferences"]}
    configurations = [each["kind"] for each in rendered.objects if each["kind"].endswith("WebhookConfiguration")]
    assert ignored == {
        ("admissionregistration.k8s.io", kind): [".webhooks[]?.clientConfig.caBundle"] for kind in configurations
    }
    assert "RespectIgnoreDifferences=true" in spec["syncPolicy"]["syncOptions"]


@pytest.mark.parametrize("kind", ["Application", "HelmRelease"])
def test_the_documented_values_render(helm: Helm, kind: str) -> None:
    spec = documented(kind)["spec"]
    values = spec["values"] if kind == "HelmRelease" else spec["source"]["helm"]["valuesObject"]
    assert helm.template(values)["Deployment"]


def test_the_helm_release_waits_for_the_job_of_an_uninstall(helm: Helm) -> None:
    spec = documented("HelmRelease")["spec"]
    (job,) = (each for each in helm.template(spec["values"]).hooks if each["kind"] == "Job")
    minutes, unit = re.fullmatch(r"(\d+)(m)", spec["uninstall"]["timeout"]).groups()  # type: ignore[union-attr] # else the page is wrong
    assert unit == "m"
    assert int(minutes) * 60 > job["spec"]["activeDeadlineSeconds"]


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_the_examples_render_as_they_are(helm: Helm, file: Path) -> None:
    text = helm.run("template", "tw", str(CHART), "--namespace", "placement", "--values", str(file))
    found = {each["kind"] for each in objects(text)}
    assert {"Deployment", "MutatingWebhookConfiguration"} <= found


def test_there_is_an_example_for_each_way_to_run_it() -> None:
    assert {file.stem for file in VALUES} == {"air-gapped", "default", "gitops", "observe", "production"}
