"""A topology's domains: nodes, what is free and what is the largest free block, and the gangs in each.

1. What each node has is read from the snapshot's arrays, in the order of the tree.
2. Per level, amounts are summed over each domain, and its largest block is the largest of its nodes.
3. Per level, the members of gangs are counted by domain.
4. The domains of the wanted part, down to the wanted level, become records.

The work on arrays grows with nodes times levels, and with members of gangs times levels. Records cost far more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.label_columns import ABSENT
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.state.cluster_cache import ClusterCache
from webhook.views.node_amounts import NodeAmounts, amounts_of, usable_nodes

NODE: Final = "node"
"""The level of a single node in views, whether or not the topology names it."""

# More than a terminal shows without scrolling far; a level of 5,000 nodes must be asked for.
_READABLE: Final = 100
# Topologies have 16 levels at most.
_DIGITS: Final = 2


class Part(NamedTuple):
    """A domain of a tree: its level, and its number in this level."""

    level: int
    number: int


WHOLE: Final = Part(ROOT, 0)


@dataclass(frozen=True, slots=True)
class FreeAmounts:
    """One resource in a domain, in engine units: cpu in millicores, bytes, or pieces."""

    resource: str
    free: int
    """What pods can still request, on nodes that take pods."""
    total: int
    """Allocatable, of all nodes."""
    largest: int | None
    """The most that is free in one NUMA node; None if no NUMA node lists the resource."""
    used: int
    """What pods request, of all nodes: what is neither used nor free is on nodes that take no pods."""


@dataclass(frozen=True, slots=True)
class GangInDomain:
    """The members of a gang that have a node in a domain."""

    namespace: str
    name: str
    pods: int
    """In this domain."""
    of: int
    """In the cluster."""


@dataclass(frozen=True, slots=True)
class DomainView:
    """A domain: the whole cluster, a zone, a rack, ..., or a node."""

    level: str | None
    """The node label; "node" for a node; None for the whole cluster."""
    value: str | None
    """The label's value, or the node's name; None for the whole cluster, and for the nodes without the label."""
    nodes: int
    usable: int
    """The nodes that are ready and not cordoned."""
    amounts: tuple[FreeAmounts, ...]
    gangs: tuple[GangInDomain, ...]
    domains: tuple["DomainView", ...]
    """The next level; empty below the wanted one."""


@dataclass(frozen=True, slots=True)
class TopologyView:
    """A topology, or the plain list of nodes of a cluster without one."""

    name: str
    """Empty without a topology."""
    api_group: str
    levels: tuple[str, ...]
    """The node labels, coarse to fine."""
    depth: str | None
    """The level down to which domains are listed: one of `levels`, "node", or None for the whole cluster only."""
    domains_below: int
    """How many domains the first level has that is not listed; 0 if all are."""
    root: DomainView


def topology_view(
    cache: ClusterCache,
    topology: Topology | None,
    resources: Sequence[str],
    depth: int,
    trees: TopologyTrees,
    part: Part = WHOLE,
) -> TopologyView:
    """The view of a topology. None: of the nodes alone.

    depth: the level of the tree to list, as of `depth_of`; not above the part's. part: the domain that becomes `root`.
    """
    snapshot = cache.snapshot().nodes
    tree = tree_of(snapshot, topology, trees)
    names = level_names(tree)
    columns = _Columns(snapshot, tree, resources, cache.gangs.groups())
    return TopologyView(
        "" if topology is None else topology.name,
        "" if topology is None or topology.source is None else topology.source.value,
        () if topology is None else topology.node_labels,
        names[depth],
        0 if depth == tree.node_level else tree.size(depth + 1),
        columns.view(depth, names, part),
    )


def part_of(path: Sequence[str | None], snapshot: Snapshot, tree: TopologyTree) -> Part | None:
    """The domain to which these values lead, from the coarsest level down. None: there is no such domain."""
    number = 0
    for level, value in enumerate(path, 1):
        if level > tree.node_level:
            return None
        start, end = tree.bounds(level - 1, level)[number : number + 2].tolist()
        found = (each for each in range(start, end) if domain_value(snapshot, tree, level, each) == value)
        if (below := next(found, None)) is None:
            return None
        number = below
    return Part(len(path), number)


def tree_of(snapshot: Snapshot, topology: Topology | None, trees: TopologyTrees) -> TopologyTree:
    """The tree of a topology; without one, the nodes are directly below the root."""
    return trees.tree(topology or NO_TOPOLOGY, snapshot.node_arrays)


def level_names(tree: TopologyTree) -> tuple[str | None, ...]:
    """The name of each level of the tree in views, from the root to the node."""
    return (None, *(level.label for level in tree.levels[1:]), NODE)


def depth_of(reference: str, tree: TopologyTree) -> int:
    """The level of the tree that a user names: a level of the topology, `node`, or a number. Raises UserError."""
    try:
        return tree.topology.level(reference) + 1
    except UserError:
        if reference == NODE:
            return tree.node_level
        if reference.isdecimal() and reference.isascii() and len(reference) <= _DIGITS:
            return min(int(reference), tree.node_level)
        raise


def usual_depth(tree: TopologyTree) -> int:
    """The finest level with few enough domains to read."""
    return max(level for level in range(tree.node_level + 1) if level == ROOT or tree.size(level) <= _READABLE)


class _Columns:
    """What every domain has, by level."""

    def __init__(
        self,
        snapshot: Snapshot,
        tree: TopologyTree,
        resources: Sequence[str],
        gangs: Mapping[str, Mapping[str, AssignedMember]],
    ) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._amounts = [amounts_of(snapshot, resource) for resource in resources]
        self._usable = usable_nodes(snapshot).astype(np.int64)[tree.order]
        self._gangs = _GangCounts(snapshot, tree, gangs)

    def view(self, depth: int, names: Sequence[str | None], part: Part) -> DomainView:
        """A domain, with those below down to the level `depth`."""
        below: tuple[DomainView, ...] = ()
        first_below = 0
        for level in range(depth, part.level - 1, -1):
            start, end = part.number, part.number + 1
            if level > part.level:
                start, end = self._tree.bounds(part.level, level)[start : end + 1].tolist()
            rows = self._rows(level, names[level], slice(start, end))
            if level < depth:
                bounds = (self._tree.bounds(level, level + 1)[start : end + 1] - first_below).tolist()
                rows = [replace(row, domains=below[bounds[n] : bounds[n + 1]]) for n, row in enumerate(rows)]
            below, first_below = tuple(rows), start
        return below[0]

    def _rows(self, level: int, name: str | None, these: slice) -> list[DomainView]:
        tree = self._tree
        nodes = np.diff(tree.bounds(level, tree.node_level))[these].tolist()
        usable = tree.sums(level, self._usable)[these].tolist()
        amounts = [self._amounts_in(level, each, these) for each in self._amounts]
        gangs = self._gangs.of_level(level, these)
        return [
            DomainView(
                name,
                domain_value(self._snapshot, tree, level, number),
                nodes[row],
                usable[row],
                tuple(column[row] for column in amounts),
                tuple(gangs.get(number, ())),
                (),
            )
            for row, number in enumerate(range(these.start, these.stop))
        ]

    def _amounts_in(self, level: int, amounts: NodeAmounts, these: slice) -> list[FreeAmounts]:
        tree = self._tree
        free = tree.sums(level, amounts.free[tree.order])[these].tolist()
        total = tree.sums(level, amounts.total[tree.order])[these].tolist()
        largest = greatest(amounts.largest[tree.order], tree, level)[these].tolist()
        used = tree.sums(level, amounts.used[tree.order])[these].tolist()
        return [
            FreeAmounts(amounts.resource, *row[:2], None if row[2] == UNLISTED else row[2], row[3])
            for row in zip(free, total, largest, used, strict=True)
        ]


def domain_value(snapshot: Snapshot, tree: TopologyTree, level: int, number: int) -> str | None:
    """The value of a domain's own label, or the node's name; None for the root, and for nodes without the label."""
    if level == ROOT:
        return None
    if level == tree.node_level:
        return snapshot.node_arrays.names[int(tree.order[number])]
    of_level = tree.levels[level]
    code = int(of_level.codes[number])
    return None if code == ABSENT else of_level.values[code]


def greatest(amounts: Amounts, tree: TopologyTree, level: int) -> Amounts:
    """int64 [domain]: the greatest amount in each domain of a level. amounts: int64 [position]."""
    if level == tree.node_level:
        return amounts
    if not len(amounts):  # only the root has no nodes
        return np.full(tree.size(level), UNLISTED, dtype=np.int64)
    greatest: Amounts = np.maximum.reduceat(amounts, tree.levels[level].starts[:-1])
    return greatest


class _GangCounts:
    """The members of gangs by domain."""

    def __init__(
        self, snapshot: Snapshot, tree: TopologyTree, gangs: Mapping[str, Mapping[str, AssignedMember]]
    ) -> None:
        index, places = snapshot.node_arrays.index, tree.positions()
        found = [
            (number, places[index[member.node]])
            for number, members in enumerate(gangs.values())
            for member in members.values()
            if member.node in index
        ]
        self._tree = tree
        self._numbers, self._positions = (np.array(found, dtype=np.int64).reshape(-1, 2)).T
        self._gangs = [
            (group.partition("/")[0], next(iter(members.values())).gang, len(members))
            for group, members in gangs.items()
        ]

    def of_level(self, level: int, these: slice) -> dict[int, list[GangInDomain]]:
        """The gangs in each of these domains of a level that has some, by name."""
        count = len(self._gangs)
        if not count:
            return {}
        domains = self._tree.domains(level)[self._positions]
        inside = (domains >= these.start) & (domains < these.stop)
        keys, pods = np.unique(domains[inside] * np.int64(count) + self._numbers[inside], return_counts=True)
        found: dict[int, list[GangInDomain]] = {}
        for key, number in zip(keys.tolist(), pods.tolist(), strict=True):
            domain, gang = divmod(key, count)
            namespace, name, of = self._gangs[gang]
            found.setdefault(domain, []).append(GangInDomain(namespace, name, number, of))
        for gangs in found.values():
            gangs.sort(key=lambda gang: (gang.namespace, gang.name, -gang.pods))
        return found
