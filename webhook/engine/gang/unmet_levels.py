"""Preferred levels that an assigned gang misses: its pods, or those of a segment, are in several domains or in none.

Required levels always hold. Preferred levels may be missed, and are reported here: for the gang, its subgroups, and
the segments of each pod set. Running members count where they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.gang_spec import ANYWHERE, Gang, PodSet
from webhook.engine.gang.result import GangAssignment, Path, PodSetAssignment
from webhook.engine.topology.tree import ROOT, Domain


def domains_of(placement: GangAssignment) -> Mapping[str, tuple[Domain, ...]]:
    """Pod set -> the domains of its assigned pods, in tree order, for constraints that keep the pods there.

    The finest required level applies to a pod set: that of the gang, of its subgroup, or of its segments. A gang that
    requests a level also stays in the domain found for all of it, even if that level was only preferred.
    """
    found: dict[str, set[Domain]] = {}
    positions = placement.tree.positions()
    for each, level in _levels_of_assignments(placement):
        here = np.unique(positions[each.nodes]).tolist()
        domains = (Domain(level, placement.tree.containing(position, level)) for position in here)
        found.setdefault(each.podset.name, set()).update(domains)
    return {name: tuple(sorted(domains)) for name, domains in found.items()}


def domain_of_pod(placement: GangAssignment, name: str) -> Domain | None:
    """The domain of one assigned pod; None without an assignment."""
    for each, level in _levels_of_assignments(placement):
        for member, node in zip(each.members.tolist(), each.nodes.tolist(), strict=True):
            if each.podset.members[member].name == name:
                position = int(placement.tree.positions()[node])
                return Domain(level, placement.tree.containing(position, level))
    return None


def _levels_of_assignments(placement: GangAssignment) -> Iterator[tuple[PodSetAssignment, int]]:
    asks = placement.gang.constraint != ANYWHERE
    whole = placement.domain.level if asks and placement.domain is not None else ROOT
    levels = dict(_levels(placement.gang, whole))
    for each in placement.assignments:
        yield each, min(levels[each.podset.name], placement.tree.node_level)


def _levels(gang: Gang, above: int) -> Iterator[tuple[str, int]]:
    """(name, level) of each pod set. above: the level that applies to the gang above."""
    here = max(above, gang.constraint.bound)
    for podset in gang.sets:
        segment = ROOT if podset.segments is None else podset.segments.finest.constraint.bound
        yield podset.name, max(here, segment)
    for subgroup in gang.subgroups:
        yield from _levels(subgroup, here)


@dataclass(frozen=True, slots=True)
class Missed:
    """One preferred level."""

    part: str
    """The subgroup, or the pod set with these segments; empty for the whole gang."""
    label: str
    """Node label of the level."""
    domains: tuple[Path, ...] = ()
    """The domains of the level in which the pods are, in tree order; empty for segments."""
    outside: bool = False
    """Whether pods are on nodes without the label, which are in no domain of the level."""
    segments: int = 0
    """Number of segments in several domains, or outside any."""
    of: int = 0
    """Number of segments."""


def missed_levels(placement: GangAssignment) -> tuple[Missed, ...]:
    """Missed levels of the gang, coarse subgroups first."""
    if not placement.assigned:
        return ()
    if placement.parts:
        return tuple(missed for part in placement.parts for missed in _Reader(part).of_gang(part.gang, part.name))
    return tuple(_Reader(placement).of_gang(placement.gang, ""))


class _Reader:
    def __init__(self, placement: GangAssignment) -> None:
        self._tree = placement.tree
        self._index = placement.snapshot.node_arrays.index
        self._positions = placement.tree.positions()
        self._assignments = {id(each.podset): each for each in placement.assignments}

    def of_gang(self, gang: Gang, name: str) -> Iterator[Missed]:
        level = gang.constraint.preferred
        if level is not None:
            nodes = [self._nodes(podset) for podset in gang.all_sets()]
            domains = np.unique(self._domains(level, np.concatenate(nodes))) if nodes else np.array([])
            real = self._tree.real(level)[domains.astype(np.int64)]
            if len(domains) > 1 or not real.all():
                paths = tuple(self._tree.path(Domain(level, number)) for number in domains[real].tolist())
                yield Missed(name, self._label(level), paths, outside=not real.all())
        for podset in gang.sets:
            yield from self._of_segments(podset)
        for subgroup in gang.subgroups:
            yield from self.of_gang(subgroup, subgroup.name)

    def _of_segments(self, podset: PodSet) -> Iterator[Missed]:
        level = None if podset.segments is None else podset.segments.constraint.preferred
        if podset.segments is None or level is None:
            return
        segments = (self._ranks(podset) - podset.segments.first) // podset.segments.size
        pairs = np.unique(np.stack([segments, self._domains(level, self._nodes(podset))]), axis=1)
        numbers, domains = np.unique(pairs[0], return_counts=True)
        outside = pairs[0][~self._tree.real(level)[pairs[1]]]
        if missed := len(np.union1d(numbers[domains > 1], outside)):
            yield Missed(podset.name, self._label(level), segments=missed, of=len(numbers))

    def _nodes(self, podset: PodSet) -> Amounts:
        """int64 [pod]: the nodes (n) of the pod set's running or assigned pods."""
        running = [self._index[name] for _, name in podset.running if name in self._index]
        each = self._assignments.get(id(podset))
        return np.concatenate([np.array(running, dtype=np.int64), [] if each is None else each.nodes]).astype(np.int64)

    def _ranks(self, podset: PodSet) -> Amounts:
        """int64 [pod]: their ranks, in the same order."""
        running = [rank for rank, name in podset.running if name in self._index]
        each = self._assignments.get(id(podset))
        assigned = [] if each is None else [podset.members[member].rank for member in each.members.tolist()]
        return np.array([*running, *assigned], dtype=np.int64)

    def _domains(self, level: int, nodes: Amounts) -> Amounts:
        """int64 [pod]: the number of each node's domain at a level."""
        domains: Amounts = self._tree.domains(level)[self._positions[nodes]].astype(np.int64)
        return domains

    def _label(self, level: int) -> str:
        return self._tree.topology.levels[level - 1].node_label
