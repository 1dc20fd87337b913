"""Equal pods share decisions: those on single nodes, and the one on all nodes from which they get theirs in turn.

A controller makes its pods from one template and many at a time, and they come to many equal nodes.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from webhook.engine.decide import Decision, Options, decide
from webhook.engine.koordinator import ours_to_place
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache


class NodeDecisions:
    """Decisions on one node each, as it is now.

    One is made for pods with the same signature on nodes that are free alike (see `NodeAlone.key`): 500 pods on nodes
    of 12 need 12 decisions. A pod with a node selector or required terms may fit on one of two such nodes only, so the
    node counts, too.
    """

    def __init__(self, cache: ClusterCache, options: Options) -> None:
        self._cache = cache
        self._options = options
        self._made: dict[Hashable, Decision] = {}

    def of(self, gated: GatedPod, node: str, numa_nodes: tuple[int, ...] = ()) -> Decision | None:
        """The decision on a pod; None if there is no such node.

        numa_nodes: the only ones where we choose them; empty: any.
        """
        at = self._cache.node_for(node, gated.key)
        if at is None:
            return None
        alone, sums = at
        one_of_its_nodes = gated.pod.node_selector or gated.pod.required_terms is not None
        key = alone.key, sums.key, gated.signature, numa_nodes, node if one_of_its_nodes else ""
        if key not in self._made:
            self._made[key] = self._decided(gated, numa_nodes, alone.snapshot(sums))
        return self._made[key]

    def _decided(self, gated: GatedPod, numa_nodes: tuple[int, ...], snapshot: Snapshot) -> Decision:
        if numa_nodes and ours_to_place(snapshot.node_arrays)[0]:
            snapshot = snapshot.without(~np.isin(snapshot.node_arrays.zone_ids, numa_nodes))
        return decide(snapshot, gated.pod, gated.intent, self._options)


class EqualPods:
    """The decision on the last pod, for the equal one that follows it.

    1. A pod that is assumed changes its own node. Only that one is decided on again, by itself; the others are as they
       were. As pods are packed, it usually stays the best one until it is full.
    2. The basis is what else a decision depends on. When that changes, the next pod needs a decision on all nodes.

    So each pod gets what a decision of its own would find.
    """

    def __init__(self, cache: ClusterCache, options: Options) -> None:
        self._cache = cache
        self._options = options
        self.begin()

    def begin(self) -> None:
        """Forget all decisions: a cycle begins."""
        self._last: _Last | None = None
        self._on_nodes = NodeDecisions(self._cache, self._options)

    def assumed(self, key: Hashable, basis: Hashable, decision: Decision, node: str) -> None:
        """Take the decision on a pod that was assumed on this node. key: equal for equal pods; basis: as it is now."""
        self._last = _Last(key, basis, decision, node)

    def decision(self, gated: GatedPod, key: Hashable, basis: Hashable) -> Decision | None:
        """The decision on a pod from the last one; None if it must be made."""
        last = self._last
        if last is None or (last.key, last.basis) != (key, basis):
            return None
        alone = self._on_nodes.of(gated, last.node)
        decision = alone and last.decision.with_node(last.decision.snapshot.node_arrays.index[last.node], alone)
        return decision if decision and decision.fit_count else None


class _Last(NamedTuple):
    key: Hashable
    basis: Hashable
    decision: Decision
    node: str
