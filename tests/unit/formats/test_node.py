from typing import Any

import pytest

from webhook.formats.kubernetes.node import Node, Taint
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import MAX_AMOUNT

GPU = "nvidia.com/gpu"
LABEL = "node.koordinator.sh/numa-topology-policy"


def node(labels: dict[str, str] | None = None, **status: Any) -> Node:
    return Node.from_object({"metadata": {"name": "n1", "labels": labels}, "status": status})


def test_a_node_is_read_once_and_whole() -> None:
    read = Node.from_object(
        {
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "7500m", "pods": "110"},
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
        }
    )
    assert (read.name, read.labels, read.unschedulable, read.ready) == ("n1", {"zone": "a"}, True, True)
    assert read.taints == (Taint("gpu", "", "NoSchedule"),)
    assert read.allocatable == {"cpu": 7500, "pods": 110}
    assert (read.policy_label, read.problems) == (None, ())


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_if_it_says_so(status: str, ready: bool) -> None:
    assert node(conditions=[{"type": "Ready", "status": status}]).ready is ready


def test_a_node_that_says_nothing_about_readiness_is_taken_as_ready() -> None:
    assert node().ready


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("SingleNUMANode", NUMAPolicy.SINGLE_NUMA_NODE),
        ("Restricted", NUMAPolicy.RESTRICTED),
        ("BestEffort", NUMAPolicy.BEST_EFFORT),
        ("None", NUMAPolicy.NONE),
        ("single-numa-node", NUMAPolicy.SINGLE_NUMA_NODE),
        ("SINGLE_NUMA_NODE", NUMAPolicy.SINGLE_NUMA_NODE),
        ("RestrictedPodLevel", NUMAPolicy.RESTRICTED),
        ("", None),
    ],
)
def test_koordinators_label_is_read(text: str, policy: NUMAPolicy | None) -> None:
    read = node({LABEL: text})
    assert read.policy_label is policy
    assert (read.unknown_policy, read.problems) == ("", ())


def test_an_unknown_policy_label_is_a_problem_and_not_none() -> None:
    read = node({LABEL: "strict"})
    assert read.policy_label is None
    assert read.unknown_policy == f"label {LABEL} 'strict'"
    assert "'strict' is no known policy" in read.problems[0]


def test_unreadable_allocatable_is_a_problem_and_empty() -> None:
    read = node(allocatable={"cpu": "many", "memory": "1Gi"})
    assert read.allocatable == {}
    assert "status.allocatable[cpu]" in read.problems[0]


@pytest.mark.parametrize(
    ("capacity", "allocatable", "away"),
    [
        ({GPU: "8"}, {GPU: "8"}, {}),
        ({GPU: "8"}, {GPU: "7"}, {GPU: 1}),
        ({GPU: "8"}, {GPU: "0"}, {GPU: 8}),
        ({GPU: "8"}, {}, {GPU: 8}),
        ({GPU: "0"}, {GPU: "0"}, {GPU: MAX_AMOUNT}),
        ({"cpu": "8"}, {"cpu": "7"}, {}),
        ({}, {GPU: "8"}, {}),
        ({GPU: "x"}, {GPU: "0"}, {}),
    ],
)
def test_devices_that_its_kubelet_knows_and_does_not_offer_may_come_back(
    capacity: dict[str, str], allocatable: dict[str, str], away: dict[str, int]
) -> None:
    assert node(capacity=capacity, allocatable=allocatable).devices_away == away
