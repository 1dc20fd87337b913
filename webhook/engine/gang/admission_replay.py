"""Admitting pods one after the other on copies of a few nodes: exact where counting by division is not.

1. The nodes are copied from the snapshot into a small writable one. Nodes in the same state share one copy.
2. In each round every copy admits the next pod of its sequence, as webhook.engine.kubelet predicts, and the pod's
   resources are subtracted. A copy that rejects a pod is finished.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from webhook.engine.gang.pod_class import PodClass
from webhook.engine.koordinator import intrudes, ours_to_place, shut_out
from webhook.engine.kubelet import predict
from webhook.engine.numa_fit import NUMAFit
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import Exclusive, NUMAPolicy

Hashes = npt.NDArray[np.uint64]
# The golden ratio in 64 bits; any odd number without a pattern would do.
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

# Fields of a snapshot without a node axis, or that no kubelet reads.
_NOT_OF_NODES = {
    *("generation", "names", "index", "order", "resources"),
    *("taint_sets", "labels", "soft_taints", "unknown_policies", "devices_away", "rare", "changes"),
    *("served_by_slices", "from_slices", "unenforced"),
}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pod that a node admitted."""

    mask: int
    """Bit per position of a NUMA node that it uses; 0 = it is not bound to any."""


def replay(snapshot: Snapshot, sequences: Mapping[int, Sequence[PodClass]]) -> dict[int, tuple[Admitted, ...]]:
    """The admitted pods of each node's sequence (by n): those before the first rejected one."""
    stages: dict[tuple[bytes, tuple[int, ...]], int] = {}
    stage_of = {
        node: stages.setdefault((_state(snapshot, node), tuple(map(id, sequence))), node)
        for node, sequence in sequences.items()
    }
    leaders = sorted(stages.values())
    stage = Snapshot(_copied(snapshot, leaders))
    admitted = dict(zip(leaders, _advance(stage, [sequences[node] for node in leaders]), strict=True))
    return {node: admitted[leader] for node, leader in stage_of.items()}


def _state(snapshot: Snapshot, node: int) -> bytes:
    """Everything that determines what a node admits."""
    node_arrays = snapshot.node_arrays
    rows = range(len(node_arrays.available))
    parts = [getattr(node_arrays, name)[..., node].tobytes() for name in _STATE]
    parts += [snapshot.free(row)[:, node].tobytes() + snapshot.node_free(row)[node].tobytes() for row in rows]
    parts += [snapshot.single_residents[:, node].tobytes(), snapshot.multi_residents[:, node].tobytes()]
    return b"".join(parts)


def state_hashes(snapshot: Snapshot) -> Hashes:
    """uint64 [n]: a hash of everything that determines what each node admits.

    64 bits: among 100,000 nodes, two different states have one hash once in 4 billion times.
    """
    arrays = snapshot.node_arrays
    rows = range(len(arrays.available))
    planes: list[npt.NDArray[Any]] = [getattr(arrays, name) for name in _STATE]
    planes += [plane for row in rows for plane in (snapshot.free(row), snapshot.node_free(row))]
    planes += [snapshot.single_residents, snapshot.multi_residents]
    found = np.zeros(arrays.n, dtype=np.uint64)
    for plane in planes:
        for values in plane.reshape(-1, arrays.n):
            found = (found ^ values.astype(np.int64).view(np.uint64)) * _ODD
            found ^= found >> _HALF
    return found


def settled(snapshot: Snapshot, sequences: Mapping[int, Sequence[PodClass]]) -> Snapshot:
    """The snapshot after these pods run on their nodes (by n), which admit them."""
    nodes = sorted(sequences)
    if not nodes:
        return snapshot
    stage = Snapshot(_copied(snapshot, nodes))
    _advance(stage, [sequences[node] for node in nodes])
    rows = range(len(snapshot.node_arrays.available))
    arrays: dict[str, Any] = {
        "available": np.stack([snapshot.free(row) for row in rows]),
        "node_free": np.stack([snapshot.node_free(row) for row in rows]),
        "single_residents": snapshot.single_residents.copy(),
        "multi_residents": snapshot.multi_residents.copy(),
    }
    for name, array in arrays.items():
        array[..., nodes] = getattr(stage.node_arrays, name)
    return Snapshot(replace(snapshot.node_arrays, **arrays))


def _advance(stage: Snapshot, sequences: list[Sequence[PodClass]]) -> list[tuple[Admitted, ...]]:
    """Admit the sequences of the stage's nodes, and update the stage."""
    admitted: list[list[Admitted]] = [[] for _ in sequences]
    active = [at for at, sequence in enumerate(sequences) if sequence]
    for turn in count():
        if not active:
            break
        pod_classes = {id(sequences[at][turn]): sequences[at][turn] for at in active}
        for pod_class in pod_classes.values():
            asking = [at for at in active if sequences[at][turn] is pod_class]
            for at, pod in zip(asking, _admit(stage, pod_class, asking), strict=True):
                if pod is not None:
                    admitted[at].append(pod)
        active = [at for at in active if len(admitted[at]) == turn + 1 < len(sequences[at])]
    return list(map(tuple, admitted))


def _admit(stage: Snapshot, pod_class: PodClass, nodes: list[int]) -> list[Admitted | None]:
    """One pod of a class on each of these nodes of the stage; None where it is refused."""
    fits = {node: fit for node, fit in _fits(stage, pod_class) if node in set(nodes)}
    # Read all before taking anything: an allocation is computed from the unchanged stage.
    allocations = {node: fit.allocation(node) for node, fit in fits.items()}
    for node, allocation in allocations.items():
        _take(stage.node_arrays, node, pod_class, int(fits[node].mask[node]))
        ids = stage.node_arrays.zone_ids[:, node].tolist()
        for numa_id, amounts in allocation:
            for resource, amount in amounts.items():
                stage.node_arrays.available[stage.node_arrays.resources.find(resource), ids.index(numa_id), node] -= (
                    amount
                )
    return [Admitted(int(fits[node].mask[node])) if node in fits else None for node in nodes]


def _fits(stage: Snapshot, pod_class: PodClass) -> Iterator[tuple[int, NUMAFit]]:
    """The nodes of the stage that admit a pod, each with the fit that has its NUMA nodes."""
    request = pod_class.request
    fit = predict(stage, request)
    domain_capacity = np.logical_and.reduce([stage.node_free(row) >= amount for row, amount in pod_class.node.items()])
    shut = shut_out(stage, request) if request.exclusive is Exclusive.REQUIRED else None
    if shut is None:
        yield from ((node, fit) for node in np.flatnonzero(domain_capacity & fit.fits).tolist())
        return
    intruding = intrudes(shut, request, fit.mask)
    yield from ((node, fit) for node in np.flatnonzero(domain_capacity & fit.fits & ~intruding).tolist())
    # Where we choose the NUMA nodes, others are tried.
    elsewhere = predict(stage.without(shut), request)
    better = domain_capacity & fit.fits & intruding & ours_to_place(stage.node_arrays) & elsewhere.fits
    yield from ((node, elsewhere) for node in np.flatnonzero(better).tolist())


def _take(node_arrays: NodeArrays, node: int, pod_class: PodClass, mask: int) -> None:
    for row, amount in pod_class.node.items():
        node_arrays.node_free[row, node] -= amount
    positions = [z for z in range(node_arrays.z) if mask >> z & 1]
    if pod_class.request.policy is NUMAPolicy.SINGLE_NUMA_NODE:
        node_arrays.single_residents[positions, node] += 1
    elif len(positions) > 1:
        node_arrays.multi_residents[positions, node] += 1


def _copied(snapshot: Snapshot, nodes: list[int]) -> NodeArrays:
    """A writable snapshot of these nodes only, with reservations subtracted."""
    node_arrays = snapshot.node_arrays
    rows = range(len(node_arrays.available))
    copies = {name: getattr(node_arrays, name)[..., nodes] for name in _OF_NODES}
    copies["available"] = np.stack([snapshot.free(row)[:, nodes] for row in rows])
    copies["node_free"] = np.stack([snapshot.node_free(row)[nodes] for row in rows])
    copies["single_residents"] = snapshot.single_residents[:, nodes].copy()
    copies["multi_residents"] = snapshot.multi_residents[:, nodes].copy()
    names = [node_arrays.names[node] for node in nodes]
    return replace(node_arrays, names=names, index={}, order=np.argsort(names).astype(np.int32), **copies)


_OF_NODES = [field.name for field in fields(NodeArrays) if field.name not in _NOT_OF_NODES]
_STATE = [
    "capacity",
    "zone_allocatable",
    "zone_ids",
    "distances",
    "kind",
    "policy",
    "scope",
    "max_numa_nodes",
    "prefer_closest",
    "has_topology",
    "total",
    "allocatable",
    "ungrouped_residents",
    "spread_cpus",
    "numa_per_socket",
]
