"""deploy/install.yaml: in step with the chart, and accepted by the real API server."""

from collections.abc import Iterator

import pytest
import yaml

from tests.chart.helm import Helm
from tests.chart.manifests import FILE, RELEASE, install_manifest
from tests.cluster.control_plane import ControlPlane


def test_the_manifests_are_what_the_chart_renders(helm: Helm) -> None:
    assert FILE.read_text() == install_manifest(helm), "run `make manifests`"


@pytest.fixture
def applied(control_plane: ControlPlane) -> Iterator[str]:
    """What kubectl says of applying the manifests; all but the CRDs are deleted again."""
    yield control_plane.kubectl("apply", "--server-side", "-f", str(FILE))
    objects = [each for each in yaml.safe_load_all(FILE.read_text()) if each["kind"] != "CustomResourceDefinition"]
    control_plane.kubectl("delete", "--wait", "-f", "-", input=yaml.safe_dump_all(objects))


def test_kubectl_applies_the_manifests_twice_and_the_second_time_changes_nothing(
    control_plane: ControlPlane, applied: str
) -> None:
    def secrets() -> list[dict[str, object]]:
        return list(control_plane.api.get(f"/api/v1/namespaces/{RELEASE}/secrets")["items"])

    count = sum(1 for each in yaml.safe_load_all(FILE.read_text()) if each)
    assert applied.count("serverside-applied") == count
    before = secrets()
    control_plane.kubectl("apply", "--server-side", "-f", str(FILE))
    assert secrets() == before
    deployment = control_plane.api.get(f"/apis/apps/v1/namespaces/{RELEASE}/deployments/{RELEASE}")
    assert "managed-by" not in str(deployment["metadata"]["labels"])
