"""The cluster from its objects, received one at a time and in any order, and snapshots of it.

1. An object is stored and its columns are marked; nothing is computed yet, so a burst of changes to one node costs
   one.
2. `node_arrays()` writes the marked columns into a spare buffer (`BufferPool`). One node's change costs two columns,
   whatever the number of nodes.

The arrays have rows for the resources that most nodes offer; others are stored by node (see `rare_resources`).

Nodes, their NRTs and their pods may come in any order: objects of an unknown node are kept until it appears. A deleted
node's column is filled with the last one, so columns are dense and a node's column may change between snapshots.

An extended resource that a DeviceClass maps (KEP-5004) counts on each node by one source alone, as for the scheduler:
what the node itself names, else the devices in its ResourceSlices. Pods that request it hold it in either case, so of
the devices that are not free only those count beside them that are taken by another name.

Source: kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go (shouldDelegateResourceToDRA).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from webhook.engine.arrays import Codes, Nodes
from webhook.engine.snapshot.buffers import ALL, HELD, NODE, ZONES, ArrayShape, Buffer, resources_of
from webhook.engine.snapshot.core_columns import GivenCPUs, reserved_cpu
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.node_kind import unknown_policy
from webhook.engine.snapshot.node_sums import NodeSums, added
from webhook.engine.snapshot.rare_resources import MAX_CELLS, RareResources
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.kubernetes.node import Node, Taint
from webhook.formats.kubernetes.resident import ResidentPod, has_one_group
from webhook.formats.nrt import NodeTopology, Zone
from webhook.model.options import Unenforced
from webhook.model.resources import PODS

Value = TypeVar("Value")


class NodeTable(Generic[Value]):
    """What few nodes have: node name -> value. A returned table never changes."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._handed_out = False

    def table(self) -> Mapping[str, Value]:
        """The nodes that have a value."""
        self._handed_out = True
        return self._values

    def write(self, node: str, value: Value | None) -> None:
        """Set the value of a node; an empty one, or None, removes it."""
        if self._values.get(node) == value or not (value or node in self._values):
            return
        if self._handed_out:
            self._values = dict(self._values)
            self._handed_out = False
        if value:
            self._values[node] = value
        else:
            del self._values[node]


# Effects that exclude a pod; PreferNoSchedule does not.
_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})

# Unused sets are kept until there are this many more of them than used ones: a cluster autoscaler writes the time into
# the taint of each node that it removes.
_SPARE_TAINT_SETS: Final = 64


class TaintSets:
    """The distinct sets of taints that exclude pods, numbered: a toleration is checked per set, not per node.

    A returned list is only appended to.
    """

    def __init__(self) -> None:
        self._sets: list[tuple[Taint, ...]] = [()]
        self._numbers: dict[frozenset[Taint], int] = {frozenset(): 0}
        self._most = _SPARE_TAINT_SETS

    @property
    def sets(self) -> Sequence[tuple[Taint, ...]]:
        """The sets by number; number 0 is the empty one."""
        return self._sets

    def number(self, taints: Iterable[Taint]) -> int:
        """The number of the set of excluding taints; soft ones are ignored."""
        kept = frozenset(taint for taint in taints if taint.effect in _EFFECTS)
        number = self._numbers.setdefault(kept, len(self._sets))
        if number == len(self._sets):
            self._sets.append(tuple(sorted(kept, key=lambda taint: (taint.key, taint.effect, taint.value))))
        return number

    def renewed(self, in_use: Codes) -> bool:
        """Whether the sets were reset because too few were in use: then every number must be looked up again.

        in_use: int32 [node]: the number of each node's set.
        """
        if len(self._sets) <= self._most:
            return False
        self._most = 2 * len(np.unique(in_use)) + _SPARE_TAINT_SETS
        if len(self._sets) <= self._most:
            return False
        self._sets, self._numbers = [()], {frozenset(): 0}
        return True


# From this number of changes on, sorting all names is cheaper than shifting an array for each.
_FEW: Final = 16


class NameOrder:
    """The node names, sorted, and the column of each: all replicas break ties between equal nodes in the same way.

    A returned array never changes; a new one replaces it.
    """

    __slots__ = ("_array", "_changed", "_columns", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._array: Nodes = np.empty(0, dtype=np.intp)
        self._columns: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def put(self, name: str, column: int) -> None:
        """Set the column of a new or moved node."""
        self._columns[name] = column
        self._changed[name] = None

    def remove(self, name: str) -> None:
        """Remove a node."""
        del self._columns[name]
        self._changed[name] = None

    def columns(self) -> Nodes:
        """The columns by ascending name: int [node]."""
        if len(self._changed) > _FEW:
            self._names = sorted(self._columns)
            self._array = np.fromiter(map(self._columns.__getitem__, self._names), np.intp, len(self._names))
        elif self._changed:
            for name in self._changed:
                self._update(name)
        self._changed = {}
        self._array.flags.writeable = False
        return self._array

    def _update(self, name: str) -> None:
        at = bisect_left(self._names, name)
        known = at < len(self._names) and self._names[at] == name
        column = self._columns.get(name)
        if column is None:
            if known:
                del self._names[at]
                self._array = np.delete(self._array, at)
        elif known:
            self._array = self._array.copy()
            self._array[at] = column
        else:
            self._names.insert(at, name)
            self._array = np.insert(self._array, at, column)


_SPARE: Final = 2


@dataclass(slots=True)
class _Spare:
    """A buffer that was the current one."""

    buffer: Buffer
    arrays: ref[NodeArrays] | None
    """Its arrays, which a reader may hold; None if it had none."""
    lag: dict[int, int]
    """Column -> groups in which it is behind the current buffer."""

    def is_held(self) -> bool:
        """Whether a reader holds its arrays."""
        return self.arrays is not None and self.arrays() is not None


class BufferPool:
    """The buffers of a cluster's state: readers keep the current one while a spare one is written.

    1. `writable` returns a spare buffer after copying the columns in which it is behind the current one. It takes one
       whose arrays no reader holds, so arrays never change under their reader. If there is none, it copies the current
       buffer.
    2. The caller writes the marked columns.
    3. `publish` makes it the current buffer. The previous one becomes a spare.

    Two buffers are enough while no reader holds an old snapshot. A review that waits for an answer may hold one: then a
    third buffer keeps each change from costing a copy of the whole cluster.
    """

    def __init__(self, resources: ResourceIndex) -> None:
        self.current = Buffer(resources, 1, 0)
        """Read-only."""
        self.node_arrays: NodeArrays | None = None
        """The arrays of the current buffer; None before the first."""
        self._spares: list[_Spare] = []

    def writable(self, resources: ResourceIndex, z: int, n: int) -> Buffer:
        """A buffer that equals the current one and that has no reader, with capacity for n nodes of z NUMA nodes."""
        # Following the current buffer passes through its state, which may have had more nodes.
        n = max(n, self.current.n)
        self._spares = [spare for spare in self._spares if spare.buffer.has_room(resources, z, n)]
        for spare in self._spares:
            if not spare.is_held():
                self._spares.remove(spare)
                spare.buffer.follow(self.current, spare.lag)
                return spare.buffer
        capacity = self.current.capacity
        if n > capacity:
            capacity = n if capacity == 0 else n + n // 8
        return self.current.copy(resources, z, capacity)

    def publish(self, written: Buffer, node_arrays: NodeArrays | None, changed: Mapping[int, int]) -> None:
        """Make a written buffer the current one.

        node_arrays: its arrays; None while the first ones are not complete. changed: column -> groups in which it
        differs from the buffer before.
        """
        for spare in self._spares:
            for column, parts in changed.items():
                spare.lag[column] = spare.lag.get(column, 0) | parts
        arrays = None if self.node_arrays is None else ref(self.node_arrays)
        self._spares = [_Spare(self.current, arrays, dict(changed)), *self._spares][:_SPARE]
        self.current, self.node_arrays = written, node_arrays


class SliceAmount(NamedTuple):
    """What the ResourceSlices of one node have of a resource, in devices."""

    devices: int
    """All of them."""
    taken: int
    """Those that are not free, but for as many as the pods on the node request by this name: that counts by itself."""

    def beside(self, requested: int) -> "SliceAmount":
        """The same, if pods on the node request so many of those that are taken."""
        return SliceAmount(self.devices, max(0, self.taken - requested))


SliceAmounts = Mapping[str, SliceAmount]
"""Extended resource -> what a node's slices have of it."""

OnFault = Callable[[str, Exception], None]
"""Called with the name of the node in which a fault is contained, and the exception."""

_NO_SUMS: Final = NodeSums()


class ClusterState:
    """Nodes, NUMA topologies and bound pods; `node_arrays()` returns them as arrays."""

    def __init__(
        self,
        on_fault: OnFault | None = None,
        cells: int = MAX_CELLS,
        unenforced: Unenforced = Unenforced.LAST,
    ) -> None:
        """on_fault: called with the name of a node whose column cannot be written; without it `node_arrays` raises.

        cells: limit of rows times NUMA nodes in the arrays. unenforced: see `NodeArrays`.
        """
        self._unenforced = unenforced
        self._on_fault = on_fault
        self._broken: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._in_slices: dict[str, SliceAmounts] = {}
        self._served: frozenset[str] = frozenset()
        self._published: dict[str, Node] = {}  # the objects of nodes to which slices add something
        self._topologies: dict[str, NodeTopology] = {}
        self._pods: dict[str, ResidentPod] = {}
        self._sums: dict[str, NodeSums] = {}
        self._cpus = GivenCPUs()

        self._names: list[str] = []
        self._columns: dict[str, int] = {}
        self._order = NameOrder()
        self._shape = ArrayShape(cells)
        self._rare = RareResources()
        self._unknown_policies = NodeTable[str]()
        self._devices_away = NodeTable[Mapping[str, int]]()
        self._from_slices = NodeTable[frozenset[str]]()
        self._taints = TaintSets()

        self._marked: dict[int, int] = {}
        self._changes: ChangeLog[int] = ChangeLog()
        self._buffers = BufferPool(self._shape.resources)

    @property
    def generation(self) -> int:
        """That of the latest arrays; 0 before the first."""
        node_arrays = self._buffers.node_arrays
        return 0 if node_arrays is None else node_arrays.generation

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, with the extended resources that their slices serve; read-only."""
        return self._nodes

    def published(self, name: str) -> Node | None:
        """A node as its object says, without what slices serve; None if it is unknown."""
        return self._published.get(name) or self._nodes.get(name)

    @property
    def topologies(self) -> Mapping[str, NodeTopology]:
        """The NUMA topologies by node name, including those of unknown nodes; read-only."""
        return self._topologies

    @property
    def pods(self) -> Mapping[str, ResidentPod]:
        """The bound, live pods by namespace/name; read-only."""
        return self._pods

    def upsert_node(self, node: Node) -> bool:
        """Add or replace a node; False if it is as before."""
        self._published.pop(node.name, None)
        if served := self._served_by_slices(node):
            self._published[node.name] = node
            devices = {name: amount.devices for name, amount in served.items()}
            node = replace(node, allocatable={**node.allocatable, **devices})
        known = self._nodes.get(node.name)
        if known == node:
            return False
        self._nodes[node.name] = node
        self._shape.node_changed(known, node)
        if known is not None:
            self._mark(node.name, NODE)
            return True
        column = len(self._names)
        self._names.append(node.name)
        self._place(node.name, column)
        return True

    def put_served_resources(self, names: frozenset[str]) -> None:
        """Set the extended resources that slices of any node may serve."""
        if self._served != names:
            self._served = names
            if self._names:
                self._mark(self._names[0], HELD)

    def put_slice_amounts(self, name: str, amounts: SliceAmounts) -> bool:
        """Set what a node's slices have of extended resources; False if it is as before."""
        if self._in_slices.get(name, {}) == amounts:
            return False
        self._in_slices[name] = amounts
        if not amounts:
            del self._in_slices[name]
        if (node := self.published(name)) is not None:
            self.upsert_node(node)
            self._mark(name, HELD)
        return True

    def _served_by_slices(self, node: Node) -> SliceAmounts:
        amounts = self._in_slices.get(node.name)
        if amounts is None:
            return {}
        return {name: amount for name, amount in amounts.items() if node.allocatable.get(name, 0) <= 0}

    def delete_node(self, name: str) -> None:
        """Delete a node; its NRT, slices and pods are kept until they are deleted, too."""
        self._published.pop(name, None)
        node = self._nodes.pop(name, None)
        if node is None:
            return
        self._shape.node_changed(node, None)
        self._rare.write(name, {})
        self._unknown_policies.write(name, None)
        self._devices_away.write(name, None)
        self._from_slices.write(name, None)
        column = self._columns.pop(name)
        self._order.remove(name)
        last = self._names.pop()
        self._marked[len(self._names)] = HELD
        if last != name:
            self._names[column] = last
            self._place(last, column)

    def upsert_topology(self, topology: NodeTopology) -> bool:
        """Add or replace the NRT of a node; False if nothing differs from before that is in the arrays."""
        known = self._topologies.get(topology.node)
        self._topologies[topology.node] = topology
        if known is not None and topology.is_rewritten(known):
            return False
        if known is not None and _differs_in_free_only(known, topology):
            self._mark(topology.node, HELD)
        else:
            self._shape.topology_changed(known, topology)
            self._mark(topology.node, ZONES)
        return True

    def delete_topology(self, name: str) -> None:
        """Delete the NRT of a node."""
        topology = self._topologies.pop(name, None)
        if topology is not None:
            self._shape.topology_changed(topology, None)
            self._mark(name, ZONES)

    def upsert_pod(self, pod: ResidentPod) -> None:
        """Add or replace a pod. It counts while it is bound and has not ended."""
        known = self._pods.get(pod.key)
        if known == pod:
            return
        if known is not None:
            self._count(known, -1)
            del self._pods[pod.key]
        if pod.node and not pod.terminal:
            self._pods[pod.key] = pod
            self._count(pod, 1)

    def delete_pod(self, key: str) -> None:
        """Delete a pod."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)

    def node_arrays(self) -> NodeArrays:
        """The current state; the same object as long as nothing changes."""
        buffers = self._buffers
        if buffers.node_arrays is not None and not self._marked:
            return buffers.node_arrays
        written, changed = self._write_marked()
        node_arrays = self._window(written, self._changes.version)
        buffers.publish(written, node_arrays, changed)
        return node_arrays

    def write_some(self, columns: int) -> bool:
        """Write at most so many columns before the first arrays; whether the rest is few, and left to `node_arrays`."""
        if self._buffers.node_arrays is not None or len(self._marked) <= columns:
            return True
        written, changed = self._write_marked(columns)
        self._buffers.publish(written, None, changed)
        return False

    def _place(self, name: str, column: int) -> None:
        self._columns[name] = column
        self._order.put(name, column)
        self._marked[column] = ALL

    def _mark(self, name: str, part: int) -> None:
        column = self._columns.get(name)
        if column is not None:
            self._marked[column] = self._marked.get(column, 0) | part

    def _count(self, pod: ResidentPod, sign: int) -> None:
        sums = self._sums.get(pod.node)
        if sums is None:
            sums = self._sums[pod.node] = NodeSums()
        numa = dict(pod.allocation) if pod.allocation is not None else {}
        sums.add(numa, {**pod.requests, PODS: 1}, pod.policy, sign, grouped=has_one_group(pod))
        if not sums:
            del self._sums[pod.node]
        self._cpus.count(pod, sign)
        self._mark(pod.node, HELD)

    def _fit_rows(self) -> None:
        """Fit the arrays' shape to the nodes, and mark the columns that this changes."""
        gained, lost = self._shape.fit(self._changes.version)
        for name in gained:
            for node in self._rare.nodes_with(name):
                self._mark(node, ALL)
        if gained:
            # Pods may have requested it before any node offered it.
            for node, sums in self._sums.items():
                if not gained.isdisjoint(sums.requests):
                    self._mark(node, HELD)
        if lost:
            for node in self._columns:
                offers_it = not lost.isdisjoint(self._nodes[node].allocatable)
                if offers_it or not lost.isdisjoint(resources_of(self._topologies.get(node))):
                    self._mark(node, HELD)

    def _write_marked(self, most: int | None = None) -> tuple[Buffer, Mapping[int, int]]:
        """Write the marked columns, or the first of them. Returns the buffer, and what differs in it from before."""
        self._fit_rows()
        if self._taints.renewed(self._buffers.current.windows()["taint_set"]):
            for name in self._columns:
                self._mark(name, NODE)
        buffer = self._buffers.writable(self._shape.resources, self._shape.z, len(self._names))
        changed = {column: self._marked.pop(column) for column in sorted(self._marked)[:most]}
        self._write(buffer, changed)
        self._changes.append(changed)
        return buffer, changed

    def _write(self, buffer: Buffer, changed: dict[int, int]) -> None:
        for column in changed:
            if column < len(self._names):
                buffer.place(column, self._names[column])
        buffer.truncate(len(self._names))
        for column, parts in tuple(changed.items()):
            if column < len(self._names):
                name = self._names[column]
                # After a fault the next change rewrites the whole column.
                whole = parts | (ALL if name in self._broken else 0)
                self._broken.discard(name)
                try:
                    self._write_column(buffer, column, whole)
                except Exception as error:
                    if self._on_fault is None:
                        raise
                    self._broken.add(name)
                    buffer.close(column)
                    self._on_fault(name, error)
                    whole = ALL
                changed[column] = whole

    def _write_column(self, buffer: Buffer, column: int, parts: int) -> None:
        name = self._names[column]
        node = self._nodes[name]
        topology = self._topologies.get(name)
        if parts & NODE:
            buffer.write_node(column, node, self._taints.number(node.taints))
        if parts & ZONES:
            buffer.write_zones(column, topology)
        sums, taken = self._sums.get(name, _NO_SUMS), dict[str, int]()
        if (published := self._published.get(name)) is not None:
            taken = {one: amount.taken for one, amount in self._served_by_slices(published).items()}
            sums = replace(sums, requests=added((sums.requests, taken)))
        buffer.write_held(column, node, topology, sums, self._cpus.taken(name, topology, self._pods))
        self._rare.write(name, buffer.without_row(node, topology, sums))
        self._unknown_policies.write(name, unknown_policy(node, topology))
        self._devices_away.write(name, node.devices_away)
        self._from_slices.write(name, frozenset(taken))

    def _window(self, buffer: Buffer, generation: int) -> NodeArrays:
        fields: dict[str, Any] = dict(buffer.windows())
        return NodeArrays(
            generation=generation,
            names=buffer.names,
            index=buffer.index,
            order=self._order.columns(),
            resources=buffer.resources,
            taint_sets=self._taints.sets,
            soft_taints=buffer.soft_taints,
            labels=buffer.labels,
            unknown_policies=self._unknown_policies.table(),
            devices_away=self._devices_away.table(),
            from_slices=self._from_slices.table(),
            served_by_slices=self._served,
            rare=self._rare.table(),
            changes=self._changes,
            unenforced=self._unenforced,
            **fields,
        )


def _differs_in_free_only(old: NodeTopology, new: NodeTopology) -> bool:
    """Whether only `available` and bookkeeping fields changed, as in nearly every update of an NRT."""
    return (
        (len(old.zones), old.without_resources) == (len(new.zones), new.without_resources)
        and (old.scope, old.max_numa_nodes, old.prefer_closest, old.publisher, reserved_cpu(old.cpus))
        == (new.scope, new.max_numa_nodes, new.prefer_closest, new.publisher, reserved_cpu(new.cpus))
        and all(map(_zone_differs_in_free_only, old.zones, new.zones))
    )


def _zone_differs_in_free_only(old: Zone, new: Zone) -> bool:
    return (
        old.id == new.id
        and old.costs == new.costs
        and old.unmanaged == new.unmanaged
        and old.resources.keys() == new.resources.keys()
        and all(old.resources[name][:2] == amounts[:2] for name, amounts in new.resources.items())
    )
