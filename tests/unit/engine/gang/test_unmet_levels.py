"""Preferred levels at which a gang, a pod set or its segments use more than one domain."""

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, podset, racks, whole_nodes
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint, Gang, PodSet, Segments
from webhook.engine.gang.unmet_levels import Missed, missed_levels

# zone-a ─┬─ rack-1 ── n0 [4]        [free GPUs]
#         └─ rack-2 ── n1 [2]
# zone-b ─── rack-1 ── n2 [2]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-2", n2="zone-b/rack-1")
FREE = {"n0": {GPU: 4}, "n1": {GPU: 2}, "n2": {GPU: 2}}
RACK_LABEL, ZONE_LABEL = "example.com/rack", "example.com/zone"
BY_RACK = Constraint(None, RACK)


def missed(asked: Gang) -> tuple[Missed, ...]:
    answer = assigned(whole_nodes(places=PLACES, free=FREE), asked)
    assert answer.assigned
    return missed_levels(answer)


def workers(count: int, segments: Segments | None = None, running: tuple[tuple[int, str], ...] = ()) -> PodSet:
    return podset(name="w", of=gpus(), count=count, segments=segments, running=running)


@pytest.mark.parametrize(
    ("count", "constraint"),
    [
        (4, BY_RACK),
        (6, Constraint(ZONE)),
        (6, Constraint(None, ZONE)),
        (8, Constraint()),
        (4, Constraint(RACK, RACK)),
    ],
    ids=["one rack", "zone required", "one zone", "no wish", "rack required"],
)
def test_nothing_is_missed_where_one_domain_holds_all_or_none_was_preferred(count: int, constraint: Constraint) -> None:
    assert missed(group(workers(count), constraint=constraint)) == ()


def test_a_preferred_level_is_missed_with_the_domains_that_were_used_instead() -> None:
    (found,) = missed(group(workers(6), constraint=Constraint(ZONE, RACK)))
    assert (found.part, found.label, found.segments) == ("", RACK_LABEL, 0)
    assert found.domains == (
        ((ZONE_LABEL, "zone-a"), (RACK_LABEL, "rack-1")),
        ((ZONE_LABEL, "zone-a"), (RACK_LABEL, "rack-2")),
    )


def test_domains_of_the_same_name_in_different_places_are_different() -> None:
    (found,) = missed(group(workers(8), constraint=BY_RACK))
    assert len(found.domains) == 3


def test_members_that_run_count() -> None:
    (found,) = missed(group(workers(4, running=((0, "n2"),)), constraint=BY_RACK))
    assert len(found.domains) > 1


def test_nodes_without_the_label_are_in_no_domain_of_it() -> None:
    cluster = whole_nodes(places=racks(n0="zone-a/rack-1", n1="zone-a/"), free={"n0": {GPU: 1}, "n1": {GPU: 1}})
    answer = assigned(cluster, group(workers(2), constraint=BY_RACK))
    (found,) = missed_levels(answer)
    assert ([path[-1][1] for path in found.domains], found.outside) == (["rack-1"], True)


def test_a_gang_on_one_node_outside_any_rack_misses_the_rack_that_it_prefers() -> None:
    # n0 lacks the rack, n1 the zone above its rack: neither is in a rack.
    for place in ("zone-a/", "/rack-1"):
        cluster = whole_nodes(places=racks(n0=place), free={"n0": {GPU: 4}})
        (found,) = missed_levels(assigned(cluster, group(workers(2), constraint=BY_RACK)))
        assert (found.label, found.domains, found.outside) == (RACK_LABEL, (), True)
        (segments,) = missed_levels(assigned(cluster, group(workers(4, Segments(2, BY_RACK)))))
        assert (segments.label, segments.segments, segments.of) == (RACK_LABEL, 2, 2)


def test_a_part_misses_its_own_level() -> None:
    part = group(workers(6), constraint=BY_RACK, name="workers")
    leader = podset(name="leader", of=gpus(), count=1)
    (found,) = missed(group(leader, part))
    assert (found.part, found.label) == ("workers", RACK_LABEL)


def test_segments_are_counted() -> None:
    # Three pods each: one segment fits into rack-1 of zone-a, the other is split.
    asked = group(workers(6, Segments(3, BY_RACK)), constraint=Constraint(None))
    (found,) = missed(asked)
    assert (found.part, found.label, found.segments, found.of) == ("w", RACK_LABEL, 1, 2)
    assert missed(group(workers(8, Segments(2, BY_RACK)))) == ()


def test_a_group_without_a_place_has_missed_nothing_yet() -> None:
    answer = assigned(whole_nodes(places=PLACES, free=FREE), group(workers(60), constraint=BY_RACK))
    assert missed_levels(answer) == ()
