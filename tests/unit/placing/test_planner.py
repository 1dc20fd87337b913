"""The planner's answers to questions, and what its attempts remember in a cycle."""

import asyncio
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, gated
from tests.builders.workloads import TEMPLATE
from webhook.formats.kubernetes.owner_chain import owner_chain_of
from webhook.formats.kubernetes.pod import Owner
from webhook.model.names import INHERIT, MIN_MEMBER
from webhook.placing.gang.gang_search import GangSearch, GatedGang
from webhook.placing.planner import Limits, Planner
from webhook.placing.pod.assignment import Assignment, NoAssignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.rules import Rules


def planner_of(*pods: dict[str, Any], free: tuple[int, int] = (8, 8)) -> Planner:
    """Of a cluster of one node, n0, with these free CPUs per NUMA node; assumed pods never expire."""
    cache = cluster_cache(node(name="n0"), nrt(node="n0", free=free))
    put(cache, *pods)
    return Planner(cache, Rules(), Limits(assume_ttl=1e12))


def waiting(planner: Planner, name: str) -> GatedPod:
    return planner.read(planner.state.gated_pods()[f"default/{name}"], None)


def gang(planner: Planner, *names: str) -> GatedGang:
    members = tuple(waiting(planner, name) for name in names)
    assert members[0].membership is not None
    return GatedGang(members[0].membership, members)


async def no_pause() -> None:
    await asyncio.sleep(0)


def test_a_question_has_the_answer_of_the_attempt_and_assumes_nothing() -> None:
    planner = planner_of(gated(name="a"))
    pod = waiting(planner, "a")
    answer = planner.place(pod)
    assert planner.state.assumed_node(pod.key) is None
    ((_, assignment, _),) = planner.attempt_pod(pod, planner.begin()).assumed
    assert answer == assignment
    assert planner.state.assumed_node(pod.key) == "n0"


def test_the_reason_why_a_pod_waits_is_the_same_for_who_asks_and_who_attempts() -> None:
    planner = planner_of(gated(name="a"), free=(4, 4))
    pod, cycle = waiting(planner, "a"), planner.begin()
    (failed,) = planner.attempt_pod(pod, cycle).waits
    assert planner.why(failed, cycle) == planner.place(pod)


def test_equal_pods_cost_one_decision_in_a_cycle() -> None:
    planner = planner_of(gated(name="a"), gated(name="b", second=1), gated(name="smaller", cpu=2), free=(4, 4))
    cycle = planner.begin()
    assert planner.attempt_pod(waiting(planner, "a"), cycle).is_decided
    known = planner.known(waiting(planner, "b"), cycle)
    assert known is not None
    assert not planner.attempt_pod(waiting(planner, "b"), cycle, known).is_decided
    assert planner.known(waiting(planner, "smaller"), cycle) is None


def test_a_pod_that_changes_is_not_attempted_as_it_was() -> None:
    planner = planner_of(gated(name="a"))
    pod = waiting(planner, "a")
    put(planner.state, gated(name="a", cpu=2))
    assert not planner.attempt_pod(pod, planner.begin()).assumed


@pytest.mark.parametrize(("free", "starts"), [((8, 8), True), ((8, 0), False)])
async def test_a_gang_starts_whole_or_not_at_all_and_the_question_says_which(
    free: tuple[int, int], *, starts: bool
) -> None:
    # n0 ── NUMA 0 [free cpus]  NUMA 1 [free cpus]; each member needs 8
    members = (gated(name=name, group="g", annotations={MIN_MEMBER: "2"}) for name in ("a", "b"))
    planner = planner_of(*members, free=free)
    unit = planner.unit(gang(planner, "a", "b"))
    assert unit is not None
    found = planner.search(unit)
    assert isinstance(found, GangSearch)
    assert found.placement.assigned is starts
    waits = gang(planner, "a", "b")
    attempt = await planner.attempt_gang(waits, waits.members, planner.begin(), no_pause)
    assert [assignment.allocation.node for _, assignment, _ in attempt.assumed] == (["n0", "n0"] if starts else [])
    assert {one.pod.pod.name for one in attempt.waits} == (set() if starts else {"a", "b"})


def test_a_gang_of_too_few_members_is_not_searched() -> None:
    planner = planner_of(gated(name="a", group="g", annotations={MIN_MEMBER: "2"}))
    unit = planner.unit(gang(planner, "a"))
    assert unit is not None
    assert planner.too_few(unit) is not None
    assert isinstance(planner.search(unit), NoAssignment)
    assert planner.victims(unit) is None


def test_pods_that_were_bound_before_their_gang_was_known_count_for_all_who_ask() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owners = {"ownerReferences": [owner]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "default", "name": "j", "uid": "u", "annotations": {MIN_MEMBER: "2"}},
        "spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE},
    }
    known = {**gated(name="a"), "metadata": {**gated(name="a")["metadata"], **owners}}
    ran_before = bound(name="b", node="n0", annotations={INHERIT: "true"})
    ran_before["metadata"] |= owners
    planner = planner_of(known, ran_before)
    chain = owner_chain_of(Owner("batch/v1", "Job", "j", "u", controller=True), [job])
    pod = planner.read(planner.state.gated_pods()["default/a"], chain)
    assert pod.membership is not None
    unit = planner.unit(GatedGang(pod.membership, (pod,)))
    assert unit is not None
    assert set(unit.assigned) == {"default/b"}
    assert planner.too_few(unit) is None


def test_nothing_ends_for_a_pod_that_fits() -> None:
    planner = planner_of(gated(name="a"))
    pod = waiting(planner, "a")
    assert isinstance(planner.place(pod), Assignment)
    assert planner.asked_for(WaitingUnit(pod)) is None, "no autoscaler is asked"
