"""The topology trees of a cluster, one per topology, updated from snapshot to snapshot.

1. The first tree of a topology is built whole.
2. For a later snapshot of the same cluster only the nodes that changed since are looked at, and only those whose labels
   at the topology's levels are new are moved (`change_nodes`), and those in whose column another node stands now. Free
   amounts, taints and the like never touch a tree.
3. Where that is not possible, or more than a few nodes moved, the tree is rebuilt.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Codes
from webhook.engine.snapshot.label_columns import ABSENT, Vocabulary
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.topology.tree import Hosts, TopologyTree, TreeLevel, sibling_order
from webhook.formats.topology import Topology


def change_nodes(
    tree: TopologyTree, gone: Iterable[int], come: Mapping[int, Sequence[int]], names: Sequence[str]
) -> TopologyTree | None:
    """The tree without the nodes `gone` and with the nodes `come`, both by n; a node that moved is in both.

    1. A node that left or moved is taken out of the order; the slices behind it shrink. A domain left empty stays, with
       nothing in it: it holds no pod, so no decision sees it.
    2. A node that came or moved goes down its path; where a domain is new, it is put among its siblings, in order.
    3. In the lowest domain nodes are in order of name (of their host name where that is a level), as in a fresh tree.

    come: for each node the code of its value at each level of the topology (-1 = it lacks the label).
    names: [N], those of all nodes after the change.
    None if the change is not a matter of a few nodes: two nodes now share a host name that is a level.
    """
    draft = _Draft(tree, names)
    for n in gone:
        draft.remove(n)
    for n, codes in come.items():
        if not draft.insert(n, codes):
            return None
    return draft.finished()


class _Draft:
    """A modifiable copy of the tree's arrays."""

    def __init__(self, tree: TopologyTree, names: Sequence[str]) -> None:
        self._tree = tree
        self._names = names
        self._order = tree.order.copy()
        self._starts = [level.starts.copy() for level in tree.levels]
        self._codes = [level.codes for level in tree.levels]
        self._parents = [level.parents for level in tree.levels]
        self._children = [level.children for level in tree.levels[:-1]]
        self._host_codes = None if tree.hosts is None else tree.hosts.codes

    def remove(self, n: int) -> None:
        """Remove a node."""
        position = int(np.flatnonzero(self._order == n)[0])
        self._order = np.delete(self._order, position)
        if self._host_codes is not None:
            self._host_codes = np.delete(self._host_codes, position)
        for starts in self._starts:
            starts[starts.searchsorted(position, side="right") :] -= 1

    def insert(self, n: int, codes: Sequence[int]) -> bool:
        """Insert a node; False if its host name cannot be a domain of its own."""
        number = 0
        labelled = True
        path = [0]
        for level in range(1, len(self._starts)):
            labelled = labelled and codes[level - 1] != ABSENT
            number = self._sub_domain(level, number, codes[level - 1] if labelled else ABSENT)
            path.append(number)
        host = codes[-1] if labelled and self._host_codes is not None else ABSENT
        position = self._place(n, number, host)
        if position is None:
            return False
        self._order = np.insert(self._order, position, n)
        if self._host_codes is not None:
            self._host_codes = np.insert(self._host_codes, position, host)
        for starts, number in zip(self._starts, path, strict=True):
            starts[number + 1 :] += 1
        return True

    def _sub_domain(self, level: int, parent: int, code: int) -> int:
        """The number of the domain with this value under `parent`, created if missing."""
        first, last = map(int, self._children[level - 1][parent : parent + 2])
        siblings = self._codes[level][first:last].tolist()
        if code in siblings:
            return first + int(siblings.index(code))
        values = self._tree.levels[level].values
        number = last
        if code != ABSENT:
            if siblings and siblings[-1] == ABSENT:
                siblings.pop()
            key = sibling_order(values[code])
            number = first + bisect_left(siblings, key, key=lambda sibling: sibling_order(values[sibling]))
        self._codes[level] = np.insert(self._codes[level], number, code)
        self._parents[level] = np.insert(self._parents[level], number, parent)
        self._starts[level] = np.insert(self._starts[level], number, self._starts[level][number])
        self._children[level - 1] = _shifted(self._children[level - 1], parent + 1)
        if level < len(self._children):
            self._children[level] = np.insert(self._children[level], number, self._children[level][number])
        if level + 1 < len(self._parents):
            below = self._parents[level + 1]
            self._parents[level + 1] = below + (below >= number)
        return number

    def _place(self, n: int, lowest: int, host: int) -> int | None:
        """The position of a new node in its lowest domain; None if its host name is taken."""
        first, last = self._starts[-1][lowest : lowest + 2].tolist()
        if self._tree.hosts is None or self._host_codes is None:
            return int(first) + self._among(self._order[first:last], n)
        values = self._tree.hosts.values
        siblings = self._host_codes[first:last].tolist()
        named = siblings.index(ABSENT) if ABSENT in siblings else len(siblings)
        if host == ABSENT:
            return int(first) + named + self._among(self._order[first + named : last], n)
        if host in siblings:
            return None
        key = sibling_order(values[host])
        return int(first) + bisect_left(siblings[:named], key, key=lambda sibling: sibling_order(values[sibling]))

    def _among(self, nodes: Codes, n: int) -> int:
        """Where a new node belongs among others (n), which are in order of name."""
        return bisect_left(nodes, self._names[n], key=self._names.__getitem__)

    def finished(self) -> TopologyTree:
        """The modified tree."""
        levels = tuple(
            TreeLevel(old.label, old.values, codes, starts, children, parents)
            for old, codes, starts, children, parents in zip(
                self._tree.levels,
                self._codes,
                self._starts,
                [*self._children, self._starts[-1]],
                self._parents,
                strict=True,
            )
        )
        hosts = self._tree.hosts
        if hosts is not None and self._host_codes is not None:
            hosts = Hosts(hosts.label, hosts.values, self._host_codes)
        return TopologyTree(self._tree.topology, levels, self._order, hosts)


def _shifted(bounds: Codes, start: int) -> Codes:
    """Insert one more subdomain before the bounds from `start` on."""
    shifted = bounds.copy()
    shifted[start:] += 1
    return shifted


# A moved node costs about 1 % of a tree of 5,000 nodes.
_FEW = 64


@dataclass(slots=True)
class _Held:
    tree: TopologyTree
    paths: list[tuple[int, ...]]
    """Per node the code of its value at each level."""
    names: list[str]
    vocabularies: list[Vocabulary]
    """For each level: codes of other vocabularies have another meaning."""
    generation: int
    changes: ChangeLog[int]


class TopologyTrees:
    """Trees by topology, for the newest snapshot requested."""

    def __init__(self) -> None:
        self._held: dict[Topology, _Held] = {}

    def tree(self, topology: Topology, node_arrays: NodeArrays) -> TopologyTree:
        """The tree of the snapshot's nodes under `topology`."""
        held = self._held.get(topology)
        if held is not None and held.changes is node_arrays.changes:
            if held.generation == node_arrays.generation:
                return held.tree
            if held.generation < node_arrays.generation and self._catch_up(held, node_arrays):
                return held.tree
        columns = [node_arrays.labels.column(level.node_label) for level in topology.levels]
        tree = TopologyTree.build(topology, [(codes, values.values) for codes, values in columns], node_arrays.order)
        paths = _paths([codes for codes, _ in columns], node_arrays.n)
        vocabularies = [vocabulary for _, vocabulary in columns]
        names = list(node_arrays.names)
        self._held[topology] = _Held(tree, paths, names, vocabularies, node_arrays.generation, node_arrays.changes)
        return tree

    def forget(self, topologies: Sequence[Topology]) -> None:
        """Keep only the trees of these topologies."""
        self._held = {topology: held for topology, held in self._held.items() if topology in topologies}

    def _catch_up(self, held: _Held, node_arrays: NodeArrays) -> bool:
        """Whether the cached tree could be updated to the snapshot's generation."""
        changed = node_arrays.changes.since(held.generation)
        if changed is None:
            return False
        levels = held.tree.topology.levels
        found = [node_arrays.labels.column(level.node_label) for level in levels]
        if any(vocabulary is not known for (_, vocabulary), known in zip(found, held.vocabularies, strict=True)):
            return False
        columns = [codes for codes, _ in found]
        old_n, n = len(held.paths), node_arrays.n
        come = {}
        gone = list(range(n, old_n))
        for node in sorted(changed.union(range(old_n, n))):
            if node >= n:
                continue
            path = tuple(int(column[node]) for column in columns)
            if node >= old_n or path != held.paths[node] or node_arrays.names[node] != held.names[node]:
                come[node] = path
                if node < old_n:
                    gone.append(node)
        if len(come) + len(gone) > _FEW:
            return False
        if come or gone:
            tree = change_nodes(held.tree, gone, come, node_arrays.names)
            if tree is None:
                return False
            held.tree = tree
            del held.paths[n:], held.names[n:]
            for node in sorted(come):
                held.paths[node : node + 1] = [come[node]]
                held.names[node : node + 1] = [node_arrays.names[node]]
        held.generation = node_arrays.generation
        return True


def _paths(columns: Sequence[Codes], n: int) -> list[tuple[int, ...]]:
    """For each node the code of its value at each level."""
    # Without levels, the columns do not show how many nodes there are: each has the empty path.
    return list(zip(*(codes.tolist() for codes in columns), strict=True)) if columns else [()] * n
