"""Replays the pods of a gang where only that can tell what a node admits, within a budget for the whole gang.

1. The nodes of a plan are replayed. A node that rejects a pod of a class admits as many as it did before: its limit.
2. Other nodes would reject such pods, too, and each would cost a plan of its own. So all nodes in the same state get
   the same limit, and after each rejected plan ever more others are replayed at once.
3. When the budget is spent, all nodes that were not replayed are left out: the gang may wait although it fits there. It
   is tried again after the next change in the cluster, and then with other nodes first.
4. After `MOST_ROUNDS` rejected plans no other is made.

Without these bounds, one pod of many containers took the leader a minute on a thousand nodes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.gang.admission_replay import Hashes, replay, state_hashes
from webhook.engine.gang.caps import Caps
from webhook.engine.gang.greedy_search import Found
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Positions
from webhook.engine.gang.pods_per_node import UNBOUNDED
from webhook.engine.kubelet.all_sets import MOST_ENTRIES, SETUP_ENTRIES, nodes_within
from webhook.engine.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from webhook.engine.gang.pod_assignment import Row

# Each round limits all nodes of its plan, and ever more others. Where 5,000 nodes all differ, seven are enough.
MOST_ROUNDS: Final = 32
# Eight times that of one decision: 0.4 s. 2,700 different nodes can each replay three pods of two containers.
_MOST_ENTRIES: Final = 8 * MOST_ENTRIES
# Other nodes that are replayed after the first rejected plan; four times as many each time. Six rounds reach 16,000.
_FIRST_OTHERS: Final = 16
_GROWTH: Final = 4


class Replays:
    """The replays of one gang in one snapshot. The limits that they find are added to the caps."""

    def __init__(self, snapshot: Snapshot, caps: Caps) -> None:
        self.left_out = False
        """Whether nodes were left out that may hold pods."""
        self._snapshot = snapshot
        self._n = snapshot.node_arrays.n
        self._caps = caps
        self._rounds = 0
        self._left = _MOST_ENTRIES
        self._others = _FIRST_OTHERS
        self._tried: dict[PodClass, Bools] = {}

    @property
    def may_go_on(self) -> bool:
        """Whether another plan may be made after a rejected one."""
        return self._rounds < MOST_ROUNDS

    def admitted(self, found: Found) -> bool:
        """Whether every node admits its pods where that is uncertain. These pods get the NUMA nodes of the replay."""
        by_node: dict[int, list[tuple[PodClass, Row, int]]] = {}
        for pod_slices, row in found.rows:
            for at, node in enumerate(row.nodes.tolist()):
                by_node.setdefault(node, []).append((pod_slices[0].pod_class, row, at))
        sequences = {
            node: [pod_class for pod_class, _, _ in taken]
            for node, taken in by_node.items()
            if any(_is_open(pod_class, node) for pod_class, _, _ in taken)
        }
        if not sequences:
            return True
        admitted = replay(self._snapshot, sequences)
        for node in sequences:
            for (_, row, at), pod in zip(by_node[node], admitted[node], strict=False):
                row.masks[at] = pod.mask
        rejecting = [node for node, sequence in sequences.items() if len(admitted[node]) < len(sequence)]
        if not rejecting:
            return True
        self._rounds += 1
        self._spend(sequences)
        for node, sequence in sequences.items():
            for pod_class in set(sequence):
                self._tried_of(pod_class)[node] = True
        for node in rejecting:
            self._limit(node, sequences[node], len(admitted[node]))
        uniform = (sequence for node in rejecting if _is_uniform(sequence := sequences[node]))
        for pod_class, pods in {sequence[0]: len(sequence) for sequence in uniform}.items():
            self._try_others(pod_class, pods)
        self._others *= _GROWTH
        if self._left <= 0 or self._rounds >= MOST_ROUNDS // 2:
            self._leave_out_the_rest({pod_class for sequence in sequences.values() for pod_class in sequence})
        return False

    def _limit(self, node: int, pod_classes: list[PodClass], admitted: int) -> None:
        """Note a node's rejection: it takes as many pods of the rejected class as it admitted.

        If that class is counted exactly, another one took more than expected: then the other one's limit is reduced by
        one. Where all pods are of one class, the same goes for all nodes in the same state.
        """
        blamed = pod_classes[admitted]
        most = sum(pod_class is blamed for pod_class in pod_classes[:admitted])
        if not _is_open(blamed, node):
            blamed = next(pod_class for pod_class in pod_classes if _is_open(pod_class, node))
            most = sum(pod_class is blamed for pod_class in pod_classes) - 1
        nodes = np.array([node])
        if _is_uniform(pod_classes):
            (nodes,) = (self._open(blamed) & (self._hashes == self._hashes[node])).nonzero()
        self._lower(blamed, nodes, most)

    def _try_others(self, pod_class: PodClass, pods: int) -> None:
        """Replay so many pods of a class on nodes that no plan has tried."""
        counted = self._caps.limited(pod_class, self._caps.count(self._snapshot, pod_class))
        untried = self._open(pod_class) & ~self._tried_of(pod_class) & (counted.nodes > 0)
        # Where the budget ends before the nodes do, others are tried in another state of the cluster.
        order = np.roll(np.flatnonzero(untried), -self._snapshot.node_arrays.generation)
        _, first = np.unique(self._hashes[order], return_index=True)
        z = self._snapshot.node_arrays.z
        exact = nodes_within(min(self._left // pods, MOST_ENTRIES), _containers(pod_class), z)
        chosen = np.sort(first)[: min(self._others, exact)]
        sequences = {node: [pod_class] * pods for node in order[chosen].tolist()}
        if not sequences:
            return
        self._spend(sequences)
        admitted = replay(self._snapshot, sequences)
        for node, found in admitted.items():
            (equal,) = (untried & (self._hashes == self._hashes[node])).nonzero()
            self._lower(pod_class, equal, len(found) if len(found) < pods else UNBOUNDED)

    def _leave_out_the_rest(self, pod_classes: set[PodClass]) -> None:
        for pod_class in pod_classes:
            (untried,) = (self._open(pod_class) & ~self._tried_of(pod_class)).nonzero()
            if len(untried):
                self.left_out = True
                self._lower(pod_class, untried, 0)

    def _lower(self, pod_class: PodClass, nodes: Positions, most: int) -> None:
        self._tried_of(pod_class)[nodes] = True
        self._caps.lower(pod_class, nodes, most, self._n)

    def _tried_of(self, pod_class: PodClass) -> Bools:
        if pod_class not in self._tried:
            self._tried[pod_class] = np.zeros(self._n, dtype=np.bool_)
        return self._tried[pod_class]

    def _spend(self, sequences: Mapping[int, Sequence[PodClass]]) -> None:
        """Nodes in one state with the same pods are replayed once."""
        distinct = {(int(self._hashes[node]), *sequence): sequence for node, sequence in sequences.items()}
        z, turns = self._snapshot.node_arrays.z, max(map(len, sequences.values()))
        for pod_class, pods in Counter(chain.from_iterable(distinct.values())).items():
            self._left -= _containers(pod_class) * ((pods << z) + turns * SETUP_ENTRIES)

    def _open(self, pod_class: PodClass) -> Bools:
        """Bool [n]: the nodes of which only a replay can tell."""
        where = pod_class.ways.open
        return np.zeros(self._n, dtype=np.bool_) if where is None else where

    @cached_property
    def _hashes(self) -> Hashes:
        """uint64 [n]: equal for nodes in the same state."""
        return state_hashes(self._snapshot)


def _is_open(pod_class: PodClass, node: int) -> bool:
    return pod_class.ways.open is not None and bool(pod_class.ways.open[node])


def _is_uniform(sequence: Sequence[PodClass]) -> bool:
    """Whether all pods are of one class."""
    return len(set(sequence)) == 1


def _containers(pod_class: PodClass) -> int:
    return max(1, len(pod_class.pod.containers))
