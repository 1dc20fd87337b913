"""The topology trees of a cluster, one per topology, updated from snapshot to snapshot.

1. The first tree of a topology is built whole.
2. For a later snapshot of the same cluster only the nodes that changed since are looked at, and only those whose labels
   at the topology's levels are new are moved, and those in whose column another node stands now. Free amounts, taints
   and the like never touch a tree.
3. Where that is not possible, or more than a few nodes moved, the tree is rebuilt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.engine.arrays import Codes
from webhook.engine.snapshot.change_log import ChangeLog
from webhook.engine.snapshot.label_columns import Vocabulary
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_update import change_nodes
from webhook.model.topology import Topology

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
