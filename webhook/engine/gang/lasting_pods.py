"""The cluster as it will be once every pod that ever ends has ended: what could hold a gang one day."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from webhook.engine.arrays import NO_ZONE, UNLISTED
from webhook.engine.freeing.holdings import HeldPod
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot

LastingOn = Callable[[str], Iterable[HeldPod]]
"""The pods of a node (by name) that end only when they are deleted."""


def none_lasts(node: str) -> Iterable[HeldPod]:
    """Every pod ends."""
    del node
    return ()


class LastingCluster:
    """The empty cluster; lasting pods are put on nodes when these are searched."""

    def __init__(self, node_arrays: NodeArrays, lasting_on: LastingOn) -> None:
        empty = empty_cluster(node_arrays)
        self.empty = Snapshot(empty)
        # What is written here: the free amounts of the empty cluster are the real one's allocatable ones.
        self._arrays = replace(
            empty,
            available=empty.available.copy(),
            node_free=empty.node_free.copy(),
            single_residents=empty.single_residents.copy(),
            multi_residents=empty.multi_residents.copy(),
        )
        self._lasting_on = lasting_on

    def snapshot(self, nodes: Iterable[int]) -> Snapshot | None:
        """The cluster with the lasting pods of these nodes (indexes), none of which was named before; None without any.

        For a search among these nodes only: those of earlier calls have their lasting pods, others none.
        """
        lasting = [(node, pod) for node in nodes for pod in self._lasting_on(self._arrays.names[node])]
        for node, pod in lasting:
            self._put(node, pod)
        return Snapshot(replace(self._arrays)) if lasting else None  # what is known of arrays belongs to the object

    def _put(self, node: int, pod: HeldPod) -> None:
        arrays = self._arrays
        for row, amount in self._rows(pod.requests.items()):
            arrays.node_free[row, node] -= amount
        ids = arrays.zone_ids[:, node].tolist()
        positions = {numa_id: z for z, numa_id in enumerate(ids) if numa_id != NO_ZONE}
        for numa_id, amounts in (*pod.numa.items(), *pod.reserved.items()):
            for row, amount in self._rows(amounts.items() if numa_id in positions else ()):
                cell = row, positions[numa_id], node
                if arrays.available[cell] != UNLISTED:
                    arrays.available[cell] = max(0, arrays.available[cell] - amount)
        for residents, numa_ids in ((arrays.single_residents, pod.single), (arrays.multi_residents, pod.multi)):
            for numa_id in numa_ids:
                if numa_id in positions:
                    residents[positions[numa_id], node] += 1

    def _rows(self, amounts: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int]]:
        for name, amount in amounts:
            row = self._arrays.resources.find(name)
            if row >= 0:
                yield row, amount
