"""The domains of an assigned gang's pods, for constraints that keep them there.

The finest required level applies to a pod set: that of the gang, of its subgroup, or of its segments. A gang that
requests a level also stays in the domain found for all of it, even if that level was only preferred.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.result import GangAssignment, PodSetAssignment
from webhook.engine.topology.tree import ROOT, Domain


def domains_of(placement: GangAssignment) -> Mapping[str, tuple[Domain, ...]]:
    """Pod set -> the domains of its assigned pods, in tree order."""
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
