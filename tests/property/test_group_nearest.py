"""Gangs with the strategy Nearest take the domain that holds most, and leave it and what is near it only when full."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, topology_of, tree_of
from tests.conformance.peers.bed import Bed, job, preferred, required, template, training
from tests.property.equal_groups import domains, free_slots, paths
from webhook.engine.arrays import Amounts
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.options import GangStrategy

NEAREST = {"topology-webhook.dev/strategy": "Nearest"}
LEVELS = ("zone", "block", "rack")

places = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from(["r1", "r2"])), min_size=2, max_size=10
)


def is_by_distance(tree: TopologyTree, held: Amounts, taken: Amounts, start: int, level: int, up_to: int) -> bool:
    """Whether each domain around the first one of a level is full before anything beyond it is taken."""
    for coarser in range(level, up_to, -1):
        inside = tree.under(tree.ancestor(Domain(level, start), coarser), level)
        if taken[inside].sum() < taken.sum() and (taken[inside] < held[inside]).any():
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(places, st.lists(st.integers(0, 4), min_size=10, max_size=10), st.integers(1, 24))
def test_the_domain_that_holds_most_is_first_and_the_rest_goes_to_the_nearest(
    where: list[tuple[str, str, str]], free: list[int], count: int
) -> None:
    tree, rack = tree_of(where, topology_of(*LEVELS)), 3
    slots = np.array(free[: len(where)])
    packed, plan = (
        assign_equal(tree, slots, EqualPods(count, count, Constraint(None, rack), strategy=strategy))
        for strategy in (GangStrategy.BIN_PACK, GangStrategy.NEAREST)
    )
    assert (plan is None) == (packed is None)
    if plan is None or packed is None:
        return
    assert plan.domain.level == packed.domain.level
    pods = np.zeros(tree.n, dtype=np.int64)
    pods[plan.nodes.domains] = plan.nodes.amounts
    assert int(pods.sum()) == count
    assert (pods <= slots).all()
    if plan.domain.level == rack:
        return
    held, taken = tree.sums(rack, slots), tree.sums(rack, pods)
    here = tree.under(plan.domain, rack)
    able = [n for n in range(tree.size(plan.domain.level)) if tree.sums(plan.domain.level, slots)[n] >= count]
    largest = max(held[tree.under(Domain(plan.domain.level, number), rack)].max() for number in able)
    firsts = [start for start in range(here.start, here.stop) if held[start] == largest]
    assert any(is_by_distance(tree, held, taken, start, rack, plan.domain.level) for start in firsts)


@settings(max_examples=200, deadline=None)
@given(paths, free_slots, st.integers(1, 12), st.integers(2, 4), st.data())
def test_segments_stay_whole_and_running_members_draw_the_others(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, size: int, data: st.DataObject
) -> None:
    tree = tree_of(where)
    slots = np.array(free[: len(where)])
    members = None
    if data.draw(st.booleans()):
        members = np.zeros(tree.n, dtype=np.int64)
        members[data.draw(st.integers(0, tree.n - 1))] = 2
    cut = Segments(size, Constraint(RACK))
    plans = [
        assign_equal(tree, slots, EqualPods(count, count, Constraint(None, RACK), cut, strategy, members))
        for strategy in (GangStrategy.BIN_PACK, GangStrategy.NEAREST)
    ]
    assert (plans[0] is None) == (plans[1] is None)
    if plans[1] is not None:
        pods = np.zeros(tree.n, dtype=np.int64)
        pods[plans[1].nodes.domains] = plans[1].nodes.amounts
        assert int(pods.sum()) == count
        assert (pods <= slots).all()
        split = [pods[domain].sum() % size for domain in domains(tree, RACK)]
        assert np.count_nonzero(split) <= (count % size > 0)


# dc-1 ─┬─ zone-a ── n0 [9]
#       ├─ zone-b ── n1 [4]
#       └─ zone-c ── n2 [3]
# dc-2 ─┬─ zone-d ── n3 [8]
#       └─ zone-e ── n4 [8]
ZONES = {"dc-1": {"zone-a": [9], "zone-b": [4], "zone-c": [3]}, "dc-2": {"zone-d": [8], "zone-e": [8]}}


def test_of_equally_near_zones_the_largest_comes_first_and_review_names_the_strategy() -> None:
    bed = Bed(ZONES, "dc", "zone")
    packed, near = (bed.review(job(18, preferred("zone") | asked)) for asked in ({}, NEAREST))
    # Three zones are the fewest either way. From 9 in zone-a it is 7 in its own dc, and then 2 in the other.
    assert (len(packed.per("zone")), near.per("dc")) == (3, {"dc-1": 16, "dc-2": 2})
    assert (packed.group["strategy"], near.group["strategy"]) == ("BinPack", "Nearest")
    assert near.message.startswith("gang w: 18 pods on 4 nodes, strategy Nearest; preferred zone missed")
    assert bed.review(job(16, required("dc") | preferred("zone"))).per("zone") == {"dc-2/zone-d": 8, "dc-2/zone-e": 8}
    within = bed.review(job(16, required("dc") | preferred("zone") | NEAREST)).per("zone")
    assert within == {"dc-1/zone-a": 9, "dc-1/zone-b": 4, "dc-1/zone-c": 3}


def test_seventeen_pods_get_the_zones_of_nine_and_eight() -> None:
    bed = Bed({"zone-a": [9], "zone-b": [8], "zone-c": [8], "zone-d": [5]}, "zone")
    for asked in ({}, NEAREST):
        assert sorted(bed.review(job(17, preferred("zone") | asked)).per("zone").values()) == [8, 9]
    sixteen = [sorted(bed.review(job(16, preferred("zone") | asked)).per("zone").values()) for asked in ({}, NEAREST)]
    assert sixteen == [[8, 8], [7, 9]]


def test_a_leader_and_its_workers_go_from_the_zone_that_holds_most_to_the_nearest() -> None:
    bed = Bed({"dc-1": {"zone-a": [9], "zone-b": [4]}, "dc-2": {"zone-d": [8], "zone-e": [8]}}, "dc", "zone")
    roles: dict[str, Any] = {"Master": (1, template(takes=2)), "Worker": (16, template())}
    packed, near = (
        bed.review(training("PyTorchJob", preferred("zone") | asked, **roles)).per("zone") for asked in ({}, NEAREST)
    )
    assert set(packed) == {"dc-1/zone-a", "dc-2/zone-d", "dc-2/zone-e"}
    assert set(near) == {"dc-1/zone-a", "dc-1/zone-b", "dc-2/zone-d"}
