"""The cluster from its objects, received one at a time and in any order, and snapshots of it.

Two buffers (left-right):
1. An object is stored and its columns are marked; nothing is computed yet, so a burst of changes to one node costs
   one.
2. `snapshot()` takes the spare buffer, copies the columns in which it is behind the current one, writes the marked
   ones,
   and makes it the current one. One node's change costs two columns, whatever the number of nodes.
3. The previous buffer becomes the spare, but is only written when no reader holds its Snapshot any more. Until then
   a
   new copy replaces it, so a Snapshot never changes under its reader.

The arrays have rows for the resources that most nodes offer; others are stored by node
(webhook.engine.snapshot.rare_resources).

Nodes, their NRTs and their pods may come in any order: objects of an unknown node are kept until it appears. A
deleted
node's column is filled with the last one, so columns are dense and a node's column may change between snapshots.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from weakref import ref

from webhook.engine.snapshot.buffers import ALL, HELD, NODE, ZONES, Buffer
from webhook.engine.snapshot.change_log import ChangeLog
from webhook.engine.snapshot.name_order import NameOrder
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_policy import UnknownPolicies, unknown_policy
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.rare_resources import RareResources
from webhook.engine.snapshot.resource_rows import MAX_CELLS, ResourceRows
from webhook.engine.snapshot.taint_sets import TaintSets
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology, Zone
from webhook.model.resident import ResidentPod
from webhook.model.resources import PODS

OnFault = Callable[[str, Exception], None]
"""Called with the name of the node in which a fault is contained, and the exception."""

_NO_SUMS: Final = NodeSums()

# The number of snapshots for which the capacity of the widest node is kept after its deletion.
_KEPT_WIDE: Final = 1024


class ClusterState:
    """Nodes, NUMA topologies and bound pods; `snapshot()` returns them as arrays."""

    def __init__(self, on_fault: OnFault | None = None, cells: int = MAX_CELLS) -> None:
        """on_fault: called with the name of a node whose column cannot be written; without it `node_arrays` raises.

        cells: limit of rows times NUMA nodes in the arrays.
        """
        self._on_fault = on_fault
        self._broken: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._topologies: dict[str, NodeTopology] = {}
        self._pods: dict[str, ResidentPod] = {}
        self._sums: dict[str, NodeSums] = {}

        self._names: list[str] = []
        self._columns: dict[str, int] = {}
        self._order = NameOrder()
        self._rows = ResourceRows(cells)
        self._rare = RareResources()
        self._unknown_policies = UnknownPolicies()
        self._widths: Counter[int] = Counter()
        self._z = 1
        self._z_since = 0
        self._taints = TaintSets()

        self._marked: dict[int, int] = {}
        self._changes: ChangeLog[int] = ChangeLog()
        self._current = Buffer(self._rows.index, self._z, 0)
        self._spare: Buffer | None = None
        self._lag: dict[int, int] = {}
        self._node_arrays: NodeArrays | None = None
        self._spare_snapshot: ref[NodeArrays] | None = None

    @property
    def generation(self) -> int:
        """That of the latest arrays; 0 before the first."""
        return 0 if self._node_arrays is None else self._node_arrays.generation

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name; read-only."""
        return self._nodes

    @property
    def topologies(self) -> Mapping[str, NodeTopology]:
        """The NUMA topologies by node name, including those of unknown nodes; read-only."""
        return self._topologies

    @property
    def pods(self) -> Mapping[str, ResidentPod]:
        """The bound, live pods by namespace/name; read-only."""
        return self._pods

    def upsert_node(self, node: Node) -> None:
        """Add or replace a node."""
        known = self._nodes.get(node.name)
        if known == node:
            return
        self._nodes[node.name] = node
        self._rows.offer(() if known is None else known.allocatable, node.allocatable)
        if known is not None:
            self._mark(node.name, NODE)
            return
        column = len(self._names)
        self._names.append(node.name)
        self._place(node.name, column)

    def delete_node(self, name: str) -> None:
        """Delete a node; its NRT and pods are kept until they are deleted, too."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        self._rows.offer(node.allocatable, ())
        self._rare.write(name, {})
        self._unknown_policies.write(name, "")
        column = self._columns.pop(name)
        self._order.remove(name)
        last = self._names.pop()
        self._marked[len(self._names)] = HELD
        if last != name:
            self._names[column] = last
            self._place(last, column)

    def upsert_topology(self, topology: NodeTopology) -> None:
        """Add or replace the NRT of a node."""
        known = self._topologies.get(topology.node)
        self._topologies[topology.node] = topology
        if known is not None and _differs_in_free_only(known, topology):
            self._mark(topology.node, HELD)
            return
        self._publish(known, topology)
        self._mark(topology.node, ZONES)

    def delete_topology(self, name: str) -> None:
        """Delete the NRT of a node."""
        topology = self._topologies.pop(name, None)
        if topology is not None:
            self._publish(topology, None)
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
        if self._node_arrays is not None and not self._marked:
            return self._node_arrays
        self._fit_rows()
        if self._taints.renewed(self._current.windows()["taint_set"]):
            for name in self._columns:
                self._mark(name, NODE)
        buffer = self._writable()
        self._write(buffer)
        generation = self._changes.append(self._marked)
        self._lag = self._marked
        self._marked = {}
        self._spare, self._current = self._current, buffer
        self._spare_snapshot = None if self._node_arrays is None else ref(self._node_arrays)
        self._node_arrays = self._window(buffer, generation)
        return self._node_arrays

    def _place(self, name: str, column: int) -> None:
        self._columns[name] = column
        self._order.put(name, column)
        self._marked[column] = ALL

    def _mark(self, name: str, part: int) -> None:
        column = self._columns.get(name)
        if column is not None:
            self._marked[column] = self._marked.get(column, 0) | part

    def _publish(self, before: NodeTopology | None, after: NodeTopology | None) -> None:
        """The NRT of a node has changed in more than its free amounts."""
        old, new = (() if one is None else one.zones for one in (before, after))
        self._rows.offer(_names_in(old), _names_in(new))
        self._widths[len(new)] += 1
        self._widths[len(old)] -= 1
        if not self._widths[len(old)]:
            del self._widths[len(old)]

    def _count(self, pod: ResidentPod, sign: int) -> None:
        sums = self._sums.setdefault(pod.node, NodeSums())
        numa = dict(pod.hint) if pod.hint is not None else {}
        sums.add(numa, {**pod.requests, PODS: 1}, pod.policy, sign)
        if not sums:
            del self._sums[pod.node]
        self._mark(pod.node, HELD)

    def _fit_rows(self) -> None:
        """Fit positions to the widest node's NUMA nodes, and rows to the resources that most nodes offer.

        Capacity for a deleted node is released late: one that comes and goes must not cause a copy each time.
        """
        widest = max(self._widths, default=1)
        if widest > self._z or (widest < self._z and self._changes.version - self._z_since > _KEPT_WIDE):
            self._z = max(widest, 1)
            self._z_since = self._changes.version
        gained, lost = self._rows.settle(self._z)
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
                if not lost.isdisjoint(self._nodes[node].allocatable) or (
                    node in self._topologies and not lost.isdisjoint(_names_in(self._topologies[node].zones))
                ):
                    self._mark(node, HELD)

    def _writable(self) -> Buffer:
        """A buffer that equals the current one and that has no reader."""
        # Following the current buffer passes through its state, which may have had more nodes.
        n = max(len(self._names), self._current.n)
        spare = self._spare
        held = self._spare_snapshot is not None and self._spare_snapshot() is not None
        if spare is None or held or not spare.has_room(self._rows.index, self._z, n):
            self._spare = None  # the copy may reuse its memory
            capacity = self._current.capacity
            if n > capacity:
                capacity = n if capacity == 0 else n + n // 8
            return self._current.copy(self._rows.index, self._z, capacity)
        spare.follow(self._current, self._lag)
        return spare

    def _write(self, buffer: Buffer) -> None:
        for column in sorted(self._marked):
            if column < len(self._names):
                buffer.place(column, self._names[column])
        buffer.truncate(len(self._names))
        for column, parts in tuple(self._marked.items()):
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
                self._marked[column] = whole

    def _write_column(self, buffer: Buffer, column: int, parts: int) -> None:
        name = self._names[column]
        node = self._nodes[name]
        topology = self._topologies.get(name)
        if parts & NODE:
            buffer.write_node(column, node, self._taints.number(node.taints))
        if parts & ZONES:
            buffer.write_zones(column, topology)
        sums = self._sums.get(name, _NO_SUMS)
        buffer.write_held(column, node, topology, sums)
        self._rare.write(name, buffer.without_row(node, topology, sums))
        self._unknown_policies.write(name, unknown_policy(node, topology))

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
            rare=self._rare.table(),
            changes=self._changes,
            **fields,
        )


def _names_in(zones: Iterable[Zone]) -> set[str]:
    return {name for zone in zones for name in zone.resources}


def _differs_in_free_only(old: NodeTopology, new: NodeTopology) -> bool:
    """Whether only `available` and bookkeeping fields changed, as in nearly every update of an NRT."""
    return (
        len(old.zones) == len(new.zones)
        and (old.scope, old.max_numa_nodes, old.prefer_closest, old.publisher)
        == (new.scope, new.max_numa_nodes, new.prefer_closest, new.publisher)
        and all(map(_zone_differs_in_free_only, old.zones, new.zones))
    )


def _zone_differs_in_free_only(old: Zone, new: Zone) -> bool:
    return (
        old.id == new.id
        and old.costs == new.costs
        and old.resources.keys() == new.resources.keys()
        and all(old.resources[name][:2] == amounts[:2] for name, amounts in new.resources.items())
    )
