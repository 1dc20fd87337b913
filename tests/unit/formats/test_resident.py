import json
from typing import Any

import pytest

from tests.builders.pods import GATES, bound, container, plain, pod
from webhook.formats.kubernetes.pod import QoS, ResidentPod
from webhook.model.errors import UserError
from webhook.model.policy import Exclusive, NUMAPolicy

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
ALLOCATION = "topology-webhook.dev/numa"
STATUS = "scheduling.koordinator.sh/resource-status"
TWO = {"cpu": "2"}


def resident(
    annotations: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    **status: Any,
) -> ResidentPod:
    asks = [container(requests=requests, limits=limits)]
    named: dict[str, Any] = {"name": "a", "namespace": "ml", "metadata": {"uid": "1"}, "annotations": annotations}
    raw = bound(node="n1", numa=None, containers=asks, overhead={"cpu": "100m"}, **named)
    return ResidentPod.from_object({**raw, "status": status})


def test_a_bound_pod_is_kept_as_a_slim_record() -> None:
    read = resident({SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}, limits={"cpu": "2", "memory": "1Gi"})
    assert (read.key, read.namespace, read.name, read.uid, read.node) == ("ml/a", "ml", "a", "1", "n1")
    assert read.requests == {"cpu": 2100, "memory": 2**30}
    assert (read.qos, read.policy, read.exclusive) == (
        QoS.GUARANTEED,
        NUMAPolicy.SINGLE_NUMA_NODE,
        Exclusive.REQUIRED,
    )
    assert (read.allocation, read.terminal, read.deleting) == (None, False, False)


@pytest.mark.parametrize(("phase", "terminal"), [("Pending", False), ("Succeeded", True), ("Failed", True)])
def test_a_finished_pod_is_terminal(phase: str, terminal: bool) -> None:
    assert resident(phase=phase).terminal is terminal


def test_a_pod_being_deleted_says_so() -> None:
    assert ResidentPod.from_object(plain(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})).deleting


def numa_nodes(numa_id: int, **resources: str) -> dict[str, Any]:
    return {"numaNodeResources": [{"node": numa_id, "resources": resources}]}


def test_the_allocation_is_ours_if_it_is_about_the_pods_node() -> None:
    ours = json.dumps({"node": "n1", **numa_nodes(3, cpu="2")})
    theirs = json.dumps(numa_nodes(1, cpu="2"))
    assert resident({ALLOCATION: ours}, TWO).allocation == ((3, {"cpu": 2000}),)
    assert resident({ALLOCATION: ours, STATUS: theirs}, TWO).allocation == ((3, {"cpu": 2000}),)


def test_a_bound_pod_with_the_allocation_of_its_assignment_was_not_reviewed() -> None:
    allocation = {"node": "n1", **numa_nodes(3, cpu="2")}
    assert resident({ALLOCATION: json.dumps({**allocation, "reviewed": False})}, TWO).unreviewed
    assert not resident({ALLOCATION: json.dumps(allocation)}, TWO).unreviewed, "as the last release wrote it"
    assert not resident({ALLOCATION: json.dumps({**allocation, "node": "n2", "reviewed": False})}, TWO).unreviewed


def test_the_allocation_is_koordinators_where_ours_is_absent_or_about_another_node() -> None:
    elsewhere = json.dumps({"node": "n2", **numa_nodes(3, cpu="2")})
    theirs = json.dumps(numa_nodes(1, cpu="2"))
    assert resident({STATUS: theirs}, TWO).allocation == ((1, {"cpu": 2000}),)
    assert resident({ALLOCATION: elsewhere, STATUS: theirs}, TWO).allocation == ((1, {"cpu": 2000}),)
    assert resident({ALLOCATION: elsewhere}, TWO).allocation is None
    assert resident({STATUS: '{"cpuset": "0-3"}'}, TWO).allocation is None


def test_an_allocation_is_believed_up_to_the_pods_own_requests() -> None:
    def allocation(*numa_nodes: tuple[int, str]) -> dict[str, str]:
        entries = [{"node": numa_id, "resources": {"cpu": cpu}} for numa_id, cpu in numa_nodes]
        return {ALLOCATION: json.dumps({"node": "n1", "numaNodeResources": entries})}

    # 100m are the overhead's.
    assert resident(allocation((0, "16"))).allocation == ((0, {"cpu": 100}),)
    assert resident(allocation((0, "16"), (1, "16")), TWO).allocation == ((0, {"cpu": 2100}),)
    assert resident(allocation((0, "1"), (1, "16")), TWO).allocation == ((0, {"cpu": 1000}), (1, {"cpu": 1100}))
    memory = {"node": "n1", "numaNodeResources": [{"node": 0, "resources": {"memory": "1Ti", "nvidia.com/gpu": "8"}}]}
    assert resident({ALLOCATION: json.dumps(memory)}, TWO).allocation is None
    assert resident({ALLOCATION: json.dumps({"node": "n1", "numaNodeResources": []})}, TWO).allocation == ()


def test_a_pod_on_one_numa_node_is_on_no_more_of_them_than_it_has_containers() -> None:
    entries = [{"node": numa_id, "resources": {"cpu": "100m"}} for numa_id in range(8)]
    everywhere = {ALLOCATION: json.dumps({"node": "n1", "numaNodeResources": entries})}
    assert len(resident(everywhere, TWO).allocation or ()) == 8
    assert resident({**everywhere, SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}, TWO).allocation is None


def test_an_allocation_too_long_to_be_ours_is_not_read() -> None:
    entry = {"node": 0, "resources": {"cpu": "1"}}
    assert (
        resident({ALLOCATION: json.dumps({"node": "n1", "numaNodeResources": [entry] * 5000})}, TWO).allocation is None
    )


@pytest.mark.parametrize("annotation", [ALLOCATION, STATUS, SPEC])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"node": "n1", "numaNodeResources": [{"node": -1}]}'])
def test_broken_annotations_of_a_running_pod_count_as_absent(annotation: str, text: str) -> None:
    read = resident({annotation: text})
    assert (read.allocation or None, read.policy) == (None, None)


def test_unreadable_resources_are_an_error() -> None:
    with pytest.raises(UserError, match="is not a quantity"):
        resident(requests={"cpu": "x"})


@pytest.mark.parametrize(
    ("requests", "limits", "exclusive"),
    [
        (None, {"cpu": "2", "memory": "1Gi"}, True),
        ({"cpu": "2"}, None, False),
        (None, {"nvidia.com/gpu": "1"}, True),
        (None, None, False),
    ],
)
def test_guaranteed_pods_and_pods_with_devices_may_have_resources_of_their_own(
    requests: dict[str, str] | None, limits: dict[str, str] | None, exclusive: bool
) -> None:
    assert resident(requests=requests, limits=limits).exclusive_resources is exclusive


# spec 2 cpu, what the kubelet has allocated, what is in effect -> what counts
@pytest.mark.parametrize(
    ("allocated", "in_effect", "infeasible", "cpu"),
    [
        ("2", "2", False, 2000),
        ("1", "1", False, 2000),
        ("4", "1", False, 4000),
        ("1", "4", False, 4000),
        ("1", "1", True, 1000),
        (None, "3", False, 3000),
        ("1", None, True, 1000),
    ],
)
def test_a_pod_resized_in_place_holds_the_largest_of_its_numbers(
    allocated: str | None, in_effect: str | None, infeasible: bool, cpu: int
) -> None:
    status: dict[str, Any] = {"name": "main"}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    if in_effect is not None:
        status["resources"] = {"requests": {"cpu": in_effect}}
    conditions = [{"type": "PodResizePending", "reason": "Infeasible"}] if infeasible else []
    read = resident(requests={"cpu": "2"}, containerStatuses=[status], conditions=conditions)
    assert read.requests == {"cpu": cpu + 100}


GATED = {"schedulingGates": GATES}
ALLOCATION_FOR_N2 = json.dumps({"node": "n2", **numa_nodes(1, cpu="2")})


def waiting(allocation: str, **spec: Any) -> ResidentPod:
    return ResidentPod.from_object(
        plain(annotations={ALLOCATION: allocation}, containers=[container(requests=TWO)], **spec)
    )


def test_a_pod_with_an_allocation_and_without_our_gate_is_placed_until_it_is_bound() -> None:
    assert (waiting(ALLOCATION_FOR_N2).assigned_node, waiting(ALLOCATION_FOR_N2).allocation) == (
        "n2",
        ((1, {"cpu": 2000}),),
    )
    assert waiting(ALLOCATION_FOR_N2, schedulingGates=[{"name": "example.com/quota"}]).assigned_node == "n2"
    assert (waiting(ALLOCATION_FOR_N2, **GATED).assigned_node, waiting(ALLOCATION_FOR_N2, **GATED).allocation) == (
        "",
        None,
    )
    assert (waiting("not JSON").assigned_node, waiting("not JSON").allocation) == ("", None)
    assert waiting(ALLOCATION_FOR_N2, nodeName="n2").assigned_node == ""


def test_a_pod_is_bound_when_the_api_server_says_so_and_at_its_creation_at_the_earliest() -> None:
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    created_at = ResidentPod.from_object(bound(node="n1", metadata=metadata)).bound_at
    raw = bound(node="n1", metadata=metadata, status={"conditions": [scheduled]})
    assert created_at is not None
    assert ResidentPod.from_object(raw).bound_at == created_at + 60
    assert ResidentPod.from_object(plain(metadata=metadata)).bound_at is None


@pytest.mark.parametrize(
    ("limits", "init", "exclusive"),
    [
        ({"cpu": "2", "memory": "1Gi"}, False, True),
        ({"cpu": "500m", "memory": "1Gi"}, False, False),
        ({"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1"}, False, True),
        ({"cpu": "2", "memory": "1Gi"}, True, False),
    ],
)
def test_whole_cpus_and_devices_are_exclusive_without_a_memory_manager(
    limits: dict[str, str], init: bool, exclusive: bool
) -> None:
    half, main = container(name="half", limits={"cpu": "500m", "memory": "1Gi"}), container(limits=limits)
    spec: dict[str, Any] = {"containers": [half], "initContainers": [main]} if init else {"containers": [main]}
    read = ResidentPod.from_object(bound(node="n1", numa=None, **spec))
    assert read.exclusive_resources
    assert read.exclusive_beyond_memory is exclusive


def test_defaults_that_were_written_at_its_creation_are_a_pods_policy() -> None:
    defaults = '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}'
    annotations = {"topology-webhook.dev/numa-defaults": defaults}
    found = ResidentPod.from_object(plain(annotations=annotations))
    assert (found.policy, found.exclusive) == (NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.PREFERRED)
    own = pod(numa='{"numaTopologyPolicy": ""}', annotations=annotations)
    assert ResidentPod.from_object(own).policy is None
