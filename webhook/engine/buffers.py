"""The arrays behind snapshots: one buffer holds one state of the cluster, one column for each node.

Rows (resources) and zones grow exactly when a new one appears, which is rare; nodes have room to grow, so that one
more node costs one column.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, UNKNOWN_DISTANCE, UNLISTED, read_only
from webhook.engine.labels import LabelColumns
from webhook.engine.resource_index import ResourceIndex
from webhook.engine.sums import NodeSums
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import MAX_AMOUNT

_NO_TOPOLOGY: Final = NodeTopology(node="")

# Field of Snapshot -> axes before the nodes (r resources, z zones), type, value where nothing is known.
_FIELDS: Final[Mapping[str, tuple[str, type[np.generic], int]]] = {
    "available": ("rz", np.int64, UNLISTED),
    "capacity": ("rz", np.int64, UNLISTED),
    "zone_allocatable": ("rz", np.int64, UNLISTED),
    "zone_ids": ("z", np.int16, NO_ZONE),
    "distances": ("zz", np.int16, UNKNOWN_DISTANCE),
    "policy": ("", np.int8, NUMAPolicy.NONE),
    "scope": ("", np.int8, 0),
    "max_numa_nodes": ("", np.int16, _NO_TOPOLOGY.max_numa_nodes),
    "prefer_closest": ("", np.bool_, 0),
    "has_topology": ("", np.bool_, 0),
    "total": ("", np.bool_, 0),
    "fresh": ("", np.bool_, 1),
    "single_residents": ("z", np.int32, 0),
    "multi_residents": ("z", np.int32, 0),
    "allocatable": ("r", np.int64, UNLISTED),
    "requested": ("r", np.int64, 0),
    "node_free": ("r", np.int64, 0),
    "ready": ("", np.bool_, 0),
    "unschedulable": ("", np.bool_, 0),
    "taint_set": ("", np.int32, 0),
}


class Buffer:
    """One state of the cluster. `arrays` have the shape [..., capacity]; the first `len(names)` nodes count."""

    __slots__ = ("_windows", "arrays", "capacity", "index", "labels", "names", "resources", "z")

    def __init__(self, resources: ResourceIndex, z: int, capacity: int) -> None:
        self.resources = resources
        self.z = z
        self.capacity = capacity
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.labels = LabelColumns(capacity)
        size = {"r": len(resources), "z": z}
        self.arrays: dict[str, NDArray[Any]] = {
            field: np.full((*(size[axis] for axis in axes), capacity), fill, dtype=dtype)
            for field, (axes, dtype, fill) in _FIELDS.items()
        }
        self._windows: dict[str, NDArray[Any]] | None = None

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def has_room(self, resources: ResourceIndex, z: int, n: int) -> bool:
        """Whether the buffer can hold so much without being made anew."""
        return self.resources is resources and self.z == z and self.capacity >= n

    def copy(self, resources: ResourceIndex, z: int, capacity: int) -> "Buffer":
        """A buffer of at least this one's size with the same content."""
        twin = Buffer(resources, z, capacity)
        twin.names = self.names.copy()
        twin.index = self.index.copy()
        twin.labels.rows = self.labels.rows.copy()
        twin.labels.follow(self.labels)
        for field, array in self.arrays.items():
            inner = tuple(slice(0, length) for length in array.shape[:-1])
            twin.arrays[field][(*inner, slice(0, self.n))] = array[..., : self.n]
        return twin

    def follow(self, other: "Buffer", columns: Iterable[int]) -> None:
        """Take over the nodes at `columns`, the only ones in which the other buffer of the same shape differs."""
        at = sorted(column for column in columns if column < other.n)
        for column in at:
            self.place(column, other.names[column])
        self.truncate(other.n)
        for field, array in other.arrays.items():
            self.arrays[field][..., at] = array[..., at]
        self.labels.follow(other.labels)
        for column in at:
            self.labels.write(column, other.labels.rows[column])

    def place(self, n: int, name: str) -> None:
        """The node `name` has column `n`, at most one beyond the last. To be called by ascending column."""
        if n == len(self.names):
            self.names.append(name)
            self.labels.write(n, {})
            self._windows = None
        elif self.names[n] != name:
            self._forget(n)
            self.names[n] = name
        self.index[name] = n

    def truncate(self, n: int) -> None:
        """Forget the nodes from column `n` on."""
        if n < len(self.names):
            for column in range(n, len(self.names)):
                self._forget(column)
            del self.names[n:]
            self.labels.truncate(n)
            self._windows = None

    def _forget(self, n: int) -> None:
        # A name that has moved to another column stays.
        if self.index.get(self.names[n]) == n:
            del self.index[self.names[n]]

    def write_node(self, n: int, node: Node, taint_set: int) -> None:
        """The node object at column `n`."""
        arrays = self.arrays
        arrays["allocatable"][:, n] = self._by_row(node.allocatable, UNLISTED)
        arrays["ready"][n] = node.ready
        arrays["unschedulable"][n] = node.unschedulable
        arrays["taint_set"][n] = taint_set
        self.labels.write(n, node.labels)

    def write_policy(self, n: int, node: Node, topology: NodeTopology | None) -> None:
        """The node's own policy: Koordinator's label goes before the NRT."""
        policy = node.policy_label or (NUMAPolicy.NONE if topology is None else topology.policy)
        self.arrays["policy"][n] = policy

    def write_topology(self, n: int, topology: NodeTopology | None) -> None:
        """The NRT at column `n`; None = the node has none."""
        arrays = self.arrays
        zones = () if topology is None else topology.zones
        lists = [[[UNLISTED] * self.z for _ in range(len(self.resources))] for _ in range(3)]
        capacity, allocatable, available = lists
        for z, zone in enumerate(zones):
            for name, amounts in zone.resources.items():
                row = self.resources.find(name)
                capacity[row][z], allocatable[row][z], available[row][z] = amounts
        arrays["capacity"][:, :, n] = capacity
        arrays["zone_allocatable"][:, :, n] = allocatable
        arrays["available"][:, :, n] = available
        ids = [zone.id for zone in zones]
        arrays["zone_ids"][:, n] = ids + [NO_ZONE] * (self.z - len(ids))
        distances = np.full((self.z, self.z), UNKNOWN_DISTANCE, dtype=np.int16)
        distances[: len(ids), : len(ids)] = [[zone.costs.get(to, UNKNOWN_DISTANCE) for to in ids] for zone in zones]
        arrays["distances"][:, :, n] = distances
        arrays["has_topology"][n] = bool(zones)
        kubelet = topology or _NO_TOPOLOGY
        arrays["scope"][n] = kubelet.scope
        arrays["max_numa_nodes"][n] = kubelet.max_numa_nodes
        arrays["prefer_closest"][n] = kubelet.prefer_closest
        arrays["total"][n] = kubelet.publisher is Publisher.TOTAL

    def write_pods(self, n: int, sums: NodeSums, topology: NodeTopology | None) -> None:
        """What the node's pods hold. Where the publisher gives totals, `available` is made from it anew."""
        arrays = self.arrays
        requested = self._by_row(sums.requests, 0)
        arrays["requested"][:, n] = requested
        arrays["node_free"][:, n] = np.maximum(arrays["allocatable"][:, n], 0) - requested
        positions = {zone: z for z, zone in enumerate(arrays["zone_ids"][:, n].tolist()) if zone != NO_ZONE}
        for field, counts in (("single_residents", sums.single), ("multi_residents", sums.multi)):
            arrays[field][:, n] = 0
            for zone, pods in counts.items():
                if zone in positions:
                    arrays[field][positions[zone], n] = pods
        if topology is not None and topology.publisher is Publisher.TOTAL:
            for z, zone_object in enumerate(topology.zones):
                held = sums.numa.get(zone_object.id, {})
                for name, amounts in zone_object.resources.items():
                    free = max(amounts.available - held.get(name, 0), 0)
                    arrays["available"][self.resources.find(name), z, n] = free

    def windows(self) -> Mapping[str, NDArray[Any]]:
        """The arrays cut to the nodes there are, read-only."""
        if self._windows is None:
            self._windows = {field: read_only(array[..., : self.n]) for field, array in self.arrays.items()}
        return self._windows

    def _by_row(self, amounts: Mapping[str, int], missing: int) -> Sequence[int]:
        column = [missing] * len(self.resources)
        for name, amount in amounts.items():
            row = self.resources.find(name)
            if row >= 0:
                # Sums of absurd requests must not overflow int64, here or in what is computed from them.
                column[row] = min(amount, MAX_AMOUNT)
        return column
