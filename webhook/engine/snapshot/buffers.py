"""The arrays behind snapshots: one buffer has one state of the cluster, with one column for each node.

Rows (resources) and zones only change when a new one appears, which is rare. Capacity for nodes grows in steps, so one
more node costs one column. Resources without a row are stored in webhook.engine.snapshot.rare_resources.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, UNKNOWN_DISTANCE, UNLISTED, read_only
from webhook.engine.snapshot.core_columns import NO_CPUS, TakenCPUs, core_columns, reserved_cpu
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.node_kind import kind_of, numa_limit, plugin_config, policy_of
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.rare_resources import RareAmounts, ResourceRows
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.kubernetes.node import PREFER_NO_SCHEDULE, Node
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU, MAX_AMOUNT

# The number of snapshots for which the capacity of the widest node is kept after its deletion.
_KEPT_WIDE: Final = 1024


class ArrayShape:
    """The shape of the arrays: positions for the widest node's NUMA nodes, rows for what most nodes offer.

    Capacity for a deleted node is released late: one that comes and goes must not cause a copy each time.

    cells: limit of rows times NUMA nodes.
    """

    def __init__(self, cells: int) -> None:
        self.z = 1
        """Positions for NUMA nodes."""
        self._rows = ResourceRows(cells)
        self._widths: Counter[int] = Counter()
        self._z_since = 0

    @property
    def resources(self) -> ResourceIndex:
        """The resource of each row."""
        return self._rows.index

    def node_changed(self, before: Node | None, after: Node | None) -> None:
        """Record a node. None: it did not exist before, or does not any more."""
        self._rows.offer(*(() if node is None else node.allocatable for node in (before, after)))

    def topology_changed(self, before: NodeTopology | None, after: NodeTopology | None) -> None:
        """Record an NRT that has changed in more than its free amounts."""
        old, new = (0 if topology is None else len(topology.zones) for topology in (before, after))
        self._rows.offer(resources_of(before), resources_of(after))
        self._widths[new] += 1
        self._widths[old] -= 1
        if not self._widths[old]:
            del self._widths[old]

    def fit(self, version: int) -> tuple[frozenset[str], frozenset[str]]:
        """Update the shape for the next arrays; returns the resources that gained a row and that lost one.

        version: the number of arrays so far.
        """
        widest = max(self._widths, default=1)
        if widest > self.z or (widest < self.z and version - self._z_since > _KEPT_WIDE):
            self.z = max(widest, 1)
            self._z_since = version
        return self._rows.settle(self.z)


def resources_of(topology: NodeTopology | None) -> Iterable[str]:
    """The resources that an NRT lists; none without an NRT."""
    return set() if topology is None else {name for zone in topology.zones for name in zone.resources}


_NO_TOPOLOGY: Final = NodeTopology(node="")
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


# Groups of fields that are written together. HELD depends on several objects and is written with every change.
HELD: Final = 0
NODE: Final = 1
ZONES: Final = 2
ALL: Final = NODE | ZONES

# Field of Snapshot -> group, axes before the nodes (r resources, z zones), type, default value.
_FIELDS: Final[Mapping[str, tuple[int, str, type[np.generic], int]]] = {
    "available": (HELD, "rz", np.int64, UNLISTED),
    "capacity": (ZONES, "rz", np.int64, UNLISTED),
    "zone_allocatable": (ZONES, "rz", np.int64, UNLISTED),
    "zone_ids": (ZONES, "z", np.int16, NO_ZONE),
    "distances": (ZONES, "zz", np.int16, UNKNOWN_DISTANCE),
    "policy": (HELD, "", np.int8, NUMAPolicy.NONE),
    "scope": (ZONES, "", np.int8, _NO_TOPOLOGY.scope),
    "plugin_policy": (HELD, "", np.int8, NUMAPolicy.NONE),
    "plugin_scope": (HELD, "", np.int8, _NO_TOPOLOGY.scope),
    "max_numa_nodes": (ZONES, "", np.int16, _NO_TOPOLOGY.max_numa_nodes),
    "numa_nodes": (ZONES, "", np.int16, 0),
    "spread_cpus": (HELD, "", np.bool_, False),
    "numa_per_socket": (HELD, "", np.int16, 0),
    "numa_limit": (HELD, "", np.int16, _NO_TOPOLOGY.max_numa_nodes),
    "prefer_closest": (ZONES, "", np.bool_, _NO_TOPOLOGY.prefer_closest),
    "has_topology": (ZONES, "", np.bool_, False),
    "total": (ZONES, "", np.bool_, False),
    "threads": (HELD, "", np.int16, 0),
    "cpu_rule": (HELD, "", np.uint8, 0),
    "split_cpu": (HELD, "z", np.int64, 0),
    "core_cpu": (HELD, "z", np.int64, 0),
    "split_cpu_of_node": (HELD, "", np.int64, 0),
    "kind": (HELD, "", np.uint8, kind_of(NUMAPolicy.NONE, _NO_TOPOLOGY)),
    "listed": (ZONES, "r", np.bool_, False),
    "single_residents": (HELD, "z", np.int32, 0),
    "multi_residents": (HELD, "z", np.int32, 0),
    "ungrouped_residents": (HELD, "z", np.int32, 0),
    "allocatable": (NODE, "r", np.int64, UNLISTED),
    "requested": (HELD, "r", np.int64, 0),
    "node_free": (HELD, "r", np.int64, 0),
    "ready": (NODE, "", np.bool_, False),
    "unschedulable": (NODE, "", np.bool_, False),
    "taint_set": (NODE, "", np.int32, 0),
    "soft_taint_count": (NODE, "", np.uint8, 0),
}
_FIELDS_OF: Final = {
    part: tuple(field for field, spec in _FIELDS.items() if spec[0] == part) for part in (HELD, NODE, ZONES)
}


class Buffer:
    """One state of the cluster. `arrays` have the shape [..., capacity]; the first `len(names)` nodes count."""

    __slots__ = ("_windows", "arrays", "capacity", "index", "labels", "names", "resources", "soft_taints", "z")

    def __init__(self, resources: ResourceIndex, z: int, capacity: int) -> None:
        self.resources = resources
        self.z = z
        self.capacity = capacity
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.labels = LabelColumns(capacity)
        self.soft_taints = LabelColumns(capacity)
        size = {"r": len(resources), "z": z}
        self.arrays: dict[str, NDArray[Any]] = {
            field: np.full((*(size[axis] for axis in axes), capacity), fill, dtype=dtype)
            for field, (_, axes, dtype, fill) in _FIELDS.items()
        }
        self._windows: dict[str, NDArray[Any]] | None = None

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def has_room(self, resources: ResourceIndex, z: int, n: int) -> bool:
        """Whether the buffer has capacity for this without being recreated."""
        return self.resources is resources and self.z == z and self.capacity >= n

    def copy(self, resources: ResourceIndex, z: int, capacity: int) -> "Buffer":
        """A buffer with at least this capacity and the same content, as far as it has rows and zones for it."""
        twin = Buffer(resources, z, capacity)
        twin.names = self.names.copy()
        twin.index = self.index.copy()
        twin.labels = LabelColumns(capacity, self.labels.rows)
        twin.labels.follow(self.labels)
        twin.soft_taints = LabelColumns(capacity, self.soft_taints.rows)
        twin.soft_taints.follow(self.soft_taints)
        rows = [(new, old) for new, name in enumerate(resources) if (old := self.resources.find(name)) >= 0]
        zones = slice(0, min(z, self.z))
        for field, array in self.arrays.items():
            axes = _FIELDS[field][1]
            inner = (*(zones for axis in axes if axis == "z"), slice(0, self.n))
            if axes.startswith("r"):
                for new, old in rows:
                    twin.arrays[field][new][inner] = array[old][inner]
            else:
                twin.arrays[field][inner] = array[inner]
        return twin

    def follow(self, other: "Buffer", lag: Mapping[int, int]) -> None:
        """Copy the columns, and the groups in them, in which the other buffer of the same shape differs."""
        present = {column: parts for column, parts in sorted(lag.items()) if column < other.n}
        for column in present:
            self.place(column, other.names[column])
        self.truncate(other.n)
        self.labels.follow(other.labels)
        self.soft_taints.follow(other.soft_taints)
        for part, fields in _FIELDS_OF.items():
            columns = [column for column, parts in present.items() if parts & part == part]
            if columns:
                # One column is the common case, and a plain index is much cheaper than a list of one.
                at = columns if len(columns) > 1 else columns[0]
                for field in fields:
                    self.arrays[field][..., at] = other.arrays[field][..., at]
                if part == NODE:
                    for column in columns:
                        self.labels.write(column, other.labels.rows[column])
                        self.soft_taints.write(column, other.soft_taints.rows[column])

    def place(self, n: int, name: str) -> None:
        """Put node `name` into column `n`, at most one beyond the last. Call by ascending column."""
        if n == len(self.names):
            self.names.append(name)
            self.labels.write(n, {})
            self.soft_taints.write(n, {})
            self._windows = None
        elif self.names[n] != name:
            self._forget(n)
            self.names[n] = name
        self.index[name] = n

    def truncate(self, n: int) -> None:
        """Remove the nodes from column `n` on."""
        if n < len(self.names):
            for column in range(n, len(self.names)):
                self._forget(column)
            del self.names[n:]
            self.labels.truncate(n)
            self.soft_taints.truncate(n)
            self._windows = None

    def _forget(self, n: int) -> None:
        # Keep a name that has moved to another column.
        if self.index.get(self.names[n]) == n:
            del self.index[self.names[n]]

    def write_node(self, n: int, node: Node, taint_set: int) -> None:
        """Write the node object at column `n`."""
        arrays = self.arrays
        arrays["allocatable"][:, n] = self._by_row(node.allocatable, UNLISTED)
        arrays["ready"][n] = node.ready
        arrays["unschedulable"][n] = node.unschedulable
        arrays["taint_set"][n] = taint_set
        self.labels.write(n, node.labels)
        soft = {taint.key: taint.value for taint in node.taints if taint.effect == PREFER_NO_SCHEDULE}
        arrays["soft_taint_count"][n] = len(soft)
        self.soft_taints.write(n, soft)

    def close(self, n: int) -> None:
        """No pod fits on the node at column `n`, whatever else its column contains."""
        self.arrays["ready"][n] = False
        self.arrays["unschedulable"][n] = True
        self.arrays["node_free"][:, n] = 0

    def write_zones(self, n: int, topology: NodeTopology | None) -> None:
        """Write what the NRT at column `n` publishes, except `available`; None = the node has none."""
        arrays = self.arrays
        kubelet = topology or _NO_TOPOLOGY
        zones = kubelet.zones
        capacity, allocatable = self._by_row_and_zone(), self._by_row_and_zone()
        reserved = reserved_cpu(kubelet.cpus)
        for z, zone in enumerate(zones):
            for name, amounts in zone.resources.items():
                row = self.resources.find(name)
                if row >= 0:
                    less = reserved.get(zone.id, 0) if name == CPU else 0
                    capacity[row][z] = amounts.capacity
                    allocatable[row][z] = max(amounts.allocatable - less, 0)
            for name, amount in zone.unmanaged.items():
                if (row := self.resources.find(name)) >= 0:
                    capacity[row][z] = amount
        arrays["capacity"][:, :, n] = capacity
        arrays["zone_allocatable"][:, :, n] = allocatable
        ids = [zone.id for zone in zones]
        arrays["zone_ids"][:, n] = ids + [NO_ZONE] * (self.z - len(ids))
        distances = arrays["distances"][:, :, n]
        distances[:] = UNKNOWN_DISTANCE
        distances[: len(ids), : len(ids)] = [[zone.costs.get(to, UNKNOWN_DISTANCE) for to in ids] for zone in zones]
        arrays["has_topology"][n] = bool(zones)
        arrays["listed"][:, n] = [max(row) > UNLISTED for row in allocatable]
        arrays["scope"][n] = kubelet.scope
        arrays["max_numa_nodes"][n] = kubelet.max_numa_nodes
        arrays["numa_nodes"][n] = kubelet.numa_nodes
        arrays["prefer_closest"][n] = kubelet.prefer_closest
        arrays["total"][n] = kubelet.publisher is Publisher.TOTAL

    def write_held(
        self, n: int, node: Node, topology: NodeTopology | None, sums: NodeSums, taken: TakenCPUs = NO_CPUS
    ) -> None:
        """Write what depends on the node, its NRT and its pods together.

        Policy: see webhook.engine.snapshot.node_kind. Available: if the publisher gives totals, the pods' amounts are
        subtracted here. taken: the CPUs that are known to be reserved or given to pods.
        """
        arrays = self.arrays
        kubelet = topology or _NO_TOPOLOGY
        policy = policy_of(node, kubelet)
        arrays["policy"][n] = policy or NUMAPolicy.NONE
        arrays["kind"][n] = kind_of(policy, kubelet, node.kubelet)
        arrays["spread_cpus"][n] = node.kubelet.spread_cpus
        arrays["numa_per_socket"][n] = node.kubelet.numa_per_socket
        arrays["numa_limit"][n] = numa_limit(kubelet, node.kubelet)
        arrays["plugin_policy"][n], arrays["plugin_scope"][n] = plugin_config(node, kubelet)
        requested = self._by_row(sums.requests, 0)
        arrays["requested"][:, n] = requested
        arrays["node_free"][:, n] = np.maximum(arrays["allocatable"][:, n], 0) - requested
        total = kubelet.publisher is Publisher.TOTAL
        available = self._by_row_and_zone()
        for z, zone in enumerate(kubelet.zones):
            held = sums.numa.get(zone.id, _NOTHING) if total else _NOTHING
            for name, amounts in zone.resources.items():
                row = self.resources.find(name)
                if row >= 0:
                    less = taken.beside_hints.get(zone.id, 0) if name == CPU else 0
                    available[row][z] = max(amounts.available - held.get(name, 0) - less, 0)
        arrays["available"][:, :, n] = available
        cpu = self.resources.find(CPU)
        columns = core_columns(node, kubelet, taken, available[cpu], int(arrays["node_free"][cpu, n]))
        for field, column in columns.items():
            arrays[field][..., n] = column
        nowhere = [0] * (self.z - len(kubelet.zones))
        for field, counts in (
            ("single_residents", sums.single),
            ("multi_residents", sums.multi),
            ("ungrouped_residents", sums.ungrouped),
        ):
            arrays[field][:, n] = [counts.get(zone.id, 0) for zone in kubelet.zones] + nowhere

    def without_row(self, node: Node, topology: NodeTopology | None, sums: NodeSums) -> Mapping[str, RareAmounts]:
        """The node's amounts of resources that have no row here."""
        zones = () if topology is None else topology.zones
        rows = self.resources
        names = {name for name in node.allocatable if name not in rows}
        names.update(name for zone in zones for name in (*zone.resources, *zone.unmanaged) if name not in rows)
        if not names:
            return {}
        total = topology is not None and topology.publisher is Publisher.TOTAL
        found: dict[str, RareAmounts] = {}
        for name in names:
            published = [zone.resources.get(name) for zone in zones]
            free = [UNLISTED if one is None else one.available for one in published]
            if total:
                held = [sums.numa.get(zone.id, _NOTHING).get(name, 0) for zone in zones]
                free = [
                    amount if amount < 0 else max(amount - less, 0) for amount, less in zip(free, held, strict=True)
                ]
            found[name] = RareAmounts(
                tuple(free),
                tuple(
                    zone.unmanaged.get(name, UNLISTED) if one is None else one.capacity
                    for zone, one in zip(zones, published, strict=True)
                ),
                tuple(UNLISTED if one is None else one.allocatable for one in published),
                min(node.allocatable.get(name, UNLISTED), MAX_AMOUNT),
                min(sums.requests.get(name, 0), MAX_AMOUNT),
            )
        return found

    def windows(self) -> Mapping[str, NDArray[Any]]:
        """The arrays limited to existing nodes, read-only."""
        if self._windows is None:
            self._windows = {field: read_only(array[..., : self.n]) for field, array in self.arrays.items()}
        return self._windows

    def _by_row(self, amounts: Mapping[str, int], missing: int) -> Sequence[int]:
        column = [missing] * len(self.resources)
        for name, amount in amounts.items():
            row = self.resources.find(name)
            if row >= 0:
                # Sums of huge requests must not overflow int64, neither here nor in later computations.
                column[row] = min(amount, MAX_AMOUNT)
        return column

    def _by_row_and_zone(self) -> list[list[int]]:
        return [[UNLISTED] * self.z for _ in range(len(self.resources))]
