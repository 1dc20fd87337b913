"""The CRDs of crds/ in a real API server: valid, installed by the chart if missing, and strict where that helps."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import CHART
from tests.cluster.api import ApiError
from tests.cluster.control_plane import CRDS, ControlPlane
from tests.cluster.documented import commands, type_in

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OF_THE_CHART = ("noderesourcetopologies.topology.node.k8s.io", "topologies.kai.scheduler")
CHARTS = sorted((CHART / "files" / "crds").iterdir())
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"


def nrt(version: str, **content: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"topology.node.k8s.io/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "crd-test"},
        **content,
    }


def topology(*labels: str, **level: str) -> dict[str, Any]:
    levels = [{"nodeLabel": label} for label in labels]
    levels[0] |= level
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "crd-test"},
        "spec": {"levels": levels},
    }


def names(plane: ControlPlane) -> set[str]:
    return {each["metadata"]["name"] for each in plane.api.get(DEFINITIONS)["items"]}


def values(namespace: str) -> tuple[str, ...]:
    """The arguments of an installation that no API server calls."""
    return "--namespace", namespace, "--set", "webhook.url=https://127.0.0.1:1,image.repository=none"


def test_the_api_server_has_no_objection_to_any_of_them(control_plane: ControlPlane) -> None:
    definitions = control_plane.api.get(DEFINITIONS)["items"]
    assert {f"{each['spec']['group']}_{each['spec']['names']['plural']}.yaml" for each in definitions} == {
        file.name for file in CRDS.iterdir()
    }
    for each in definitions:
        conditions = {condition["type"]: condition["status"] for condition in each["status"]["conditions"]}
        # Present only where there is something to complain of.
        assert "NonStructuralSchema" not in conditions
        assert conditions.get("KubernetesAPIApprovalPolicyConformant", "True") == "True"
        assert conditions["Established"] == "True"


@pytest.mark.parametrize("file", CHARTS, ids=lambda file: file.stem)
def test_the_charts_file_is_that_of_the_checkout_and_no_link(file: Path) -> None:
    # Flux drops links out of a chart's folder, and so does a checkout on Windows.
    assert not file.is_symlink()
    assert file.read_text() == (CRDS / file.name).read_text(), f"cp crds/{file.name} {file.parent}"


@pytest.fixture
def without_crds(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    control_plane.kubectl("delete", "crd", *OF_THE_CHART)
    yield
    control_plane.helm("uninstall", "crd-test", "--namespace", namespace, "--ignore-not-found", "--no-hooks")
    # A later release of another name would not touch what this one owns.
    control_plane.kubectl("delete", "crd", "--ignore-not-found", *OF_THE_CHART)
    control_plane.install_crds()


def newer(file: Path, folder: Path) -> None:
    """Write a CRD with a changed description into a folder."""
    (folder / file.name).write_text(file.read_text().replace("description: ", "description: Newer. ", 1))


def is_newer(plane: ControlPlane, name: str) -> bool:
    return "Newer. " in json.dumps(plane.api.get(f"{DEFINITIONS}/{name}"))


@pytest.mark.usefixtures("without_crds")
def test_each_is_installed_unless_it_is_left_out_and_an_uninstall_keeps_it(
    control_plane: ControlPlane, namespace: str
) -> None:
    nrts, topologies = OF_THE_CHART
    without = "crds.nodeResourceTopologies.install=false,crds.topologies.install=false"
    control_plane.helm("install", "crd-test", CHART, *values(namespace), "--set", without)
    assert not names(control_plane) & set(OF_THE_CHART)
    control_plane.helm("upgrade", "crd-test", CHART, *values(namespace), "--set", "crds.topologies.install=false")
    assert names(control_plane) & set(OF_THE_CHART) == {nrts}
    control_plane.helm("upgrade", "crd-test", CHART, *values(namespace))
    assert topologies in names(control_plane)
    # What is left out later stays.
    control_plane.helm("upgrade", "crd-test", CHART, *values(namespace), "--set", without)
    control_plane.helm("uninstall", "crd-test", "--namespace", namespace, "--no-hooks")
    assert names(control_plane) >= set(OF_THE_CHART)


@pytest.mark.usefixtures("without_crds")
def test_an_upgrade_upgrades_what_the_release_installed(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    for file in CHARTS:
        newer(file, chart / "files" / "crds")
    control_plane.helm("install", "crd-test", CHART, *values(namespace))
    assert not any(is_newer(control_plane, name) for name in OF_THE_CHART)
    control_plane.helm("upgrade", "crd-test", chart, *values(namespace))
    assert all(is_newer(control_plane, name) for name in OF_THE_CHART)


def test_what_others_installed_is_left_alone_and_the_documented_command_upgrades_it(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    command, *_ = commands("docs/operations.md", "## Upgrade")
    assert f"`{command}`" in (CHART / "README.md").read_text()
    before = [control_plane.api.get(f"{DEFINITIONS}/{name}")["metadata"] for name in OF_THE_CHART]
    for file in CHARTS:
        newer(file, tmp_path)
    try:
        control_plane.helm("install", "crd-test", CHART, *values(namespace))
        assert [control_plane.api.get(f"{DEFINITIONS}/{name}")["metadata"] for name in OF_THE_CHART] == before
        type_in(control_plane, command.replace("charts/topology-webhook/files/crds/", str(tmp_path)))
        assert all(is_newer(control_plane, name) for name in OF_THE_CHART)
        control_plane.helm("upgrade", "crd-test", CHART, *values(namespace))
        assert all(is_newer(control_plane, name) for name in OF_THE_CHART)
    finally:
        control_plane.helm("uninstall", "crd-test", "--namespace", namespace, "--ignore-not-found", "--no-hooks")
        control_plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename", CRDS)


def test_a_node_resource_topology_is_the_same_in_both_versions(control_plane: ControlPlane) -> None:
    resource = {"name": "cpu", "capacity": "8", "allocatable": 7, "available": "6500m"}
    zone = {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10}], "resources": [resource]}
    content: dict[str, Any] = {"topologyPolicies": ["SingleNUMANodePodLevel"], "zones": [zone]}
    paths = [f"/apis/topology.node.k8s.io/{version}/noderesourcetopologies" for version in ("v1alpha1", "v1alpha2")]
    control_plane.api.create(paths[0], nrt("v1alpha1", **content))
    try:
        for path in paths:
            found = control_plane.api.get(f"{path}/crd-test")
            assert {key: found[key] for key in content} == content
        policy = [{"name": "topologyManagerPolicy", "value": "restricted"}]
        control_plane.api.patch(f"{paths[1]}/crd-test", {"attributes": policy})
        header, line = control_plane.kubectl("get", "node-res-topo", "crd-test").splitlines()
        assert header.split() == ["NAME", "POLICY", "SCOPE", "AGE"]
        assert line.split()[:2] == ["crd-test", "restricted"]
    finally:
        control_plane.api.delete(f"{paths[0]}/crd-test")


def test_the_cells_of_the_first_proposal_are_kept(control_plane: ControlPlane) -> None:
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    cells = {"0": {"capacity": {"cpu": "8"}}}
    created = control_plane.api.create(path + "?dryRun=All", nrt("v1alpha2", cells=cells))
    assert created["cells"] == cells


@pytest.mark.parametrize("amount", ["8 cores", "NaN", "1_000", {"value": 8}])
def test_an_amount_that_is_no_quantity_is_refused(control_plane: ControlPlane, amount: object) -> None:
    resource = {"name": "cpu", "capacity": amount, "allocatable": "8", "available": "8"}
    zones = [{"name": "node-0", "type": "Node", "resources": [resource]}]
    with pytest.raises(ApiError, match=r"zones\[0\]\.resources\[0\]\.capacity"):
        control_plane.api.create(
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies?dryRun=All", nrt("v1alpha2", zones=zones)
        )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (topology("kubernetes.io/hostname", "example.com/rack"), "only be the last, finest level"),
        (topology("example.com/rack", "example.com/rack"), "each level needs a node label of its own"),
        (topology("not a label"), "should match"),
        (topology(*(f"level-{number}" for number in range(17))), "must have at most 16 items"),
    ],
)
def test_a_topology_that_makes_no_tree_is_refused(
    control_plane: ControlPlane, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ApiError, match=message):
        control_plane.api.create(f"{TOPOLOGIES}?dryRun=All", wrong)


def test_the_labels_of_a_topology_stay_and_its_aliases_may_change(control_plane: ControlPlane) -> None:
    def change(*labels: str, **level: str) -> None:
        spec = topology(*labels, **level)["spec"]
        control_plane.api.patch(f"{TOPOLOGIES}/crd-test", {"spec": spec})

    control_plane.api.create(TOPOLOGIES, topology("example.com/zone", "example.com/rack"))
    try:
        change("example.com/zone", "example.com/rack", alias="zone")
        with pytest.raises(ApiError, match="node labels of a topology cannot be changed"):
            change("example.com/zone", "example.com/row")
    finally:
        control_plane.api.delete(f"{TOPOLOGIES}/crd-test")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_kueues_topology_is_served_in_both_versions(control_plane: ControlPlane, version: str) -> None:
    ours = {**topology("example.com/rack", "kubernetes.io/hostname"), "apiVersion": f"kueue.x-k8s.io/{version}"}
    created = control_plane.api.create(f"/apis/kueue.x-k8s.io/{version}/topologies?dryRun=All", ours)
    assert created["spec"] == ours["spec"]


def test_a_pod_group_keeps_what_only_kai_reads(control_plane: ControlPlane, namespace: str) -> None:
    spec = {
        "minMember": 4,
        "queue": "team-a",
        "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"},
        "subGroups": [{"name": "workers", "minMember": 3, "topologyConstraint": {"preferredTopologyLevel": "rack"}}],
        "preemptibility": "preemptible",
    }
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "pg"}, "spec": spec}
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups?dryRun=All"
    assert control_plane.api.create(path, group)["spec"] == spec
