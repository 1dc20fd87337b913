"""The promise: an unmodified scheduler that picks a wrong node alone picks a right one with the webhook.

free cpus per NUMA node of 16; single-numa-node where nothing else is said (examples/snapshots/cluster.yaml):

    node-a [7 7]   node-b [2 9]   node-c [0 12]   node-d restricted   node-e no topology   node-f cordoned
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.api import ApiError
from tests.cluster.gated import Pods
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.demo.example import CLUSTER, EXAMPLES, POD, RIGHT, WRONG, example_cluster, node_of
from tests.unit.cli.conftest import run_review

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
PLACEMENT = "topology-webhook.dev/placement"
POD_NAME = "solver"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with example_cluster(control_plane):
        yield control_plane


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(cluster) as running:
        assert running.wait_until_called()
        yield running


def pod(name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """The example's pod under another name."""
    document: dict[str, Any] = yaml.safe_load(POD.read_text())
    document["metadata"]["name"] = name
    if annotations is not None:
        document["metadata"]["annotations"] = annotations
    return document


def create(plane: ControlPlane, namespace: str, document: dict[str, Any], query: str = "") -> dict[str, Any]:
    created: dict[str, Any] = plane.api.create(f"/api/v1/namespaces/{namespace}/pods{query}", document)
    return created


@pytest.fixture
def placing(cluster: ControlPlane, webhook: LocalWebhook, namespace: str) -> None:
    """The webhook is called, and knows that the pods of the last test are gone."""
    assert webhook.is_called()

    def rested() -> bool:
        tried = create(cluster, namespace, pod("any"), "?dryRun=All")
        return "2 of 6 nodes fit" in tried["metadata"]["annotations"][PLACEMENT]

    cluster.wait_for("the last test's pods to be forgotten", rested)


def required_terms(document: dict[str, Any]) -> list[dict[str, Any]]:
    required = document["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return terms


def reviewed() -> dict[str, Any]:
    """The example's pod, as printed by `review -o yaml`."""
    document: dict[str, Any] = yaml.safe_load(run_review("-f", POD, "-o", "yaml", cluster=CLUSTER).stdout)
    return document


# NB: these stand before the tests that use the fixture `webhook`, which stays installed for the rest of the module.
def test_what_review_prints_goes_to_the_right_node_where_no_webhook_is_installed(
    cluster: ControlPlane, namespace: str
) -> None:
    create(cluster, namespace, reviewed())
    assert node_of(cluster, POD_NAME, namespace) in RIGHT


def test_the_scheduler_alone_chooses_a_node_whose_numa_nodes_cannot_hold_the_pod(
    cluster: ControlPlane, namespace: str
) -> None:
    create(cluster, namespace, pod("alone"))
    assert node_of(cluster, "alone", namespace) == WRONG


@pytest.mark.usefixtures("placing")
@pytest.mark.parametrize("key", [SPEC, RESOURCE_SPEC])
def test_with_the_webhook_it_chooses_a_node_where_one_numa_node_holds_the_pod(
    cluster: ControlPlane, namespace: str, key: str
) -> None:
    create(cluster, namespace, pod("steered", {key: '{"numaTopologyPolicy": "SingleNUMANode"}'}))
    assert node_of(cluster, "steered", namespace) in RIGHT


@pytest.mark.usefixtures("placing")
def test_it_waits_behind_a_gate_for_the_moment_that_its_placing_takes(cluster: ControlPlane, namespace: str) -> None:
    created = create(cluster, namespace, pod("gated"))
    assert created["spec"]["schedulingGates"] == [{"name": PLACEMENT}]
    assert "affinity" not in created["spec"]
    assert created["metadata"]["annotations"][PLACEMENT].startswith("to be placed: SingleNUMANode: 2 of 6 nodes fit\n")
    node = node_of(cluster, "gated", namespace)
    assigned = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/gated")
    assert "schedulingGates" not in assigned["spec"]
    assert required_terms(assigned) == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]


@pytest.mark.usefixtures("placing")
def test_describe_shows_what_was_decided_and_why(cluster: ControlPlane, namespace: str) -> None:
    create(cluster, namespace, pod("described"))
    node = node_of(cluster, "described", namespace)
    described = cluster.kubectl("describe", "pod", "described", "--namespace", namespace)
    _, _, placement = described.partition(f"{PLACEMENT}:")
    lines = [line.strip() for line in placement.splitlines()[1:6]]
    assert lines[0] == f"placed on {node}, NUMA {RIGHT[node]}"
    assert lines[1] == "SingleNUMANode: 2 of 6 nodes fit"
    assert lines[2].startswith("best node-b (score ")
    assert lines[3].endswith("1 no single NUMA node with 8 cpu, 16Gi memory")
    assert lines[4] == f"node affinity added: required: {node}"


@pytest.mark.usefixtures("placing")
def test_an_event_tells_the_placement(cluster: ControlPlane, namespace: str) -> None:
    create(cluster, namespace, pod("told"))
    node = node_of(cluster, "told", namespace)
    note = Pods(cluster, namespace).wait_until_told("told", "Assigned")
    assert note.startswith(f"placed on {node}, NUMA {RIGHT[node]}; SingleNUMANode: 2 of 6 ")


@pytest.mark.usefixtures("placing")
def test_the_users_own_affinity_is_kept_and_anded(cluster: ControlPlane, namespace: str) -> None:
    document = pod("particular")
    mine = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-b"]}
    document["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [mine]}]}
        }
    }
    created = create(cluster, namespace, document)
    assert created["spec"]["affinity"] == document["spec"]["affinity"]
    assert node_of(cluster, "particular", namespace) == "node-c"
    assigned = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/particular")
    assert assigned["spec"]["affinity"] == document["spec"]["affinity"]
    assert assigned["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-c"}


@pytest.mark.usefixtures("placing")
def test_a_dry_run_gives_the_same_answer_and_leaves_nothing(cluster: ControlPlane, namespace: str) -> None:
    tried = create(cluster, namespace, pod("same"), "?dryRun=All")
    created = create(cluster, namespace, pod("same"))
    assert tried["spec"]["schedulingGates"] == created["spec"]["schedulingGates"]
    assert tried["metadata"]["annotations"] == created["metadata"]["annotations"]


@pytest.mark.usefixtures("placing")
def test_what_review_prints_is_placed_by_the_running_webhook_as_its_user_wrote_it(
    cluster: ControlPlane, namespace: str
) -> None:
    created = create(cluster, namespace, reviewed())
    assert created["spec"]["schedulingGates"] == [{"name": PLACEMENT}]
    assert not created["spec"].get("affinity")
    assert node_of(cluster, POD_NAME, namespace) in RIGHT


@pytest.mark.usefixtures("placing")
@pytest.mark.parametrize(
    "document",
    list(yaml.safe_load_all((EXAMPLES / "mistakes" / "pods.yaml").read_text())),
    ids=lambda d: d["metadata"]["name"],
)
def test_a_mistake_is_refused_with_what_review_says_of_it(
    cluster: ControlPlane, namespace: str, document: dict[str, Any]
) -> None:
    reviewed = run_review("-f", "-", "-o", "json", stdin=json.dumps(document), cluster=CLUSTER)
    (verdict,) = reviewed.json
    assert (reviewed.code, verdict["verdict"]) == (1, "deny")
    with pytest.raises(ApiError) as refused:
        create(cluster, namespace, document)
    assert refused.value.status == 403
    assert verdict["message"] in refused.value.message


@pytest.mark.usefixtures("placing")
def test_a_pod_without_annotation_is_left_as_it_is(cluster: ControlPlane, namespace: str) -> None:
    created = create(cluster, namespace, pod("unmanaged", {}))
    assert "affinity" not in created["spec"]
    assert "annotations" not in created["metadata"]
