"""How nodes decide about a class of equal pods: as a whole, by one NUMA node each, or only by replay.

Follows the cases of webhook.engine.kubelet, sorted by how pods can be counted:
1. The node's NUMA nodes are unknown, or nothing aligns there: the node as a whole.
2. single-numa-node with one aligned item (one container with aligned resources, scope pod, or Koordinator's own
   placement): pods per NUMA node, exact.
3. The rest (several containers, sets of NUMA nodes, memory alone): open until replayed.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Bools, Nodes, all_nodes
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.kubelet.policy_groups import PolicyGroup, policy_groups
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import PODS


class Bound(NamedTuple):
    """Nodes where each pod takes `share` of one NUMA node."""

    share: Share
    where: Bools
    """bool [N]."""


class Ways(NamedTuple):
    """How nodes decide about a class. All bool [N]; nodes in none of them count as a whole."""

    bound: tuple[Bound, ...]
    """One item within one NUMA node."""
    open: Bools | None
    """Only a replay can tell; None = nowhere."""
    refusing: Bools | None
    """They take none, even if empty; None = nowhere."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a pod requests of NUMA nodes, depending on what aligns it."""

    assigned: tuple[Share, ...]
    """What a kubelet aligns, item by item (scope container)."""
    pod_scope: Share
    """The same as one item (scope pod)."""
    init_only_memory: bool
    """Memory that only init containers name: scope pod then needs the full admission."""
    whole: Share
    """What is aligned where we choose the NUMA nodes."""

    def as_one_piece(self, part: PolicyGroup) -> Share | None:
        """What nodes align within one NUMA node, possibly nothing; None if only a replay can tell."""
        if part.ours and not _asks(self.whole):
            return self.whole
        if not part.ours and not self.assigned:
            return self.pod_scope
        if part.policy is not NUMAPolicy.SINGLE_NUMA_NODE:
            return None
        if part.ours:
            return self.whole
        if part.scope is Scope.POD:
            return None if self.init_only_memory else self.pod_scope
        return self.assigned[0] if len(self.assigned) == 1 else None


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Pods with the same request. Amounts by row of the snapshot's arrays."""

    pod: Pod
    request: PodRequest
    node: dict[int, int]
    """What one pod takes of the node as a whole, including the pod itself as "pods"."""
    asking: Asking
    ways: Ways
    """How the nodes of the snapshot decide about it."""

    @classmethod
    def of(cls, snapshot: Snapshot, pod: Pod, intent: NUMAIntent) -> "PodClass":
        """The class of a pod."""
        request = PodRequest.of(pod, intent, snapshot.node_arrays.resources)
        columns = zip(request.rows, request.node, strict=True)
        node = {row: amount for row, amount in columns if amount > 0}
        node[snapshot.node_arrays.resources.find(PODS)] = 1
        demand = Demand.of(request)
        asking = Asking(
            tuple(filter(_asks, demand.containers)), demand.pod, demand.init_only_memory, Demand.whole(request).pod
        )
        return cls(pod, request, node, asking, _ways(snapshot, request, asking))


def _ways(snapshot: Snapshot, request: PodRequest, asking: Asking) -> Ways:
    """The policy groups of webhook.engine.kubelet.policy_groups, sorted by how to count."""
    n = snapshot.node_arrays.n
    bound: list[Bound] = []
    still_open: Bools | None = None
    refusing: Bools | None = None
    for part in policy_groups(snapshot, request, all_nodes(n)):
        if part.verdict is not None:
            if part.verdict is not Reason.FITS:
                refusing = _with(refusing, part.nodes, n)
            continue
        pod_slice = asking.as_one_piece(part)
        if pod_slice is None:
            still_open = _with(still_open, part.nodes, n)
        elif _asks(pod_slice):
            _add(bound, pod_slice, part.nodes, n)
    return Ways(tuple(bound), still_open, refusing)


def _add(bound: list[Bound], share: Share, nodes: Nodes, n: int) -> None:
    """Add more nodes; groups that align the same amounts are merged."""
    for other in bound:
        if other.share.amounts == share.amounts:
            other.where[nodes] = True
            return
    bound.append(Bound(share, _with(None, nodes, n)))


def _with(where: Bools | None, nodes: Nodes, n: int) -> Bools:
    """These nodes and those noted before: bool [n]."""
    where = np.zeros(n, dtype=np.bool_) if where is None else where
    where[nodes] = True
    return where


def _asks(share: Share) -> bool:
    return bool(share.devices) or any(share.amounts.values())
