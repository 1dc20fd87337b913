"""Preferred levels that a group does not keep, by what its placed members record."""

import json
from collections.abc import Iterator

import pytest

from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.placing.gang.gang_text import missed_by_members, missed_text

TOPOLOGY = Topology("dc", TopologySource.KAI, (Level("example.com/zone"), Level("example.com/rack")))
PREFERS = ((KAI_TOPOLOGY, "dc"), (KAI_PREFERRED_PLACEMENT, "rack"))


def seats(*racks: str, wishes: tuple[tuple[str, str], ...] = PREFERS) -> Iterator[AssignedMember]:
    """Members in these racks of zone z, in order of rank; `z/r` for one of another zone."""
    for rank, rack in enumerate(racks):
        zone, _, name = rack.rpartition("/")
        domain = json.dumps({"example.com/zone": zone or "z", "example.com/rack": name})
        yield AssignedMember("n", rank, wishes, domain, "uid", True)


def told(*members: AssignedMember) -> str:
    return missed_text(missed_by_members(members, {"dc": TOPOLOGY}))


def test_members_in_several_racks_miss_the_rack_that_they_prefer() -> None:
    assert told(*seats("r1", "r2", "r1")) == "preferred rack missed: in 2 racks (r1, r2)"
    assert told(*seats("r1", "r1")) == ""


def test_racks_of_the_same_name_are_told_with_their_zones() -> None:
    assert told(*seats("a/r1", "b/r1")) == "preferred rack missed: in 2 racks (a/r1, b/r1)"


def test_of_many_racks_the_first_are_named() -> None:
    assert told(*seats(*(f"r{number:02}" for number in range(9)))) == (
        "preferred rack missed: in 9 racks (r00, r01, r02, r03, r04 and 4 more)"
    )


@pytest.mark.parametrize(
    "wishes",
    [
        (),
        ((KAI_TOPOLOGY, "dc"), (KAI_REQUIRED_PLACEMENT, "zone")),
        ((KAI_TOPOLOGY, "gone"), (KAI_PREFERRED_PLACEMENT, "rack")),
        ((KAI_TOPOLOGY, "dc"), (KAI_PREFERRED_PLACEMENT, "no such level")),
        ((KAI_PREFERRED_PLACEMENT, "rack"),),
    ],
)
def test_members_that_prefer_nothing_that_is_known_miss_nothing(wishes: tuple[tuple[str, str], ...]) -> None:
    assert told(*seats("r1", "r2", wishes=wishes)) == ""


def test_members_whose_domain_is_not_recorded_do_not_count() -> None:
    (recorded,) = seats("r1")
    for domain in ("", "{", "[]", '{"example.com/zone": "z"}'):
        assert told(recorded, AssignedMember("n", 1, PREFERS, domain, "uid")) == ""


@pytest.mark.parametrize("domain", ["", '{"example.com/zone": "z"}'])
def test_members_that_we_placed_outside_any_rack_miss_it(domain: str) -> None:
    outside = AssignedMember("n", 1, PREFERS, domain, "uid", True)
    assert told(outside) == "preferred rack missed: outside any rack"
    assert told(*seats("r1"), outside) == "preferred rack missed: in 1 rack (r1) and outside any rack"
    wishes = ((KAI_SEGMENT_PREFERRED_PLACEMENT, "rack"), (KAI_SEGMENT_SIZE, "2"), (KAI_TOPOLOGY, "dc"))
    assert told(AssignedMember("n", 1, wishes, domain, "uid", True)) == "preferred rack missed by 1 of 1 segment"


def test_a_record_of_another_topology_says_nothing() -> None:
    assert told(AssignedMember("n", 1, PREFERS, '{"example.com/row": "x"}', "uid", True)) == ""


def test_segments_are_counted_by_rank() -> None:
    wishes = ((KAI_SEGMENT_PREFERRED_PLACEMENT, "rack"), (KAI_SEGMENT_SIZE, "2"), (KAI_TOPOLOGY, "dc"))
    members = tuple(seats("r1", "r1", "r1", "r2", "r2", "r2", wishes=wishes))
    assert told(*members) == "preferred rack missed by 1 of 3 segments"
    assert told(*members[:2]) == ""
