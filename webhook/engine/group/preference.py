"""How much a group's pods prefer each node: the mean over its pods (webhook.engine.preference).

Each pod counts with what it prefers among the nodes that can take one of them. What most pods prefer is read first, and
no more than a bound of requirements in all: a tenant may give every pod of a group its own. Pods beyond it prefer
nothing.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.group.pieces import Piece
from webhook.engine.preference import Preference
from webhook.engine.snapshot import Snapshot
from webhook.engine.tree import TopologyTree
from webhook.model.limits import MAX_REQUIREMENTS
from webhook.model.pod import Pod


class GroupPreference:
    """What the pods of one group prefer, on the nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot, tree: TopologyTree, pieces: Sequence[Piece]) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._read: dict[int, Preference] = {}
        """By the id of a pod that the pieces hold."""
        pods = [one for piece in pieces for one in _pods(piece)]
        if snapshot.soft_taints.empty and not any(pod.preferred_terms for pod, _ in pods):
            return
        self._read_all(pods)

    @property
    def empty(self) -> bool:
        """Whether they prefer all nodes alike."""
        return not self._read

    def of(self, pieces: Iterable[Piece], slots: Amounts) -> Amounts | None:
        """int64 [position], 0..MOST: the mean over the pods of these pieces; None = all nodes alike.

        slots: int64 [position], the pods that each node can take: nodes that take none do not count.
        """
        if not self._read:
            return None
        (positions,) = slots.nonzero()
        nodes = self._tree.order[positions].astype(np.intp)
        total = np.zeros(len(positions), dtype=np.int64)
        liked, count = False, 0
        for piece in pieces:
            for pod, number in _pods(piece):
                count += number
                preference = self._read.get(id(pod))
                among = None if preference is None else preference.among(nodes)
                if among is not None and number:
                    total += number * among.astype(np.int64)
                    liked = True
        if not liked:
            return None
        everywhere = np.zeros(self._tree.n, dtype=np.int64)
        everywhere[positions] = total // count
        return everywhere

    def of_domains(self, level: int, shares: Iterable[tuple[Piece, Amounts, int]]) -> Amounts:
        """int64 [domain]: how much the room in each domain of a level is preferred, added up over the pods.

        shares: pieces, each with the pods that nodes can take (int64 [position]) and how many are wanted.
        """
        liked = np.zeros(self._tree.size(level), dtype=np.int64)
        for piece, slots, wanted in shares:
            room = np.minimum(slots, wanted)
            preference = self.of((piece,), room)
            if preference is not None:
                whole = np.maximum(self._tree.sums(level, room), 1)
                liked += wanted * (self._tree.sums(level, room * preference) // whole)
        return liked

    def _read_all(self, pods: Iterable[tuple[Pod, int]]) -> None:
        alike: dict[tuple[str, str], tuple[int, list[Pod]]] = {}
        for pod, number in pods:
            key = repr(pod.preferred_terms), repr(pod.tolerations)
            before, others = alike.get(key, (0, []))
            alike[key] = before + number, [*others, pod]
        left = MAX_REQUIREMENTS
        for _, ones in sorted(alike.values(), key=lambda entry: -entry[0]):
            cost = _requirements(ones[0])
            if cost > left:
                continue
            left -= cost
            preference = Preference.of(self._snapshot, ones[0])
            if preference is not None:
                self._read |= dict.fromkeys(map(id, ones), preference)


def _pods(piece: Piece) -> Sequence[tuple[Pod, int]]:
    """One pod of each preference in a piece, and how many prefer the same."""
    return piece.podset.preferring or ((piece.podset.pod, len(piece.members)),)


def _requirements(pod: Pod) -> int:
    """One for the tolerations, which take about as long as a requirement."""
    fields = (term.get(field) or () for _, term in pod.preferred_terms for field in ("matchExpressions", "matchFields"))
    return 1 + sum(map(len, fields))
