"""KAI-Scheduler's PodGroup of a group of pods."""

from typing import Any

import pytest

from tests.builders.pods import plain
from tests.builders.workloads import TEMPLATE, job, of, owned
from webhook.formats.kai import is_said, pod_group
from webhook.formats.kubernetes.owner_chain import OwnerChain, taken_from_owners
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import KAI_TOPOLOGY

TOPOLOGIES = {"dc": Topology("dc", TopologySource.KAI, (Level("example.com/row"), Level("example.com/rack")))}
RACK = {KAI_TOPOLOGY: "dc", "kai.scheduler/topology-required-placement": "rack"}


def made(owner_chain: OwnerChain, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    raw = plain(namespace="ns", metadata={"labels": labels or {}}, **spec)
    raw["metadata"]["annotations"] = taken_from_owners(raw, owner_chain)
    return pod_group(owner_chain, raw, 4, TOPOLOGIES, "placed")


def test_levels_are_node_labels_and_the_owner_is_the_top() -> None:
    body = made(of(job(**RACK)))
    assert body["spec"] == {
        "minMember": 4,
        "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "example.com/rack"},
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job"}
    assert body["metadata"]["ownerReferences"] == [owner]
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("pg-w-uid-Job", "ns")


def test_queue_and_priority_class_are_the_tops_else_the_pods() -> None:
    raw = job(**RACK)
    labels = {"kai.scheduler/queue": "pods", "priorityClassName": "train"}
    assert made(of(raw), labels)["spec"]["queue"] == "pods"
    raw["metadata"]["labels"] = {"kai.scheduler/queue": "tops"}
    spec = made(of(raw), labels)["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("tops", "train")
    assert made(of(raw), priorityClassName="high")["spec"]["priorityClassName"] == "high"


def test_each_role_is_a_sub_group_with_the_level_it_asks_for_itself() -> None:
    worker = {"metadata": {"annotations": RACK}, **TEMPLATE}
    replicas = {"Master": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 3, "template": worker}}
    row = {**RACK, "kai.scheduler/topology-required-placement": "row"}
    body = made(of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **row)))
    constraint = {"topology": "dc", "requiredTopologyLevel": "example.com/rack"}
    assert body["spec"]["subGroups"] == [
        {"name": "master", "minMember": 1},
        {"name": "worker", "minMember": 3, "topologyConstraint": constraint},
    ]
    assert body["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "example.com/row"


def test_owners_that_nobody_may_read_still_have_a_pod_group() -> None:
    raw = plain(namespace="ns", annotations=RACK)
    body = pod_group(of(), raw, 2, TOPOLOGIES, "placed")
    assert (body["metadata"]["name"], body["spec"]["minMember"]) == ("pg-thing-uid-thing", 2)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"spec": {"minMember": 4, "more": 1}, "status": {}}, True),
        ({"spec": {"minMember": 3}}, False),
        ({"spec": {}}, False),
        (None, False),
    ],
)
def test_what_others_add_is_no_difference(found: Any, *, said: bool) -> None:
    assert is_said({"spec": {"minMember": 4}}, found) is said


def test_a_list_is_said_as_a_whole() -> None:
    assert is_said([{"name": "a"}], [{"name": "a", "x": 1}])
    assert not is_said([{"name": "a"}], [{"name": "a"}, {"name": "b"}])
