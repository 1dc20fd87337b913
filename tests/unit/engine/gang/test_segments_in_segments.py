"""Segments inside segments whose members run in part: each new member joins the smallest segment that has begun.

zone-a ── rack-1 ── n0        zone-b ── rack-3 ── n3
       ├─ rack-2 ── n1               └─ rack-4 ── n4
       └─ rack-5 ── n2
"""

from collections.abc import Mapping

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, podset, racks, whole_nodes
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.gang.unmet_levels import domains_of

PLACES = racks(n0="a/1", n1="a/2", n2="a/5", n3="b/3", n4="b/4")
FOURS_OF_PAIRS = Segments(4, Constraint(ZONE), 0, Segments(2, Constraint(RACK)))


def nodes_of(free: tuple[int, ...], count: int, running: Mapping[int, str]) -> dict[str, str]:
    """Where the missing members go, given the free GPUs of each node."""
    state = whole_nodes(places=PLACES, free={name: {GPU: room} for name, room in zip(PLACES, free, strict=True)})
    asked = podset(
        name="w", of=gpus(), count=count - len(running), segments=FOURS_OF_PAIRS, running=tuple(running.items())
    )
    answer = assigned(state, group(asked))
    return {pod.name: pod.node for pod in answer.pods()} if answer.assigned else {}


@pytest.mark.parametrize(
    ("free", "running", "found"),
    [
        # Pod 1 belongs beside pod 0, although another rack is emptier.
        ((1, 4, 4, 4, 4), {0: "n0", 2: "n1", 3: "n1"}, {"w-1": "n0"}),
        # Its rack is full, and no other one may hold it.
        ((0, 4, 4, 4, 4), {0: "n0", 2: "n1", 3: "n1"}, {}),
        # A whole pair is missing: it may go to any rack, of the zone of the other pair.
        ((0, 1, 2, 4, 4), {0: "n0", 1: "n0"}, {"w-2": "n2", "w-3": "n2"}),
        ((0, 1, 1, 4, 4), {0: "n0", 1: "n0"}, {}),
        # One of a pair and a whole pair.
        ((1, 0, 2, 4, 4), {0: "n0"}, {"w-1": "n0", "w-2": "n2", "w-3": "n2"}),
        # A second segment of four, which has not begun, goes to any zone.
        ((0, 0, 1, 2, 2), {0: "n0", 1: "n0", 2: "n1", 3: "n1"}, {"w-4": "n3", "w-5": "n3", "w-6": "n4", "w-7": "n4"}),
    ],
)
def test_a_new_member_joins_the_smallest_segment_that_has_begun(
    free: tuple[int, ...], running: dict[int, str], found: dict[str, str]
) -> None:
    assert nodes_of(free, 8 if len(running) == 4 else 4, running) == found


def test_pods_are_kept_in_the_domains_of_the_smallest_segments() -> None:
    state = whole_nodes(places=PLACES, free={name: {GPU: 2} for name in PLACES})
    answer = assigned(state, group(podset(name="w", of=gpus(), count=4, segments=FOURS_OF_PAIRS)))
    assert {domain.level for domain in domains_of(answer)["w"]} == {RACK}


@pytest.mark.parametrize(
    ("free", "pods"), [((4, 1), 0), ((4, 3), 0), ((4, 4), 8), ((9, 0), 9), ((8, 0), 8), ((3, 3), 0)]
)
def test_a_minimum_that_ends_inside_a_segment_waits_for_the_whole_segment(free: tuple[int, int], pods: int) -> None:
    places = racks(n0="a/1", n1="a/2")
    state = whole_nodes(places=places, free={name: {GPU: room} for name, room in zip(places, free, strict=True)})
    asked = podset(name="w", of=gpus(), count=9, minimum=5, segments=Segments(4, Constraint(RACK)))
    answer = assigned(state, group(asked))
    assert (answer.assigned, len(list(answer.pods()))) == (pods > 0, pods)
