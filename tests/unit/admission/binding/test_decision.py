"""The guard's decisions, called without a socket."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.builders.clusters import cluster_state
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.unit.admission.kubelet_admissions import kubelet_admission_at
from webhook.admission.binding.decision import Given, Pass, Refusal, guard, into_binding
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.patches.affinity_patch import Constraint, NodeRef, constrain, one_of
from webhook.formats.patches.json_patch import Patch, apply
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.model.names import (
    MANAGED_FIELDS,
    NUMA_ALLOCATION,
    NUMA_TOPOLOGY_SPEC,
    PLACEMENT,
    PLACEMENT_GATE,
    RESOURCE_STATUS,
)
from webhook.placing.pod.binding_pod import BindingPod
from webhook.state.kubelet_admission import KubeletAdmission
from webhook.state.rules import Rules

GI = 2**30
RULES = Rules()
KEY = "default/p"


def alone(
    name: str, *objects: Mapping[str, Any], ledger: Ledger | None = None, assigned: Sequence[dict[str, Any]] = ()
) -> KubeletAdmission | None:
    return kubelet_admission_at(cluster_state(*objects).node_arrays(), ledger or Ledger(), name, KEY, assigned)


def judged(
    raw: dict[str, Any], kubelet_admission: KubeletAdmission | None, assumed: NUMANodeAmounts | None = None
) -> Given | Refusal | Pass:
    return guard(BindingPod.from_object(raw, RULES), "n3", kubelet_admission, RULES, assumed)


def given(
    raw: dict[str, Any], kubelet_admission: KubeletAdmission | None, assumed: NUMANodeAmounts | None = None
) -> Given:
    verdict = judged(raw, kubelet_admission, assumed)
    assert isinstance(verdict, Given), verdict
    return verdict


def refused(
    raw: dict[str, Any], kubelet_admission: KubeletAdmission | None, assumed: NUMANodeAmounts | None = None
) -> Refusal:
    verdict = judged(raw, kubelet_admission, assumed)
    assert isinstance(verdict, Refusal), verdict
    return verdict


def n3(*free: int, **how: Any) -> KubeletAdmission | None:
    """n3 with so many free CPUs per NUMA node."""
    return alone("n3", node(name="n3"), nrt(node="n3", free=free or (4, 8), **how))


def holding(
    name: str, numa: dict[int, dict[str, int]], requests: dict[str, int], *nodes: Any
) -> KubeletAdmission | None:
    """n3 [4 8], or these objects, of which a pod was assumed to have so much."""
    ledger = Ledger()
    ledger.put(Reservation.of(name, "n3", numa, requests))
    return alone("n3", *(nodes or N3), ledger=ledger)


def assigned(node_name: str, numa_id: int, cpu: str = "8") -> dict[str, str]:
    zones = [{"node": numa_id, "resources": {"cpu": cpu, "memory": "1Gi"}}]
    allocation = json.dumps({"node": node_name, "numaNodeResources": zones})
    return {NUMA_TOPOLOGY_SPEC: SINGLE, NUMA_ALLOCATION: allocation}


# n3 ── NUMA 0 [4]  NUMA 1 [8]      [free cpus]
N3 = node(name="n3"), nrt(node="n3", free=(4, 8))


def test_a_pod_is_given_the_numa_node_that_its_kubelet_will_take() -> None:
    assert given(pod(cpu="8"), n3()).numa_nodes == ((1, {"cpu": 8000, "memory": GI}),)
    assert given(pod(cpu="4"), n3()).numa_nodes == ((0, {"cpu": 4000, "memory": GI}),)


def test_what_is_given_is_written_for_machines_and_for_koordlet() -> None:
    annotations = given(pod(cpu="8"), n3()).annotations
    zones = [{"node": 1, "resources": {"cpu": "8", "memory": "1Gi"}}]
    assert json.loads(annotations[NUMA_ALLOCATION]) == {"node": "n3", "numaNodeResources": zones}
    assert json.loads(annotations[RESOURCE_STATUS]) == {"numaNodeResources": zones}


def test_a_node_that_filled_up_is_refused_with_what_is_needed_and_what_is_left() -> None:
    verdict = judged(pod(cpu="8"), n3(4, 6))
    assert verdict == Refusal(
        "node n3 can no longer hold this pod on one NUMA node: needs 8 cpu, most free on one is 6 (NUMA 1)",
        "NoSingleNUMANode",
    )


def test_what_others_were_assumed_is_not_free() -> None:
    verdict = refused(pod(cpu="8"), holding("default/other", {1: {"cpu": 3000}}, {"cpu": 3000}))
    assert "most free on one is 5 (NUMA 1)" in verdict.message


def test_what_the_pod_itself_was_assumed_is_free_to_it() -> None:
    for nodes in (N3, (node(name="n3", cpus=8), N3[1])):
        found = holding(KEY, {1: {"cpu": 8000}}, {"cpu": 8000}, *nodes)
        assert given(pod(cpu="8"), found).numa_nodes[0][0] == 1


def test_a_node_is_refused_whose_sum_does_not_suffice() -> None:
    message = "node n3 can no longer hold this pod: insufficient cpu: 8 requested, 4 free"
    found = holding("default/other", {}, {"cpu": 28000})
    assert judged(pod(cpu="8"), found) == Refusal(message, "InsufficientResources")


def test_resources_that_no_numa_node_has_together_are_told_in_full() -> None:
    # n3 ── NUMA 0 [8 cpus, 1Gi]  NUMA 1 [2 cpus, 64Gi]      [free]
    taken = {0: {"memory": 63 * GI + GI // 2}}
    verdict = refused(pod(cpu="8"), holding("default/other", taken, {}, N3[0], nrt(node="n3", free=(8, 2))))
    told = "on one NUMA node: no single NUMA node with 8 cpu, 1Gi memory (NUMA 0: 8 cpu, 512Mi memory"
    assert told in verdict.message


def test_pods_that_no_manager_pins_need_the_nodes_sum_only() -> None:
    raw = pod(cpu="8", numa="{}")
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
    verdict = given(raw, n3(4, 4))
    assert (verdict.numa_nodes, verdict.annotations) == ((), {})
    refused(raw, alone("n3", node(name="n3", cpus=6), nrt(node="n3", free=(4, 4))))


def test_pods_without_our_annotations_pass() -> None:
    raw = pod(cpu="8", metadata={"annotations": {}})
    assert isinstance(judged(raw, n3(0, 0)), Pass)


def test_a_placed_pod_is_given_what_its_kubelet_takes_whatever_its_allocation_foresaw() -> None:
    # n3 ── NUMA 0 [8]  NUMA 1 [8]
    both = n3(8, 8)
    verdict = given(pod(cpu="8", metadata={"annotations": assigned("n3", 1)}), both)
    assert verdict.numa_nodes[0][0] == 0
    assert verdict.assumed == ((1, {"cpu": 8000, "memory": GI}),)


def test_where_numa_nodes_are_ours_to_choose_a_placed_pod_keeps_its_own() -> None:
    both = n3(8, 8, policy="none")
    assert given(pod(cpu="8", metadata={"annotations": assigned("n3", 1)}), both).numa_nodes[0][0] == 1


class Assumed:
    """n3 ── NUMA 0 [16]  NUMA 1 [16], and pods that are placed there, each by (name, cpus, NUMA node)."""

    def __init__(self, *pods: tuple[str, str, int]) -> None:
        self.ledger = Ledger()
        self.raws = []
        for name, cpu, numa_id in pods:
            amounts = {"cpu": int(cpu) * 1000, "memory": GI}
            self.ledger.put(Reservation.of(f"default/{name}", "n3", {numa_id: amounts}, amounts))
            metadata = {"name": name, "annotations": assigned("n3", numa_id, cpu)}
            self.raws.append(pod(cpu=cpu, metadata=metadata))

    def binding_of(self, name: str) -> Given | Refusal | Pass:
        """The verdict on one of the pods, or on another one, of 9 cpus."""
        mine = [raw for raw in self.raws if raw["metadata"]["name"] == name]
        others = [raw for raw in self.raws if raw not in mine]
        state = cluster_state(node(name="n3"), nrt(node="n3", free=(16, 16)))
        kubelet_admission = kubelet_admission_at(state.node_arrays(), self.ledger, "n3", f"default/{name}", others)
        raw = mine[0] if mine else pod(cpu="9", metadata={"name": name, "annotations": {NUMA_TOPOLOGY_SPEC: SINGLE}})
        return judged(raw, kubelet_admission)


def numa_of(verdict: Given | Refusal | Pass) -> int:
    assert isinstance(verdict, Given), verdict
    return verdict.numa_nodes[0][0]


def first(verdict: Given | Refusal | Pass) -> frozenset[str]:
    """The pods that go before this one."""
    assert isinstance(verdict, Refusal), verdict
    assert verdict.reason == "BindingInProgress"
    return frozenset(name.removeprefix("default/") for name in verdict.after)


def test_a_pod_that_would_get_the_numa_node_of_one_placed_before_goes_after_it() -> None:
    two = Assumed(("a", "9", 0), ("b", "9", 1))
    assert numa_of(two.binding_of("a")) == 0
    assert first(two.binding_of("b")) == {"a"}
    assert first(two.binding_of("other")) == {"a"}


def test_of_pods_placed_on_one_node_one_can_always_go() -> None:
    # 9 7 | 9 7 fits in this order; 7 7 | 9 leaves no room for the other 9 (tests/integration/test_replay.py).
    node_of_four = Assumed(("a", "9", 0), ("b", "7", 0), ("c", "9", 1), ("d", "7", 1))
    assert [numa_of(node_of_four.binding_of(name)) for name in ("a", "b")] == [0, 0]
    assert [first(node_of_four.binding_of(name)) for name in ("c", "d")] == [{"a", "b"}, {"a", "b"}]


# n3 ── NUMA 0: 5 of 16 cpus are a pod's that was bound while no replica answered. Three more do not fit there.
def test_pods_placed_on_one_numa_node_do_not_wait_for_each_other_when_a_stranger_took_of_it() -> None:
    three = Assumed(("a", "5", 0), ("b", "5", 0), ("c", "5", 0))
    three.ledger.put(Reservation.of("default/stranger", "n3", {0: {"cpu": 5000}}, {"cpu": 5000}))
    assert [numa_of(three.binding_of(name)) for name in "abc"] == [0, 0, 0]
    assert first(three.binding_of("other")) == {"a", "b", "c"}


def test_a_pod_gets_what_no_placed_one_holds_though_another_was_replayed() -> None:
    assert numa_of(Assumed(("a", "9", 1)).binding_of("other")) == 0


def test_an_assumed_pod_that_stands_in_no_pod_holds_up_nobody() -> None:
    delegated_why = Assumed(("a", "9", 0))
    del delegated_why.raws[0]["metadata"]["annotations"][NUMA_ALLOCATION]
    assert numa_of(delegated_why.binding_of("other")) == 0
    delegated_why.raws[0]["spec"]["schedulingGates"] = [{"name": PLACEMENT_GATE}]  # its allocation is on the way
    assert first(delegated_why.binding_of("other")) == {"a"}


# A placed pod that the scheduler could not bind: what was reserved for it is others' now.
UNRESERVED = {
    NUMA_TOPOLOGY_SPEC: SINGLE,
    NUMA_ALLOCATION: '{"node":"n3","reserved":false}',
    PLACEMENT: "placed on n3, where nothing is reserved for it any more\nnot bound yet: no volume",
}


@pytest.mark.parametrize(
    ("policy", "bound"),
    [
        ("single-numa-node", "bound to n3, NUMA 1"),
        ("none", "bound to n3\nnot enforced there: policy none"),  # NUMA nodes are ours to choose
    ],
)
def test_a_placed_pod_without_its_reservation_is_given_what_is_free_and_says_no_more_what_it_waited_for(
    policy: str, bound: str
) -> None:
    verdict = given(pod(cpu="8", metadata={"annotations": UNRESERVED}), n3(policy=policy))
    assert (verdict.numa_nodes[0][0], verdict.assumed) == (1, None)
    assert verdict.as_assumed() is None  # who does not know all that was given out since gives it nothing
    assert verdict.annotations[PLACEMENT] == f"{bound}\nplaced there before"


def test_the_text_of_a_pod_that_waited_keeps_the_affinity_that_was_added() -> None:
    added = Constraint(one_of([NodeRef("n3", None)]))
    patch = Patch(
        pod(cpu="8", metadata={"annotations": {**UNRESERVED, MANAGED_FIELDS: ManagedFields.of(added, 0).text()}})
    )
    constrain(patch, added)
    verdict = given(dict(patch.document), n3())
    assert verdict.annotations[PLACEMENT].endswith("\nplaced there before\nnode affinity added: required: n3")


def test_a_placed_pod_whose_numa_node_was_taken_is_given_another_one_or_refused_where_nothing_is_left() -> None:
    placed = pod(cpu="8", metadata={"annotations": assigned("n3", 0)})
    assert given(placed, n3()).numa_nodes[0][0] == 1
    refused(placed, n3(4, 4))
    unreserved = pod(cpu="8", metadata={"annotations": UNRESERVED})
    others = {"cpu": 4000, "memory": GI}
    verdict = refused(unreserved, holding("default/q", {1: others}, others))
    assert "needs 8 cpu, most free on one is 4" in verdict.message


@pytest.mark.parametrize("allocation", [assigned("n1", 0)[NUMA_ALLOCATION], '{"node":"n1","reserved":false}'])
def test_a_placed_pod_goes_to_no_other_node_with_and_without_its_reservation(allocation: str) -> None:
    verdict = judged(pod(cpu="8", metadata={"annotations": {**UNRESERVED, NUMA_ALLOCATION: allocation}}), n3())
    assert verdict == Refusal("this pod was placed on node n1, not on n3", "AssignedElsewhere")


def test_an_assumed_pod_newer_than_the_pod_in_the_cache_goes_before_its_allocation() -> None:
    raw = pod(cpu="8", metadata={"annotations": assigned("n1", 0)})
    assumed: NUMANodeAmounts = ((1, {"cpu": 8000, "memory": GI}),)
    assert given(raw, n3(), assumed).numa_nodes == assumed


@pytest.mark.parametrize("spec", ["not JSON", '{"numaTopologyPolicy": "Sometimes"}'])
def test_a_pod_let_in_with_faulty_annotations_is_judged_by_the_nodes_policy(spec: str) -> None:
    assert given(pod(cpu="8", numa=spec), n3()).numa_nodes[0][0] == 1
    refused(pod(cpu="9", numa=spec), n3())


def test_what_the_scheduler_has_judged_is_not_judged_again() -> None:
    raw = pod(cpu="8", nodeSelector={"disk": "ssd"})
    cordoned = node(name="n3", unschedulable=True, taints=[{"key": "a", "effect": "NoSchedule"}])
    assert given(raw, alone("n3", cordoned, N3[1])).numa_nodes[0][0] == 1


def test_a_strict_pod_waits_for_what_is_known_of_its_node_and_others_do_not() -> None:
    assert judged(pod(cpu="8"), None) == Refusal("nothing is known of node n3 yet", "NoTopology")
    assert isinstance(judged(pod(cpu="8", numa="{}"), None), Pass)


def test_a_node_whose_policy_cannot_be_read_gets_no_pod_that_its_kubelet_might_reject() -> None:
    unread = n3(8, 8, policy="strict")
    refusal = "node n3 can no longer hold this pod: unknown NUMA policy: topologyManagerPolicy 'strict'"
    for raw in (pod(cpu="8"), pod(cpu="8", numa="{}"), pod(cpu="8", metadata={"annotations": assigned("n3", 0)})):
        assert judged(raw, unread) == Refusal(refusal, "UnknownPolicy")
    burstable = pod(cpu="8", numa="{}")
    del burstable["spec"]["containers"][0]["resources"]["limits"]
    assert given(burstable, unread).numa_nodes == ()


def test_a_best_effort_pod_that_was_placed_when_nothing_was_known_of_its_node_is_judged_by_the_nodes_policy() -> None:
    there, allocation = n3(), '{"node": "n3", "numaNodeResources": []}'

    def asks(policy: str, cpu: str = "8", **annotations: str) -> dict[str, Any]:
        annotations |= {NUMA_TOPOLOGY_SPEC: f'{{"numaTopologyPolicy": "{policy}"}}'}
        return pod(cpu=cpu, metadata={"annotations": annotations})

    assert refused(asks("BestEffort"), there).reason == "PolicyMismatch"
    assert given(asks("BestEffort", **{NUMA_ALLOCATION: allocation}), there).numa_nodes[0][0] == 1
    refused(asks("BestEffort", cpu="9", **{NUMA_ALLOCATION: allocation}), there)
    refused(asks("Restricted", **{NUMA_ALLOCATION: allocation}), there)


@pytest.mark.parametrize("metadata", [{"name": "p"}, {"name": "p", "annotations": {"a": "b"}}])
def test_the_patch_keeps_the_annotations_that_a_binding_has(metadata: dict[str, Any]) -> None:
    binding = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n3"}}
    verdict = given(pod(cpu="8"), n3())
    patched = apply(binding, into_binding(binding, verdict))
    assert patched["metadata"]["annotations"] == {**metadata.get("annotations", {}), **verdict.annotations}


# n3 ── NUMA 0 [8]  NUMA 1 [8], policy none: its kubelet may spread the pod.
@pytest.mark.parametrize("allocated", [True, False])
def test_where_nothing_enforces_the_policy_no_numa_node_is_called_certain(allocated: bool) -> None:
    there = n3(8, 8, policy="none")
    raw = pod(cpu="8", annotations=assigned("n3", 0) if allocated else {})
    verdict = given(raw, there)
    assert verdict.weak
    assert verdict.message == "bound to n3; not enforced there: policy none"
    status = verdict.annotations.get(RESOURCE_STATUS)
    assert status == ('{"numaNodeResources":[]}' if allocated else None)


def test_nor_of_a_pod_that_asks_for_the_best_effort_there_which_needs_no_event() -> None:
    there = n3(8, 8, policy="none")
    asks = {**assigned("n3", 0), NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "BestEffort"}'}
    verdict = given(pod(cpu="8", annotations=asks), there)
    assert (verdict.weak, verdict.not_enforced, verdict.message) == (True, "", "bound to n3")
    assert verdict.annotations[RESOURCE_STATUS] == '{"numaNodeResources":[]}'


def test_where_koordlet_obeys_the_allocation_it_is_certain_and_what_it_does_not_bind_is_said() -> None:
    metadata = {"labels": {"app.kubernetes.io/managed-by": "Koordinator"}}
    there = n3(8, 8, policy="none", metadata=metadata)
    verdict = given(pod(cpu="8"), there)
    assert not verdict.weak
    assert verdict.message == "bound to n3, NUMA 0; koordlet enforces cpu there, not memory"
    assert RESOURCE_STATUS in verdict.annotations
