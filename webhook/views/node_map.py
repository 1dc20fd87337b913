"""The map: each node of a domain as a tile with its NUMA nodes as cells, and how much of one resource each has used.

1. The scope is a domain of a topology, or a part of its nodes.
2. Up to MOST_TILES nodes are a tile each, with a cell for each NUMA node that lists the resource; where none does, with
   one cell. Of more nodes, a tile is a domain of the finest level with few enough tiles, and a cell is a node. A domain
   of more than `_CELLS` nodes has several tiles.
3. Tiles are in blocks, by the domain above them.

The work on arrays grows with the scope's nodes. So do the records, by cells: a node has at most 16.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import NO_ZONE, UNLISTED, Codes
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import Part, domain_value
from webhook.views.nodes import silent_exporters

MOST_TILES: Final = 1200
"""So many fit on a screen of 1280 x 800 at 16 x 9 pixels, with their racks around them."""
_CELLS: Final = 64
"""Nodes of one tile: 8 x 8 cells are still told apart."""
_LONGEST_BLOCK: Final = 2 * _CELLS
"""Tiles of one block. A rack holds fewer; all nodes of a cluster without a topology are cut into several blocks."""

Values = tuple[str | None, ...]
"""The domain of each level, from the coarsest down; None: the nodes without the level's label."""


class Condition(StrEnum):
    """Whether a node takes pods, and whether its NUMA nodes are known. The first that applies."""

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    UNKNOWN = "Unknown"
    """No NodeResourceTopology lists its NUMA nodes."""
    SILENT = "Silent"
    """Its exporter has not shown a pod that was bound some time ago."""
    USABLE = "Usable"


class Cell(NamedTuple):
    """A NUMA node, or in a tile of a domain a node. Amounts in engine units."""

    name: str
    used: int
    total: int
    condition: Condition
    chosen: bool = False
    """Whether the answer to a question uses it."""


class GangHere(NamedTuple):
    """A gang with members in a tile."""

    key: str
    """namespace/name."""
    pods: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A node, or a domain or a part of one."""

    name: str
    values: Values
    """Of its domain; of a node's, those above it."""
    first: int | None
    """Of a part: the position of its first node in the domain."""
    nodes: int
    used: int
    total: int
    """Allocatable of the node or nodes."""
    cells: tuple[Cell, ...]
    condition: Condition
    """Of a node."""
    gangs: tuple[GangHere, ...]
    """The largest first."""
    pods: int
    """Of the answer to a question: of a gang those that it places here, else how many nodes fit."""
    why: str
    """Why a node does not fit; empty if it does, or nothing was asked."""


@dataclass(frozen=True, slots=True)
class Block:
    """Tiles with the domain above them."""

    values: Values
    name: str
    """The first and last tile of a part of a domain; empty if the block is the whole domain."""
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class MapView:
    """The map of a scope."""

    resource: str
    nodes: int
    of_nodes: bool
    """Whether a tile is a node."""
    blocks: tuple[Block, ...]
    gangs: tuple[GangHere, ...]
    """The gangs with members in the scope, the largest first."""
    conditions: Mapping[Condition, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """What the answer to a question marks on the map, by index of the node."""

    places: Mapping[int, tuple[int, Collection[int]]] = field(default_factory=dict)
    """Node -> its number of pods, and the NUMA nodes that they use."""
    why: Mapping[int, str] = field(default_factory=dict)
    """Node -> why it does not fit."""


def map_view(
    cache: ClusterCache, tree: TopologyTree, part: Part, resource: str, first: int | None = None, marks: Marks = Marks()
) -> MapView:
    """The map of a domain. first: of a part of it, the position of its first node in the domain."""
    whole = tree.span(Domain(*part))
    scope = whole if first is None else slice(min(whole.start + first, whole.stop), whole.stop)
    if first is not None:
        scope = slice(scope.start, min(scope.start + _part_size(whole), scope.stop))
    of_nodes = scope.stop - scope.start <= MOST_TILES
    snapshot = cache.snapshot().nodes.covering((resource,))
    rows = _Rows(cache, snapshot, tree, resource, scope, marks, with_zones=of_nodes)
    blocks = _node_blocks(rows, tree, part, scope) if of_nodes else _domain_blocks(rows, tree, part, scope)
    return MapView(
        resource,
        scope.stop - scope.start,
        of_nodes,
        tuple(blocks),
        tuple(GangHere(*each) for each in rows.all_gangs.most_common()),
        Counter(rows.conditions),
    )


def _part_size(nodes: slice) -> int:
    """The nodes of each part of a domain: no more than a tile can show, unless that makes too many tiles."""
    count: int = nodes.stop - nodes.start
    return max(_CELLS, -(-count // MOST_TILES))


def _node_blocks(rows: "_Rows", tree: TopologyTree, part: Part, scope: slice) -> Iterator[Block]:
    level = max(tree.node_level - 1, min(part.level, tree.node_level))
    for domain, nodes in _domains(tree, level, scope):
        values = _values(rows.snapshot, tree, domain)
        tiles = [rows.node(position, values) for position in range(nodes.start, nodes.stop)]
        yield from _cut(values, tiles)


def _domain_blocks(rows: "_Rows", tree: TopologyTree, part: Part, scope: slice) -> Iterator[Block]:
    levels = range(tree.node_level - 1, part.level, -1)
    level = next((level for level in levels if _tiles(tree, level, scope) <= MOST_TILES), part.level)
    above = max(level - 1, part.level)
    tiles: dict[Domain, list[Tile]] = {}
    for domain, nodes in _domains(tree, level, scope):
        values = _values(rows.snapshot, tree, domain)
        whole = tree.span(domain)
        size = _part_size(nodes)
        for start in range(nodes.start, nodes.stop, size):
            these = slice(start, min(start + size, nodes.stop))
            offset = start - whole.start if these != whole else None
            tiles.setdefault(tree.ancestor(domain, above), []).append(rows.domain(these, values, offset))
    for domain, found in tiles.items():
        yield from _cut(_values(rows.snapshot, tree, domain), found)


def _cut(values: Values, tiles: Sequence[Tile]) -> Iterator[Block]:
    """A block of these tiles, or several."""
    if len(tiles) <= _LONGEST_BLOCK:
        yield Block(values, "", tuple(tiles))
        return
    for start in range(0, len(tiles), _CELLS):
        these = tuple(tiles[start : start + _CELLS])
        yield Block(values, _from_to(these[0].name, these[-1].name), these)


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first.partition(' … ')[0]} … {last.rpartition(' … ')[2]}"


def _tiles(tree: TopologyTree, level: int, scope: slice) -> int:
    return sum(-(-(nodes.stop - nodes.start) // _part_size(nodes)) for _, nodes in _domains(tree, level, scope))


def _domains(tree: TopologyTree, level: int, scope: slice) -> Iterator[tuple[Domain, slice]]:
    """The domains of a level in the scope that have nodes, with the positions of these."""
    starts = np.arange(tree.n + 1) if level == tree.node_level else tree.levels[level].starts
    first = int(np.searchsorted(starts, scope.start, side="right")) - 1
    last = int(np.searchsorted(starts, scope.stop, side="left"))
    bounds = starts[first : last + 1].tolist()
    for number, (start, stop) in enumerate(pairwise(bounds), first):
        nodes = slice(max(start, scope.start), min(stop, scope.stop))
        if nodes.start < nodes.stop:
            yield Domain(level, number), nodes


def _values(snapshot: Snapshot, tree: TopologyTree, domain: Domain) -> Values:
    path = [tree.ancestor(domain, level) for level in range(ROOT + 1, domain.level + 1)]
    return tuple(domain_value(snapshot, tree, *each) for each in path)


class _Rows:
    """The arrays of the scope's nodes as Python lists, by position."""

    def __init__(
        self,
        cache: ClusterCache,
        snapshot: Snapshot,
        tree: TopologyTree,
        resource: str,
        scope: slice,
        marks: Marks,
        *,
        with_zones: bool,
    ) -> None:
        self.snapshot = snapshot
        arrays = snapshot.node_arrays
        order = tree.order[scope]
        self._start = scope.start
        self._marks = marks
        self._order: list[int] = order.tolist()
        self._names = [arrays.names[n] for n in self._order]
        row = arrays.resources.find(resource)
        self._zones = _zones(snapshot, row, order) if with_zones else []
        total = np.maximum(arrays.allocatable[row, order], 0) if row >= 0 else np.zeros(len(order), np.int64)
        used = np.clip(total - snapshot.node_free(row)[order], 0, total) if row >= 0 else total
        self._total: list[int] = total.tolist()
        self._used: list[int] = used.tolist()
        self.conditions = _conditions(cache, snapshot, order, self._names)
        gangs: dict[str, list[tuple[str, int]]] = {}
        self.all_gangs: Counter[str] = Counter()
        here = set(self._names)
        for group, members in cache.gangs.groups().items():
            on = Counter(member.node for member in members.values() if member.node in here)
            if on:
                key = f"{group.partition('/')[0]}/{next(iter(members.values())).gang}"
                self.all_gangs[key] += on.total()
                for node, pods in on.items():
                    gangs.setdefault(node, []).append((key, pods))
        self._gangs = gangs

    def node(self, position: int, above: Values) -> Tile:
        """The tile of a node."""
        at = position - self._start
        n, name, condition = self._order[at], self._names[at], self.conditions[at]
        pods, chosen = self._marks.places.get(n, (0, ()))
        cells = tuple(
            Cell(str(numa_id), used, total, condition, numa_id in chosen) for numa_id, used, total in self._zones[at]
        )
        if not cells:
            cells = (Cell("", self._used[at], self._total[at], condition, bool(pods)),)
        why = "" if pods else self._marks.why.get(n, "")
        found = sorted(self._gangs.get(name, ()), key=lambda one: (-one[1], one[0]))
        gangs = tuple(GangHere(*each) for each in found)
        return Tile(name, above, None, 1, self._used[at], self._total[at], cells, condition, gangs, pods, why)

    def domain(self, nodes: slice, values: Values, first: int | None) -> Tile:
        """The tile of these nodes of a domain."""
        these = slice(nodes.start - self._start, nodes.stop - self._start)
        names, order = self._names[these], self._order[these]
        places = self._marks.places
        columns = names, self._used[these], self._total[these], self.conditions[these], order
        cells = tuple(
            Cell(name, used, total, condition, n in places)
            for name, used, total, condition, n in zip(*columns, strict=True)
        )
        gangs: Counter[str] = Counter()
        for name in names:
            for key, pods in self._gangs.get(name, ()):
                gangs[key] += pods
        name = (values[-1] if values else None) or "" if first is None else _from_to(names[0], names[-1])
        return Tile(
            name,
            values,
            first,
            len(names),
            sum(self._used[these]),
            sum(self._total[these]),
            cells,
            Condition.USABLE,
            tuple(GangHere(*each) for each in gangs.most_common()),
            sum(places[n][0] for n in order if n in places),
            "",
        )


def _zones(snapshot: Snapshot, row: int, order: Codes) -> list[list[tuple[int, int, int]]]:
    """(NUMA id, used, allocatable) of each NUMA node that lists the resource, by node."""
    if row < 0:
        return [[] for _ in range(len(order))]
    arrays = snapshot.node_arrays
    ids, whole = arrays.zone_ids[:, order].T, arrays.zone_allocatable[row][:, order].T
    free = snapshot.free(row)[:, order].T
    listed = (ids != NO_ZONE) & (free != UNLISTED)
    used = np.clip(whole - free, 0, np.maximum(whole, 0))
    columns = (each.tolist() for each in (listed, ids, used, whole))
    return [
        [(numa_id, taken, of) for here, numa_id, taken, of in zip(*rows, strict=True) if here]
        for rows in zip(*columns, strict=True)
    ]


def _conditions(cache: ClusterCache, snapshot: Snapshot, order: Codes, names: Sequence[str]) -> list[Condition]:
    arrays = snapshot.node_arrays
    ready, closed, known = (each[order].tolist() for each in (arrays.ready, arrays.unschedulable, arrays.has_topology))
    silent = silent_exporters(cache)
    return [
        Condition.NOT_READY
        if not ready[at]
        else Condition.CORDONED
        if closed[at]
        else Condition.UNKNOWN
        if not known[at]
        else Condition.SILENT
        if name in silent
        else Condition.USABLE
        for at, name in enumerate(names)
    ]
