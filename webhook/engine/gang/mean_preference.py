"""How much a gang's pods prefer each node: the mean over its pods (webhook.engine.filter.node_preference).

Each pod counts with its preference among the nodes that can take one of them. The most common preferences are read
first, up to a limit of different preferences and of requirements: a tenant may give every pod of a gang its own. Pods
beyond the limit count as without preference. At 5,000 nodes that takes some 30 ms for 512 pods.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.filter.node_preference import Preference
from webhook.engine.gang.slices import PodSlice
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.topology.tree import TopologyTree
from webhook.formats.kubernetes.pod import Pod
from webhook.model.limits import MAX_REQUIREMENTS

# Pod sets with different preferences in the largest workloads in use. That many others are compared with them; each
# comparison may take as long as a requirement.
_MOST: Final = 64
# Those of any one pod, and one for its tolerations.
_MOST_REQUIREMENTS: Final = MAX_REQUIREMENTS + 1
_UNREAD: Final = Preference(None, None)


class GangPreference:
    """The preferences of one gang's pods on the nodes of a snapshot."""

    def __init__(self, node_arrays: NodeArrays, tree: TopologyTree, pod_slices: Sequence[PodSlice]) -> None:
        self._node_arrays = node_arrays
        self._tree = tree
        self._read: dict[int, Preference] = {}
        """By the id of a pod in the slices."""
        pods = [one for pod_slice in pod_slices for one in _pods(pod_slice)]
        if node_arrays.soft_taints.empty and not any(pod.preferred_terms for pod, _ in pods):
            return
        self._read_all(pods)

    @property
    def empty(self) -> bool:
        """Whether they prefer all nodes equally."""
        return not self._read

    def of(self, pod_slices: Iterable[PodSlice], slots: Amounts) -> Amounts | None:
        """int64 [position], 0..MOST: the mean over the pods of these slices; None = all nodes equally.

        slots: int64 [position], the pods that each node can take: nodes that take none do not count.
        """
        if not self._read:
            return None
        pods = [one for pod_slice in pod_slices for one in _pods(pod_slice)]
        counts: Counter[Preference] = Counter()
        for pod, number in pods:
            if (preference := self._read.get(id(pod))) is not None:
                counts[preference] += number
        (positions,) = slots.nonzero()
        nodes = self._tree.order[positions].astype(np.intp)
        liked = [(among, number) for one, number in counts.items() if (among := one.among(nodes)) is not None]
        if not sum(number for _, number in liked):
            return None
        total = sum(number * among.astype(np.int64) for among, number in liked)
        everywhere = np.zeros(self._tree.n, dtype=np.int64)
        everywhere[positions] = total // sum(number for _, number in pods)
        return everywhere

    def of_domains(self, level: int, shares: Iterable[tuple[PodSlice, Amounts, int]]) -> Amounts:
        """int64 [domain]: how much the capacity in each domain of a level is preferred, summed over the pods.

        shares: slices, each with the pods that nodes can take (int64 [position]) and how many are wanted.
        """
        liked = np.zeros(self._tree.size(level), dtype=np.int64)
        for pod_slice, slots, wanted in shares:
            domain_capacity = np.minimum(slots, wanted)
            preference = self.of((pod_slice,), domain_capacity)
            if preference is not None:
                whole = np.maximum(self._tree.sums(level, domain_capacity), 1)
                liked += wanted * (self._tree.sums(level, domain_capacity * preference) // whole)
        return liked

    def _read_all(self, pods: Iterable[tuple[Pod, int]]) -> None:
        read: list[tuple[Pod, Preference | None]] = []
        left = _MOST_REQUIREMENTS
        unread = 0
        for pod, _ in sorted(pods, key=lambda one: -one[1]):
            preference = next((known for other, known in read if _prefer_the_same(pod, other)), _UNREAD)
            if preference is _UNREAD:
                cost = _requirements(pod)
                if cost > left or len(read) == _MOST:
                    unread += 1
                    if unread == _MOST:
                        break
                    continue
                left -= cost
                preference = Preference.of(self._node_arrays, pod)
                read.append((pod, preference))
            if preference is not None:
                self._read[id(pod)] = preference


def _pods(pod_slice: PodSlice) -> Sequence[tuple[Pod, int]]:
    """One pod for each preference in a slice, and how many pods share it."""
    return pod_slice.podset.preferring or ((pod_slice.podset.pod, len(pod_slice.members)),)


def _prefer_the_same(one: Pod, other: Pod) -> bool:
    return one.preferred_terms == other.preferred_terms and one.tolerations == other.tolerations


def _requirements(pod: Pod) -> int:
    """One for the tolerations, which take about as long as a requirement."""
    fields = (term.get(field) or () for _, term in pod.preferred_terms for field in ("matchExpressions", "matchFields"))
    return 1 + sum(map(len, fields))
