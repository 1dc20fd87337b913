"""What is free in the simulated cluster: the cluster at the start, minus what running pods hold.

There is no delay: what a kubelet gave is known at once, as if every exporter published every change immediately.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from webhook.engine.arrays import NO_ZONE
from webhook.engine.freeing import HeldPod
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU, PODS
from webhook.state.cluster_snapshot import ClusterSnapshot

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
        self._at_start = cluster.nodes
        self._taken_at_start: dict[str, HeldPod] = {}
        self._lasting: dict[str, dict[int, HeldPod]] = {}
        """Node -> the running pods that never end, by key."""
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

    def hold(self, key: int, node: str, pod: Pod, numa: NumaAmounts, policy: NUMAPolicy | None, *, lasts: bool) -> None:
        """A pod runs on a node. lasts: until the end of the simulation."""
        self._ledger.put(Reservation.of(str(key), node, numa, pod.requests, policy=policy))
        if lasts:
            self._lasting.setdefault(node, {})[key] = HeldPod(str(key), {**pod.requests, PODS: 1}, numa, {})
        self.version += 1

    def release(self, key: int) -> None:
        """A pod has ended."""
        self._ledger.release(str(key))
        self.version += 1

    def lasting_on(self, node: str) -> list[HeldPod]:
        """The pods of a node that never end: those of the cluster at the start, as one, and those that run so long."""
        if node not in self._taken_at_start:
            self._taken_at_start[node] = self._taken(node)
        return [self._taken_at_start[node], *self._lasting.get(node, {}).values()]

    def _taken(self, node: str) -> HeldPod:
        arrays, n = self.node_arrays, self.node_arrays.index[node]
        free, node_free = self._at_start.free, self._at_start.node_free
        rows = {name: row for row, name in enumerate(arrays.resources.names) if row < len(arrays.allocatable)}
        requests = {name: int(arrays.allocatable[row, n]) - int(node_free(row)[n]) for name, row in rows.items()}
        numa = {
            numa_id: {
                name: int(arrays.zone_allocatable[row, z, n]) - int(free(row)[z, n]) for name, row in rows.items()
            }
            for z, numa_id in enumerate(arrays.zone_ids[:, n].tolist())
            if numa_id != NO_ZONE
        }
        return HeldPod(
            "",
            {name: amount for name, amount in requests.items() if amount > 0},
            {
                numa_id: {name: amount for name, amount in amounts.items() if amount > 0}
                for numa_id, amounts in numa.items()
            },
            {},
        )

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
