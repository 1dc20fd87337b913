"""A gang whose parts are in different topologies: the parts placed one after the other, all or none.

1. Each part by itself, on all nodes. One that does not fit alone never fits beside the others: this answer is certain.
2. If the whole gang requires a level of its own topology, domain after domain of that level: first the one that would
   hold the gang without its parts' requests, then those with the most room. Otherwise, all nodes.
3. There, part after part, each beside those before it, which count as running (`settled`): no two parts get the same
   resources of a NUMA node. First in the order of the gang, then in the reverse order.
4. A part takes the place that suits it best. If the parts after it then fit nowhere, it is tried off the nodes that
   these would take, and in the other domains of the level that it requires.
5. First with all pods of each part, then with its minimum alone: pods beyond the minimum never stand in another
   part's way. They are placed later, beside it.
6. If all that fails, the domains of the parts are fixed, in each combination, and an exact search shares out the nodes
   (`place_in_fixed_domains`).
7. Steps 3 to 5 end after TRIES placements, step 6 after MOST_COMBINATIONS. If something was left out, the answer is
   that no place was found, not that there is none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from operator import attrgetter
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.gang.admission_replay import settled
from webhook.engine.gang.gang_spec import Constraint, Gang, OtherTopology, PodSet
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Caps
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.result import GangAssignment, PodSetAssignment, Shortfall
from webhook.engine.gang.slices import pods_by_class, slice_gang
from webhook.engine.request import named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree

MOST_COMBINATIONS: Final = 8
"""Combinations of domains that are tried. At 5,000 nodes one of them may take some tens of milliseconds."""

Place = Callable[[Snapshot, TopologyTree, Gang], GangAssignment]
"""Places a gang in one topology."""
TRIES: Final = 24
"""The most placements of parts. At 5,000 nodes one of them, with what it leaves, takes about 13 ms."""


@dataclass(frozen=True, slots=True)
class FixedDomains:
    """The placement of each part, in their order, or None."""

    found: tuple[GangAssignment, ...] | None
    certain: bool
    """Whether None is certain."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """The pods of one subgroup, or of a part without subgroups."""

    tree: TopologyTree
    gang: Gang

    def domains(self, snapshot: Snapshot) -> list[Domain]:
        """Step 1: those with the most room first."""
        level = self.gang.constraint.required
        if level is None:
            return [Domain(ROOT, 0)]
        pods = pods_by_class(slice_gang(snapshot, self.tree, self.gang).all_slices(), attrgetter("minimum"))
        room = Remaining(snapshot, self.tree, Caps()).holds(level, pods)
        able = np.flatnonzero(self.tree.real(level) & (room >= sum(podset.minimum for podset in self.gang.sets)))
        return [Domain(level, number) for number in able[np.argsort(-room[able], kind="stable")].tolist()]

    def held_to(self, domain: Domain) -> list[PodSet] | None:
        """Its pod sets, held to a domain; None if they select other nodes."""
        labels = dict(self.tree.path(domain))
        if any(
            podset.pod.node_selector.get(key, value) != value
            for podset in self.gang.sets
            for key, value in labels.items()
        ):
            return None
        return [
            replace(podset, pod=replace(podset.pod, node_selector={**podset.pod.node_selector, **labels}))
            for podset in self.gang.sets
        ]


def place_in_fixed_domains(snapshot: Snapshot, parts: Sequence[OtherTopology], place: Place) -> FixedDomains:
    """The placement of these parts, of which each has its minimum or none is placed: all as one gang without levels.

    1. Every subgroup that requires a level has the domains of it that have room for the subgroup alone.
    2. For each combination of such domains, each pod is held to its subgroup's domain by the labels of the nodes there.
       What is left is a gang of different pods without levels, which the engine places exactly, up to its own limit.
    3. If no combination holds all of them, and none was left out, there is no place.

    Not for segments, subgroups inside a subgroup that requires a level, or running members. Preferred levels do not
    count.
    """
    units = [unit for part in parts for unit in _units(part)]
    if None in units:
        return FixedDomains(None, certain=False)
    known = [unit for unit in units if unit is not None]
    domains = [unit.domains(snapshot) for unit in known]
    certain = prod(map(len, domains)) <= MOST_COMBINATIONS
    for chosen in islice(product(*domains), MOST_COMBINATIONS):
        held = [unit.held_to(domain) for unit, domain in zip(known, chosen, strict=True)]
        if None in held:
            continue
        sets = tuple(podset for some in held for podset in some or ())
        placement = place(snapshot, parts[0].tree, Gang("together", sets=sets))
        if placement.assigned:
            return FixedDomains(tuple(_of_part(part, placement) for part in parts), certain=True)
        certain = certain and placement.exhaustive
    return FixedDomains(None, certain)


def _units(part: OtherTopology) -> Iterator[_Unit | None]:
    """The subgroups of a part; None for one that is not to be placed like this."""
    gang = part.gang
    if any(podset.running or podset.segments for podset in gang.own_sets()):
        yield None
    elif not gang.subgroups:
        yield _Unit(part.tree, gang)
    elif gang.constraint.required is not None:
        yield None
    else:
        if gang.sets:
            yield _Unit(part.tree, replace(gang, subgroups=()))
        for subgroup in gang.subgroups:
            yield from _units(OtherTopology(part.tree, subgroup))


def _of_part(part: OtherTopology, placement: GangAssignment) -> GangAssignment:
    """What a placement of all parts says of one."""
    sets = {podset.name: podset for podset in part.gang.own_sets()}
    mine = tuple(
        replace(each, podset=sets[each.podset.name]) for each in placement.assignments if each.podset.name in sets
    )
    level, domain = part.gang.constraint.required, Domain(ROOT, 0)
    nodes = [node for each in mine for node in each.nodes.tolist()]
    if level is not None and nodes:
        domain = Domain(level, part.tree.containing(int(part.tree.positions()[nodes[0]]), level))
    return GangAssignment(part.gang, placement.snapshot, part.tree, True, domain, mine, tuple)


_Found = tuple[GangAssignment, ...]


class SeveralTopologies:
    """The placement of one gang."""

    def __init__(self, snapshot: Snapshot, tree: TopologyTree, gang: Gang, place: Place) -> None:
        self._snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
        self._tree = tree
        self._gang = gang
        self._place = place
        own = OtherTopology(tree, replace(gang, name=_own_name(gang), elsewhere=()))
        self._parts = [part for part in (own, *gang.elsewhere) if any(each.members for each in part.gang.own_sets())]
        self._alone: dict[int, GangAssignment] = {}
        self._tries = TRIES
        self._failed: GangAssignment | None = None
        self._certain = True

    def run(self) -> GangAssignment:
        """The placement of all parts, or why there is none."""
        for part in self._parts:
            alone = self._alone[id(part)] = self._place(self._snapshot, part.tree, part.gang)
            if not alone.assigned:
                return self._not_placed(alone, certain=alone.exhaustive)
        whole = None
        if self._gang.constraint.required is not None:
            gang = replace(self._gang, sets=self._gang.all_sets(), subgroups=(), elsewhere=())
            whole = self._place(self._snapshot, self._tree, _one_by_one(gang))
            if not whole.assigned:
                return self._not_placed(whole, certain=whole.exhaustive)
        for domain in self._wholes(whole):
            if self._tries <= 0:
                self._certain = False
                break
            view = self._snapshot if domain.level == ROOT else self._snapshot.closed(~_nodes_of(self._tree, domain))
            found = self._in(view)
            if found is not None:
                assignments = tuple(each for part in found for each in part.assignments)
                return GangAssignment(
                    self._gang, self._snapshot, self._tree, True, domain, assignments, tuple, parts=found
                )
        return self._not_placed(self._failed or self._alone[id(self._parts[0])], certain=self._certain)

    def _wholes(self, whole: GangAssignment | None) -> Iterator[Domain]:
        """Step 2."""
        level = self._gang.constraint.required
        if whole is None or whole.domain is None or level is None:
            yield Domain(ROOT, 0)
            return
        first = self._tree.ancestor(whole.domain, level)
        yield first
        if any(podset.running for podset in self._gang.all_sets()):
            return  # they hold the others to this domain
        pods = pods_by_class(slice_gang(self._snapshot, self._tree, whole.gang).all_slices(), attrgetter("minimum"))
        room = Remaining(self._snapshot, self._tree, Caps()).holds(level, pods)
        needed = sum(podset.minimum for podset in self._gang.all_sets())
        able = np.flatnonzero(self._tree.real(level) & (room >= needed))
        for number in able[np.argsort(-room[able], kind="stable")].tolist():
            if number != first.number:
                yield Domain(level, number)

    def _in(self, view: Snapshot) -> _Found | None:
        """Steps 3 to 6 on these nodes."""
        orders = [self._parts, self._parts[::-1]][: len(self._parts)]
        for full in (True, False):
            for order in orders:
                # A part's minimum is placed in another way only if that makes a difference.
                if full or any(_trimmed(part.gang) is not part.gang for part in order):
                    found = self._after(order, view, full=full)
                    if found is not None:
                        by_part = {id(placement.tree): placement for placement in found}
                        return tuple(by_part[id(part.tree)] for part in self._parts)
        # The view has no other domain of the level that the whole gang requires.
        free = [
            replace(part, gang=replace(part.gang, constraint=Constraint(None, part.gang.constraint.preferred)))
            if part.tree is self._tree
            else part
            for part in self._parts
        ]
        fixed = place_in_fixed_domains(view, free, self._place)
        self._certain = self._certain and fixed.certain
        if fixed.found is None:
            return None
        return tuple(
            replace(placement, gang=part.gang) for placement, part in zip(fixed.found, self._parts, strict=True)
        )

    def _after(self, order: Sequence[OtherTopology], snapshot: Snapshot, *, full: bool) -> _Found | None:
        """The parts in this order in what a snapshot has left; None if one fits nowhere, or the tries are used up."""
        if not order:
            return ()
        part, *rest = order
        gang = part.gang if full else _trimmed(part.gang)
        for closed in self._choices(part, rest):
            if self._tries <= 0:
                return None
            self._tries -= 1
            placement = self._place(snapshot if closed is None else snapshot.closed(closed), part.tree, gang)
            if not placement.assigned:
                if closed is None:
                    self._failed = self._failed or placement
                    return None
                continue
            after = self._after(
                rest, settled(snapshot, _sequences(snapshot, placement)) if rest else snapshot, full=full
            )
            if after is not None:
                return (_untrimmed(placement, part.gang), *after)
        return None

    def _choices(self, part: OtherTopology, rest: Sequence[OtherTopology]) -> Iterator[Bools | None]:
        """Step 4: the nodes that are closed to a part, bool [node]; None = none."""
        yield None
        if not rest:
            return
        kept = np.zeros(self._tree.n, dtype=np.bool_)
        for other in rest:
            kept |= _nodes_taken(self._alone[id(other)])
        yield kept
        level = part.gang.constraint.required
        if level is None:
            return
        for number in np.flatnonzero(part.tree.real(level)).tolist():
            outside = ~_nodes_of(part.tree, Domain(level, number))
            yield outside | kept
            yield outside

    def _not_placed(self, failed: GangAssignment, *, certain: bool) -> GangAssignment:
        def explain() -> tuple[Shortfall, ...]:
            return tuple(replace(short, part=part_text(failed)) for short in failed.why)

        return GangAssignment(self._gang, self._snapshot, self._tree, False, None, (), explain, certain)


def _own_name(gang: Gang) -> str:
    """The name of the part in the gang's own topology: that of its subgroups if it consists of these."""
    return gang.name if gang.sets else ", ".join(subgroup.name for subgroup in gang.subgroups) or gang.name


def part_text(placement: GangAssignment) -> str:
    """A part and its topology, for people."""
    topology = placement.tree.topology.name
    return f"part {placement.name}" + (f" (topology {topology})" if topology else "")


def _one_by_one(gang: Gang) -> Gang:
    """The gang without segments."""
    return replace(gang, sets=tuple(replace(podset, segments=None) for podset in gang.sets))


def _trimmed(gang: Gang) -> Gang:
    """The gang with the minimum of each pod set; itself if it has no more."""
    if all(len(podset.members) == podset.minimum for podset in gang.own_sets()):
        return gang
    return replace(
        gang,
        sets=tuple(replace(podset, members=podset.members[: podset.minimum]) for podset in gang.sets),
        subgroups=tuple(map(_trimmed, gang.subgroups)),
    )


def _untrimmed(placement: GangAssignment, gang: Gang) -> GangAssignment:
    """The placement with the pod sets of the whole part, so that it says who is left."""
    if placement.gang is gang:
        return placement
    whole = {podset.name: podset for podset in gang.own_sets()}
    assignments = tuple(replace(each, podset=whole[each.podset.name]) for each in placement.assignments)
    none = np.zeros(0, dtype=np.int64)
    left = (podset for name, podset in whole.items() if name not in {each.podset.name for each in assignments})
    more = tuple(PodSetAssignment(podset, none, none, none) for podset in left)
    return replace(placement, gang=gang, assignments=assignments + more)


def _sequences(snapshot: Snapshot, placement: GangAssignment) -> dict[int, list[PodClass]]:
    """The pods of a placement by node (n)."""
    sequences: dict[int, list[PodClass]] = {}
    for each in placement.assignments:
        pod_class = PodClass.of(snapshot, each.podset.pod, each.podset.intent)
        for node in each.nodes.tolist():
            sequences.setdefault(node, []).append(pod_class)
    return sequences


def _nodes_taken(placement: GangAssignment) -> Bools:
    """Bool [node]: the nodes of the domain that a placement takes at its required level, else those of its pods."""
    level, tree = placement.gang.constraint.required, placement.tree
    if level is not None and placement.domain is not None:
        return _nodes_of(tree, tree.ancestor(placement.domain, level))
    taken = np.zeros(tree.n, dtype=np.bool_)
    for each in placement.assignments:
        taken[each.nodes] = True
    return taken


def _nodes_of(tree: TopologyTree, domain: Domain) -> Bools:
    """Bool [node]: the nodes of a domain."""
    inside = np.zeros(tree.n, dtype=np.bool_)
    inside[tree.order[tree.span(domain)]] = True
    return inside
