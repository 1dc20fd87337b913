"""What is free in the simulated cluster: the cluster at the start, minus what running pods hold.

There is no delay: what a kubelet gave is known at once, as if every exporter published every change immediately.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU, PODS

_NOTHING: Final[Mapping[str, int]] = {}


class Room:
    """The free resources of each node."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self.version = 0
        """Grows with every change."""
        self.node_arrays = cluster.nodes.node_arrays
        self.topologies = cluster.topologies
        self._ledger = Ledger()
        self._alone: dict[str, NodeAlone] = {}
        for reservation in cluster.nodes.ledger or ():
            self._ledger.put(reservation)
        if cluster.nodes.ledger is not None:
            for node in self.node_arrays.names:
                self._ledger.give_back(node, cluster.nodes.ledger.sums(node).ended)

    def snapshot(self) -> Snapshot:
        """All nodes as they are now."""
        return Snapshot(self.node_arrays, self._ledger)

    def node(self, name: str) -> Snapshot:
        """One node as its kubelet sees it."""
        alone = self._alone.get(name)
        if alone is None:
            alone = self._alone[name] = NodeAlone(self.node_arrays, self.node_arrays.index[name], None)
        return alone.snapshot(self._ledger.sums(name))

    def hold(self, key: int, node: str, pod: Pod, numa: NumaAmounts, policy: NUMAPolicy | None) -> None:
        """A pod runs on a node."""
        self._ledger.put(Reservation.of(str(key), node, numa, pod.requests, policy=policy))
        self.version += 1

    def release(self, key: int) -> None:
        """A pod has ended."""
        self._ledger.release(str(key))
        self.version += 1

    def may_fit(self, pod: Pod, nodes: Iterable[str]) -> bool:
        """Whether one of these nodes has the sums that the pod requests."""
        return any(self._sums_fit(pod, node) for node in nodes)

    def millicores(self) -> tuple[int, int]:
        """The CPUs of all nodes: held by pods that are not simulated, and in total."""
        row = self.node_arrays.resources.find(CPU)
        if row < 0:
            return 0, 0
        total = int(self.node_arrays.allocatable[row].clip(min=0).sum())
        return total - int(self.snapshot().node_free(row).sum()), total

    def _sums_fit(self, pod: Pod, node: str) -> bool:
        n, held = self.node_arrays.index[node], self._ledger.sums(node).requests or _NOTHING
        for resource, amount in ((PODS, 1), *pod.requests.items()):
            row = self.node_arrays.resources.find(resource)
            # A resource that few nodes offer has no row: a decision will tell.
            if 0 <= row < len(self.node_arrays.node_free) and amount > 0:
                free = int(self.node_arrays.node_free[row, n]) - held.get(resource, 0)
                if free < amount:
                    return False
        return True
