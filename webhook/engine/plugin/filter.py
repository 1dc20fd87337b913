"""The plugin's Filter: whether each part of a pod fits one NUMA node by the published available amounts.

1. A BestEffort pod that names only native resources passes. Nodes without an NRT pass, and so do nodes with another
   policy than single-numa-node.
2. The node's scope says what the parts are, each aligned by itself. "container": every init container, then every app
   container. "pod": one request, per resource the larger of the largest init container and the sum of the apps, plus
   the overhead; sidecars count as ordinary init containers.
3. A part fits the NUMA nodes with enough of everything. A zero amount is ignored. A resource that the node's
   allocatable lacks fits nowhere. A resource that no NUMA node lists is ignored if it belongs to the whole machine. For
   a pod that is not Guaranteed, cpu, memory and huge pages fit wherever they are listed.
4. The lowest such NUMA node is taken. App containers reduce it for later ones; init containers and sidecars are each
   checked alone, against NUMA nodes as published.

The plugin also rejects nodes while its own cache distrusts their NRT; here the assumed pods are subtracted instead.
Source: scheduler-plugins pkg/noderesourcetopology/filter.go, pkg/util/resource.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import UNLISTED, Amounts, Bools, Nodes, all_nodes, every
from webhook.engine.kubelet.bitmask import lowest
from webhook.engine.numa_fit import Allocation, NUMAFit, by_numa_id
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import ContainerKind, QoS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_aligned_for_guaranteed_only,
    is_host_level,
    is_native,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One request that is aligned as a whole."""

    kind: ContainerKind
    amounts: Mapping[str, int]
    """Resource -> amount; a resource named with zero counts for some of the scores."""


def parts(request: PodRequest, scope: Scope) -> tuple[Part, ...]:
    """The requests to align under a scope, in order."""
    containers = tuple(
        Part(
            kind,
            {name: amount for name, amount in zip(request.resources, amounts, strict=True) if amount != UNLISTED},
        )
        for kind, amounts in zip(request.kinds, request.containers, strict=True)
    )
    return containers if scope is Scope.CONTAINER else (_together(request, containers),)


def by_scope(node_arrays: NodeArrays, included: Bools, nodes: Nodes) -> Iterator[tuple[Scope, slice | Nodes]]:
    """Groups of nodes (indexes) with one scope: where they are in `nodes`. included: bool [N]: others are left out.

    Where all nodes decide equally, as in most clusters, the group is a slice: no index is needed.
    """
    scopes = node_arrays.plugin_scope
    if len(nodes) and every(included) and every(scopes == scopes[0]):
        yield Scope(int(scopes[0])), slice(None)
        return
    for scope in Scope:
        (where,) = (included & (scopes == scope)).take(nodes).nonzero()
        if len(where):
            yield scope, where


def published(snapshot: Snapshot, row: int) -> Amounts:
    """int64 [zone, node]: what is free, as published: the plugin does not infer a kubelet's managers."""
    plane, node_arrays = snapshot.free(row), snapshot.node_arrays
    if every(node_arrays.listed[row]):
        return plane
    return np.where(node_arrays.capacity[row] == UNLISTED, plane, np.maximum(plane, 0))


def _together(request: PodRequest, containers: tuple[Part, ...]) -> Part:
    total: dict[str, int] = {}
    for part in containers:
        if part.kind is ContainerKind.APP:
            for name, amount in part.amounts.items():
                total[name] = total.get(name, 0) + amount
    for part in containers:
        if part.kind is not ContainerKind.APP:
            for name, amount in part.amounts.items():
                total[name] = max(total.get(name, 0), amount)
    for name, amount in zip(request.resources, request.overhead, strict=True):
        if amount != UNLISTED:
            total[name] = total.get(name, 0) + amount
    return Part(ContainerKind.APP, total)


NO_PART: Final = -1

# The scheduler's own record of a node's allocatable always has these, whatever the node reports.
_ALWAYS_NAMED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})

# Upstream represents NUMA nodes as 64 bits; larger ids fit nothing.
_MAX_NUMA_ID: Final = 63


@dataclass(frozen=True, eq=False, kw_only=True)
class FilterFit(NUMAFit):
    """The verdict, and which part of the pod failed."""

    failed: npt.NDArray[np.int16]
    """int16 [N]: index of the part that does not fit: a container with scope container, 0 with scope pod; -1 = none."""


def filter_nodes(snapshot: Snapshot, request: PodRequest) -> FilterFit:
    """The plugin's verdict on every node."""
    node_arrays = snapshot.node_arrays
    n = node_arrays.n
    mask = np.zeros(n, dtype=np.int64)
    failed = np.full(n, NO_PART, dtype=np.int16)
    if request.qos is not QoS.BEST_EFFORT or not _names_native_only(request):
        strict = node_arrays.has_topology & (node_arrays.plugin_policy == NUMAPolicy.SINGLE_NUMA_NODE)
        for scope, at in by_scope(node_arrays, strict, all_nodes(n)):
            nodes = all_nodes(n)[at]
            failed[at], mask[at] = _Alignment(snapshot, request, nodes).run(parts(request, scope))
    fits = failed == NO_PART
    reason = (~fits).view(np.uint8) * np.uint8(Reason.NO_SINGLE_NUMA_NODE)
    mask *= fits
    return FilterFit(
        fits=fits,
        reason=reason,
        known=mask,
        split=lambda node: _split(snapshot, request, node) if mask[node] else (),
        failed=failed,
    )


def _split(snapshot: Snapshot, request: PodRequest, node: int) -> Allocation:
    aligned = _Alignment(snapshot, request, np.array([node]))
    aligned.run(parts(request, Scope(int(snapshot.node_arrays.plugin_scope[node]))))
    aligned.settle()
    return by_numa_id(
        snapshot.node_arrays.zone_ids[:, node], {name: taken[:, 0] for name, taken in aligned.taken.items()}
    )


def _names_native_only(request: PodRequest) -> bool:
    # The overhead names native resources only, which no container needs to name.
    return all(
        is_native(name)
        for column, name in enumerate(request.resources)
        if any(amounts[column] != UNLISTED for amounts in request.containers)
    )


class _Alignment:
    """The parts of one pod on n nodes with policy single-numa-node."""

    def __init__(self, snapshot: Snapshot, request: PodRequest, nodes: npt.NDArray[np.intp]) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._guaranteed = request.qos is QoS.GUARANTEED
        self._rows = dict(zip(request.resources, request.rows, strict=True))
        self._at: slice | npt.NDArray[np.intp] = slice(None) if len(nodes) == snapshot.node_arrays.n else nodes
        # As unsigned numbers, positions without a NUMA node are beyond the largest id.
        self._exists = snapshot.node_arrays.zone_ids[:, self._at].view(np.uint16) <= _MAX_NUMA_ID
        self.taken: dict[str, Amounts] = {}
        """Resource -> int64 [z, n]: what app containers took so far."""
        self._unsettled: tuple[Part, Bools] | None = None

    def run(self, sequence: Sequence[Part]) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        """The part that fails on each node (int16 [n], -1 = none) and the NUMA nodes taken (int64 [n])."""
        failed = np.full(len(self._nodes), NO_PART, dtype=np.int16)
        mask = np.zeros(len(self._nodes), dtype=np.int64)
        for index, part in enumerate(sequence):
            self.settle()
            enough = self._enough(part)
            zone = lowest(enough)
            np.putmask(failed, (failed == NO_PART) & (zone == 0), np.int16(index))
            if any(part.amounts.values()):
                mask |= zone
            if part.kind is ContainerKind.APP:
                self._unsettled = (part, enough)
        return failed, mask

    def settle(self) -> None:
        """Subtract what the last app container takes; only needed if another one follows."""
        if self._unsettled is not None:
            part, enough = self._unsettled
            self._take(part, enough.argmax(axis=0))
            self._unsettled = None

    def _available(self, name: str) -> Amounts | None:
        """int64 [z, n] as published, None if nothing names the resource."""
        row = self._rows[name]
        return None if row < 0 else published(self._snapshot, row)[:, self._at]

    def _enough(self, part: Part) -> Bools:
        """Which NUMA nodes (bool [z, n]) have enough of everything."""
        enough: Bools = self._exists.copy()
        for name, amount in part.amounts.items():
            if amount:
                enough &= self._enough_of(name, amount, part.kind)
        return enough

    def _enough_of(self, name: str, amount: int, kind: ContainerKind) -> Bools:
        available = self._available(name)
        if available is None:
            return np.full_like(self._exists, is_host_level(name) and name in _ALWAYS_NAMED)
        if self._binding(name):
            taken = self.taken.get(name) if kind is ContainerKind.APP else None
            # An unlisted amount is below any request.
            enough: Bools = available >= amount if taken is None else available - taken >= amount
        else:
            enough = available != UNLISTED
        node_arrays, row = self._snapshot.node_arrays, self._rows[name]
        if is_host_level(name):
            enough |= ~node_arrays.listed[row][self._at]
        if name not in _ALWAYS_NAMED:
            enough &= node_arrays.allocatable[row][self._at] != UNLISTED
        return enough

    def _take(self, part: Part, zone: npt.NDArray[np.intp]) -> None:
        columns = np.arange(len(zone))
        for name, amount in part.amounts.items():
            available = self._available(name)
            if not amount or not self._binding(name) or available is None:
                continue
            taken = self.taken.setdefault(name, np.zeros_like(available))
            taken[zone, columns] += np.where(available[zone, columns] != UNLISTED, amount, 0)

    def _binding(self, name: str) -> bool:
        """Whether the amount counts: cpu, memory and huge pages bind only Guaranteed pods."""
        return self._guaranteed or not is_aligned_for_guaranteed_only(name)
