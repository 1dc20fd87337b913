"""Gangs of equal pods on random trees, and a brute-force search on them."""

from itertools import product

from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import Domain, TopologyTree

NODES = 7


paths = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["r1", "r2", "r10", None])), min_size=1, max_size=NODES
)


free_slots = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES)


constraints = st.sampled_from(
    [
        Constraint(),
        Constraint(ZONE),
        Constraint(RACK),
        Constraint(None, ZONE),
        Constraint(None, RACK),
        Constraint(ZONE, RACK),
    ]
)


segments = st.none() | st.builds(
    Segments,
    st.integers(2, 4),
    st.sampled_from([Constraint(RACK), Constraint(ZONE), Constraint(3), Constraint(None, RACK)]),
)


def domains(tree: TopologyTree, level: int) -> list[list[int]]:
    """The positions of each domain that may be picked."""
    real = tree.real(level)
    spans = [tree.span(Domain(level, number)) for number in range(tree.size(level)) if real[number]]
    return [list(range(span.start, span.stop)) for span in spans]


def cut(count: int, size: int) -> list[int]:
    """The segments of a gang."""
    return [min(size, count - start) for start in range(0, count, size)]


def holds(tree: TopologyTree, slots: list[int], inside: list[int], count: int, cutting: Segments | None) -> bool:
    """Whether the positions hold this many pods, by trying every domain for every segment."""
    if cutting is None:
        return sum(slots[position] for position in inside) >= count
    for level in cutting.constraint.levels():
        places = [[position for position in domain if position in inside] for domain in domains(tree, level)]
        rooms = [sum(slots[position] for position in place) for place in places]
        pieces = cut(count, cutting.size)
        for choice in product(range(len(places)), repeat=len(pieces)):
            taken = [
                sum(piece for piece, at in zip(pieces, choice, strict=True) if at == n) for n in range(len(places))
            ]
            if all(room >= used for room, used in zip(rooms, taken, strict=True)):
                return True
    return False
