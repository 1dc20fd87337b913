"""A place for one pod: one node, or, where only the scheduler can choose, all that may come to fit."""

from typing import Any

import jsonpatch

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.unit.admission.node_affinity import admits
from tests.unit.controllers.placement.peers import APART, nobody
from webhook.engine.decide import Decision
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.names import NUMA_ALLOCATION, PLACEMENT
from webhook.placing.pod.assignment import Assignment, NoAssignment, find_assignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.rules import Rules

# a [9]  b [16]  c [2]  of 16,  d [2] of 4       [free cpus]
CLUSTER = cluster_snapshot(
    *(node(name=name) for name in "abcd"),
    nrt(node="a", free=[9]),
    nrt(node="b", free=[16]),
    nrt(node="c", free=[2]),
    nrt(node="d", free=[2], cpus=4),
)


def ungated(**spec: Any) -> tuple[Assignment, dict[str, Any]]:
    """The place of a pod, and the pod with it."""
    raw = gated(name="p", **spec)
    assignment = find_assignment(CLUSTER.nodes, GatedPod.from_object(raw), Rules(), nobody)
    assert isinstance(assignment, Assignment)
    return assignment, jsonpatch.apply_patch(raw, list(assignment.patch(raw)))


def allowed(raw: dict[str, Any]) -> str:
    return "".join(name for name in "abcd" if admits(raw, name, {"kubernetes.io/hostname": name}))


def test_a_pod_is_held_to_the_best_node_and_told_its_numa_node() -> None:
    assignment, raw = ungated()
    assert (assignment.allocation.node, allowed(raw)) == ("a", "a")
    assert NUMA_ALLOCATION in raw["metadata"]["annotations"]


def test_a_pod_that_must_be_apart_from_others_is_kept_off_nodes_that_never_fit_and_prefers_those_that_do() -> None:
    assignment, raw = ungated(**APART)
    assert (assignment.allocation.node, allowed(raw), raw["spec"]["schedulingGates"]) == ("a", "abc", [])
    preferred = raw["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["preference"]["matchExpressions"][0]["values"] for term in preferred] == [["a"], ["b"]]
    annotations = raw["metadata"]["annotations"]
    assert NUMA_ALLOCATION not in annotations
    assert annotations[PLACEMENT].splitlines()[0] == "the scheduler chooses the node, for its pod anti-affinity"


def test_alternatives_that_cannot_be_added_behind_a_gate_leave_the_pod_as_its_user_wrote_it() -> None:
    nameless = cluster_snapshot(
        *(node(name=name, hostname=None) for name in "abcde"),
        *(nrt(node=name, free=[9]) for name in "ab"),
        *(nrt(node=name, free=[4], cpus=4) for name in "cde"),
    )
    terms = [{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    raw = gated(name="p", affinity={**APART["affinity"], "nodeAffinity": required})
    assignment = find_assignment(nameless.nodes, GatedPod.from_object(raw), Rules(max_affinity_values=2), nobody)
    assert isinstance(assignment, Assignment)
    held = jsonpatch.apply_patch(raw, list(assignment.patch(raw)))["spec"]["affinity"]["nodeAffinity"]
    assert held["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == terms
    assert len(held["preferredDuringSchedulingIgnoredDuringExecution"]) == 2


def test_a_pod_that_fits_nowhere_has_no_place_whoever_chooses() -> None:
    raw = gated(name="p", cpu="17", affinity=APART["affinity"])
    assert isinstance(find_assignment(CLUSTER.nodes, GatedPod.from_object(raw), Rules(), nobody), Decision)


def beside(spec: dict[str, Any] | None = None, **cpus: int) -> str:
    """The node for a pod of 8 cpus where others of so many cpus are placed and wait to be bound, by node.

    Or what it waits for.
    """
    raw = gated(name="p", **(spec or {}))
    amounts = GatedPod.from_object(raw).pod.requests

    def assigned(name: str) -> tuple[Reservation, ...]:
        own = GatedPod.from_object(raw).intent.policy
        cpu = cpus.get(name)
        return () if cpu is None else (Reservation.of("q", name, {}, {**amounts, "cpu": cpu * 1000}, policy=own),)

    assignment = find_assignment(CLUSTER.nodes, GatedPod.from_object(raw), Rules(), assigned)
    assert not isinstance(assignment, Decision)
    return assignment.text if isinstance(assignment, NoAssignment) else assignment.allocation.node


def test_a_pod_is_placed_beside_its_equals_only_while_those_placed_before_are_not_bound() -> None:
    own = GatedPod.from_object(gated(name="p")).pod.requests["cpu"] // 1000
    assert beside(a=own) == "a"
    assert beside(a=own + 1) == "b"
    assert beside(a=own + 1, b=own - 1) == (
        "waiting: it fits on a, but 1 other pod must be bound there first: the kubelet admits pods in order of arrival"
    )


def test_a_pod_that_is_left_to_the_scheduler_waits_for_nobody_to_be_bound() -> None:
    assert beside(APART, a=1) == "b"
    assert beside(APART, a=1, b=1) == "a"


def test_what_is_reserved_for_it_is_tentative() -> None:
    raw = gated(name="p")
    for spec, tentative in (({}, False), (APART, True)):
        pod = GatedPod.from_object({**raw, "spec": {**raw["spec"], **spec}})
        assignment = find_assignment(CLUSTER.nodes, pod, Rules(), nobody)
        assert isinstance(assignment, Assignment)
        assert assignment.assume(pod, 1.0).tentative is tentative
