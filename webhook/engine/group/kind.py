"""How nodes decide about the pods of one kind: as a whole, by one NUMA node each, or in ways only a rehearsal tells.

Mirrors the cases of webhook.engine.kubelet, sorted by how pods can be counted:
1. Nothing is known of the node's NUMA nodes, or nobody aligns there: the node as a whole.
2. single-numa-node, where one piece is aligned (one container with aligned resources, scope pod, or Koordinator's
   own placement): pods per NUMA node, exact.
3. The rest (several containers, sets of NUMA nodes, memory alone): open until rehearsed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import NO_ZONE, Bools
from webhook.engine.kubelet_demand import Demand, Share
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import Snapshot
from webhook.engine.view import View
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import PODS


class Bound(NamedTuple):
    """Nodes where each pod takes `share` of one NUMA node."""

    share: Share
    where: Bools
    """bool [N]."""


class Parts(NamedTuple):
    """How nodes decide about a kind; all bool [N]. Those in none of them count as a whole."""

    bound: tuple[Bound, ...]
    """One piece within one NUMA node."""
    open: Bools | None
    """Only a rehearsal tells; None = nowhere."""
    refusing: Bools
    """The kubelet does not run with so many NUMA nodes."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a pod asks of NUMA nodes, depending on who aligns."""

    placed: tuple[Share, ...]
    """What a kubelet aligns, piece by piece (scope container)."""
    pod_scope: Share
    """The same as one piece (scope pod)."""
    init_only_memory: bool
    """Memory that only init containers name: scope pod then needs the whole way."""
    whole: Share
    """What is aligned where the NUMA nodes are ours to choose."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Pods that ask for the same. Amounts by row of the snapshot's arrays."""

    pod: Pod
    request: PodRequest
    node: dict[int, int]
    """What one takes of the node as a whole, itself among the pods."""
    asking: Asking
    parts: Parts
    """How the nodes of the view decide about it."""

    @classmethod
    def of(cls, view: View, pod: Pod, intent: NUMAIntent) -> "Kind":
        """The kind of a pod."""
        request = PodRequest.of(pod, intent, view.snapshot.resources)
        columns = zip(request.rows, request.node.tolist(), strict=True)
        node = {row: amount for row, amount in columns if amount > 0}
        node[view.snapshot.resources.find(PODS)] = 1
        demand = Demand.of(request)
        asking = Asking(
            tuple(filter(_asks, demand.containers)), demand.pod, demand.init_only_memory, Demand.whole(request).pod
        )
        return cls(pod, request, node, asking, _parts(view.snapshot, request, asking))


def _parts(snapshot: Snapshot, request: PodRequest, asking: Asking) -> Parts:
    """The cases of webhook.engine.kubelet, sorted by how to count."""
    loose = snapshot.policy == NUMAPolicy.NONE
    ours = snapshot.total | loose if request.policy else snapshot.total
    policy = np.where(loose & ours, request.policy or NUMAPolicy.NONE, snapshot.policy)
    known = snapshot.has_topology
    refusing = known & ~ours & ~loose & ((snapshot.zone_ids != NO_ZONE).sum(axis=0) > snapshot.max_numa_nodes)
    deciding = known & ~(ours & (policy == NUMAPolicy.NONE)) & ~refusing
    single = deciding & (policy == NUMAPolicy.SINGLE_NUMA_NODE)
    other = deciding & ~single
    bound: list[Bound] = []
    for piece, where in _pieces(snapshot, asking, single, ours):
        if not where.any():
            continue
        if piece is None:
            other |= where
        elif _asks(piece):
            bound.append(Bound(piece, where))
    if not (asking.placed or _asks(asking.whole)):
        other[:] = False
    return Parts(tuple(_merged(bound)), other if other.any() else None, refusing)


def _pieces(snapshot: Snapshot, asking: Asking, single: Bools, ours: Bools) -> list[tuple[Share | None, Bools]]:
    """What single-numa-node nodes align as one piece; None where there are several, or none that is sure."""
    pod_scope = snapshot.scope == Scope.POD
    alone = asking.placed[0] if len(asking.placed) == 1 else None
    by_container = alone if asking.placed else asking.pod_scope
    return [
        (asking.whole, single & ours),
        (None if asking.init_only_memory else asking.pod_scope, single & ~ours & pod_scope),
        (by_container, single & ~ours & ~pod_scope),
    ]


def _merged(bounds: Iterable[Bound]) -> list[Bound]:
    """Parts that align the same amounts made one."""
    merged: list[Bound] = []
    for part in bounds:
        for index, other in enumerate(merged):
            if other.share.amounts == part.share.amounts:
                merged[index] = Bound(other.share, other.where | part.where)
                break
        else:
            merged.append(part)
    return merged


def _asks(share: Share) -> bool:
    return bool(share.devices) or any(share.amounts.values())
