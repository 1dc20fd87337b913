"""How much room the cluster has, for its metrics: what is free of each resource, and in which blocks.

A pod with a NUMA policy needs a block on one NUMA node, a gang with a required level one domain. So the totals alone do
not say whether anything fits.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import UNLISTED
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology
from webhook.model.resources import CPU
from webhook.views.domains import domain_value, greatest
from webhook.views.node_amounts import NodeAmounts, amounts_of, usual_resources

# A series costs the monitoring 3 KB. With at most 4 resources, 4 topologies of 32 domains make 1,024 of them. Coarse
# levels have few domains; of the finer ones, the largest one says whether a gang fits.
_DOMAINS: Final = 32
_TOPOLOGIES: Final = 4


class Room(NamedTuple):
    """What is free of a resource within the whole cluster or one domain, in cores, bytes or pieces."""

    resource: str
    topology: str
    """Empty: the whole cluster."""
    level: str
    """The node label of the domain's level."""
    domain: str
    """The values from the coarsest level to its own: `zone-a/rack-1`. Empty: whichever domain of the level has most."""
    free: float
    """In total; on ready nodes that are not cordoned."""
    largest: float | None
    """On one NUMA node; None: no NUMA node lists it."""


def rooms(snapshot: Snapshot, topologies: Iterable[Topology], trees: TopologyTrees) -> Iterator[Room]:
    """The room in the cluster, and in the domains of the first topologies by name."""
    amounts = [amounts_of(snapshot, resource) for resource in usual_resources(snapshot)]
    for each in amounts:
        yield _room(each.resource, ("", "", ""), int(each.free.sum()), int(each.largest.max(initial=UNLISTED)))
    for topology in sorted(topologies, key=lambda topology: (topology.source is None, topology.name))[:_TOPOLOGIES]:
        yield from _of_tree(snapshot, trees.tree(topology, snapshot.node_arrays), amounts)


def _of_tree(snapshot: Snapshot, tree: TopologyTree, amounts: Iterable[NodeAmounts]) -> Iterator[Room]:
    levels = range(ROOT + 1, tree.node_level)
    named = [count <= _DOMAINS for count in accumulate(tree.size(level) for level in levels)]
    names = [""]
    for level, is_named in zip(levels, named, strict=True):
        parents = np.repeat(np.arange(len(names)), np.diff(tree.bounds(level - 1, level))).tolist()
        values = [domain_value(snapshot, tree, level, number) or "-" for number in range(tree.size(level))]
        names = [f"{names[parent]}/{value}".lstrip("/") for parent, value in zip(parents, values, strict=True)]
        real = np.flatnonzero(tree.real(level)).tolist()
        if not real:
            continue
        label = tree.levels[level].label
        for each in amounts:
            free = tree.sums(level, each.free[tree.order])
            largest = greatest(each.largest[tree.order], tree, level)
            name = tree.topology.name
            yield _room(each.resource, (name, label, ""), int(free[real].max()), int(largest[real].max()))
            for number in real if is_named else ():
                yield _room(each.resource, (name, label, names[number]), int(free[number]), int(largest[number]))


def _room(resource: str, place: tuple[str, str, str], free: int, largest: int) -> Room:
    """free, largest: in engine units; UNLISTED: no NUMA node lists it."""
    unit = 1000 if resource == CPU else 1
    return Room(resource, *place, free / unit, None if largest == UNLISTED else largest / unit)
