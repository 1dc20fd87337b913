"""Parts in several topologies as one gang without levels: for each choice of their domains, an exact search.

1. Every subgroup that requires a level has the domains of it that have room for the subgroup alone.
2. For each combination of such domains, each pod is held to its subgroup's domain by the labels of the nodes there.
   What is left is a gang of different pods without levels, which the engine places exactly, up to its own limit.
3. If no combination holds all of them, and none was left out, there is no place.

Not for segments, subgroups inside a subgroup that requires a level, or running members. Preferred levels do not count.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from operator import attrgetter
from typing import Final

import numpy as np

from webhook.engine.gang.caps import Caps
from webhook.engine.gang.gang_spec import Gang, OtherTopology, PodSet
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.slices import pods_by_class, slice_gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree

TRIES: Final = 8
"""The most combinations of domains. At 5,000 nodes one of them may take some tens of milliseconds."""

Place = Callable[[Snapshot, TopologyTree, Gang], GangAssignment]
"""Places a gang in one topology."""


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
    """The placement of these parts, of which each has its minimum or none is placed."""
    units = [unit for part in parts for unit in _units(part)]
    if None in units:
        return FixedDomains(None, certain=False)
    known = [unit for unit in units if unit is not None]
    domains = [unit.domains(snapshot) for unit in known]
    certain = prod(map(len, domains)) <= TRIES
    for chosen in islice(product(*domains), TRIES):
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
