"""Whether a node's kubelet will admit a pod, predicted for all nodes at once from what their NRTs publish.

1. Who places the pod on each node: the kubelet, by its policy and scope; or, where the kubelet does not and the pod or
   the node's label has a policy, Koordinator's agent, by what is promised here.
2. The short way for all nodes: every container within one NUMA node (webhook.engine.kubelet_zones).
3. Where that fails and the policy allows more: all sets of NUMA nodes (webhook.engine.kubelet_masks), in batches.

Source: kubernetes pkg/kubelet/cm (topology, cpu, memory and device managers with policy static).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine import node_kind
from webhook.engine.arrays import NO_ZONE, UNLISTED, Bools, Bytes
from webhook.engine.kubelet_demand import Demand, Share
from webhook.engine.kubelet_masks import Admission, Machines
from webhook.engine.kubelet_pools import Pool
from webhook.engine.kubelet_zones import ZoneFit, fit_zones
from webhook.engine.masks import as_mask
from webhook.engine.numafit import Allocation, NUMAFit, by_numa_id
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.view import View
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import MEMORY, is_hugepages

Nodes = npt.NDArray[np.intp]

# Tables of 2^z masks by nodes: 4 Mi entries are 32 MiB of int64.
_BATCH: Final = 1 << 22


def predict(view: View, request: PodRequest) -> NUMAFit:
    """The verdict of every node's kubelet on the pod, and the NUMA nodes it would use.

    A node without a known topology takes every pod that has no strict policy of its own.
    """
    prediction = _Prediction(view, request)
    n = view.snapshot.n
    parts = tuple(_parts(view, request, np.arange(n)))
    if len(parts) == 1:
        reason, mask = prediction.admit(parts[0])
    else:
        reason = np.zeros(n, dtype=np.uint8)
        mask = np.zeros(n, dtype=np.int64)
        for part in parts:
            reason[part.nodes], mask[part.nodes] = prediction.admit(part)
    return NUMAFit(reason == Reason.FITS, reason, mask, prediction.split)


def refusal(view: View, request: PodRequest, node: int) -> Reason:
    """Why the kubelet of one node (an index) refuses, by the whole way: the affinity, or an allocation; FITS if not."""
    prediction = _Prediction(view, request)
    (part,) = _parts(view, request, np.array([node]))
    return REASONS[prediction.reason_of(part)]


@dataclass(frozen=True, slots=True)
class _Part:
    """Nodes that decide alike."""

    nodes: Nodes
    policy: NUMAPolicy
    scope: Scope
    closest: bool
    """prefer-closest-numa-nodes."""
    ours: bool
    """The kubelet does not place: what the policy asks for is promised here, for the whole pod."""
    verdict: Reason | None
    """The same for every pod: nothing is known, or the kubelet does not run with so many NUMA nodes."""

    def at(self, where: Bools | Nodes) -> "_Part":
        """A part of the part."""
        return _Part(self.nodes[where], self.policy, self.scope, self.closest, self.ours, self.verdict)


def _parts(view: View, request: PodRequest, nodes: Nodes) -> Iterator[_Part]:
    """Split nodes into those that decide alike: by kind, of which a cluster has few."""
    kinds = view.snapshot.kind
    if len(nodes) != len(kinds):
        kinds = kinds[nodes]
    if not len(kinds):
        return
    if (kinds == kinds[0]).all():
        yield _part(int(kinds[0]), request, nodes)
        return
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        yield _part(kind, request, nodes[kinds == kind])


def _part(kind: int, request: PodRequest, nodes: Nodes) -> _Part:
    own = NUMAPolicy(kind & node_kind.POLICY)
    loose = own is NUMAPolicy.NONE
    ours = bool(kind & node_kind.TOTAL) or (loose and request.policy is not None)
    policy = request.policy or NUMAPolicy.NONE if loose and ours else own
    verdict = None
    if kind & node_kind.NO_TOPOLOGY:
        verdict = Reason.NO_TOPOLOGY if request.strict else Reason.FITS
    elif ours and policy is NUMAPolicy.NONE:
        verdict = Reason.FITS
    elif kind & node_kind.TOO_MANY and not (ours or loose):
        verdict = Reason.TOO_MANY_NUMA_NODES
    scope = Scope.POD if kind & node_kind.POD_SCOPE else Scope.CONTAINER
    return _Part(nodes, policy, scope, bool(kind & node_kind.CLOSEST), ours, verdict)


class _Prediction:
    """One pod on nodes of one view."""

    def __init__(self, view: View, request: PodRequest) -> None:
        self._view = view
        self._request = request

    def admit(self, part: _Part) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Reason (uint8 [n]) and mask (int64 [n]) of each node of the part."""
        n = len(part.nodes)
        if part.verdict is not None:
            return np.full(n, part.verdict, dtype=np.uint8), np.zeros(n, dtype=np.int64)
        demand = self._demand(part)
        if (part.scope is Scope.POD and demand.init_only_memory) or self._closest_differs(part):
            return self._by_masks(part)
        short = self._by_zones(self._shares(part, demand), part.nodes)
        fits, mask = short.fits, short.mask
        if demand.pod.devices or part.policy is NUMAPolicy.NONE:
            fits = fits & self._totals_suffice(part, demand)
            mask = mask * (fits if part.policy is not NUMAPolicy.NONE else 0)
        none = part.policy is NUMAPolicy.NONE
        reason = (~fits).view(np.uint8) * np.uint8(Reason.ALLOCATION_FAILS if none else Reason.NO_SINGLE_NUMA_NODE)
        if not self._short_way_is_final(part, demand):
            rest = np.flatnonzero(~fits)
            if len(rest):
                reason[rest], mask[rest] = self._by_masks(part.at(rest))
        return reason, mask

    def split(self, node: int) -> Allocation:
        """What the pod would take of each NUMA node of one node (an index)."""
        (part,) = _parts(self._view, self._request, np.array([node]))
        demand = self._demand(part)
        if part.verdict is not None or part.policy is NUMAPolicy.NONE or not demand.names:
            return ()
        machines = self._machines(part)
        before = {row: machines.pools[row].free.copy() for row in demand.names if row in machines.pools}
        admission = Admission(machines, demand)
        admission.run()
        if admission.reason[0] != Reason.FITS:
            return ()
        taken = {demand.names[row]: (free - machines.pools[row].free)[:, 0] for row, free in before.items()}
        return by_numa_id(self._view.snapshot.zone_ids[:, node], taken)

    def reason_of(self, part: _Part) -> int:
        """Reason of the one node of a part, by the whole way."""
        if part.verdict is not None:
            return part.verdict
        reason, _ = self._by_masks(part)
        return int(reason[0])

    def _demand(self, part: _Part) -> Demand:
        return self._whole if part.ours else self._placed

    @cached_property
    def _placed(self) -> Demand:
        return Demand.of(self._request)

    @cached_property
    def _whole(self) -> Demand:
        return Demand.whole(self._request)

    def _shares(self, part: _Part, demand: Demand) -> list[Share]:
        """What must stay within one NUMA node each."""
        if part.policy is NUMAPolicy.NONE:
            return [Share(share.kind, {}, share.memory, {}) for share in demand.containers]
        return [demand.pod] if part.scope is Scope.POD else list(demand.containers)

    def _by_zones(self, shares: list[Share], nodes: Nodes) -> ZoneFit:
        """The short way. Resources that no NUMA node of a node lists are left out there: nobody aligns them."""
        view, everywhere = self._view, len(nodes) == self._view.snapshot.n
        at = slice(None) if everywhere else nodes
        fit = fit_zones(
            shares, lambda row: view.free(row)[:, at], lambda row: view.snapshot.capacity[row][:, at], len(nodes)
        )
        listed = view.snapshot.listed
        rows = sorted({row for share in shares for row in share.amounts if not listed[row].all()})
        if not rows:
            return fit
        failed = np.flatnonzero(~fit.fits)
        patterns = as_mask(~listed[rows][:, nodes[failed]])
        for pattern in np.unique(patterns[patterns > 0]).tolist():
            gone = {row for bit, row in enumerate(rows) if pattern >> bit & 1}
            here = failed[patterns == pattern]
            again = self._by_zones([share.without(gone) for share in shares], nodes[here])
            fit.fits[here], fit.mask[here] = again.fits, again.mask
        return fit

    def _totals_suffice(self, part: _Part, demand: Demand) -> Bools:
        """Whether there are enough pieces of what is not bound to NUMA nodes, wherever they are (bool [n])."""
        view, nodes = self._view, part.nodes
        enough = np.ones(len(nodes), dtype=np.bool_)
        for row, amount in demand.pod.devices.items():
            # Also where NUMA nodes list them: a device near two of them is counted by both.
            named = view.snapshot.allocatable[row][nodes] > UNLISTED
            enough &= ~named | (view.node_free(row)[nodes] >= amount)
        if part.policy is NUMAPolicy.NONE:
            for row, amount in {**demand.pod.cpu, **demand.pod.devices}.items():
                free = view.free(row)[:, nodes]
                total = np.maximum(free, 0).sum(axis=0)
                if row in demand.pod.devices:
                    total += self._elsewhere(row, nodes)
                enough &= (free == UNLISTED).all(axis=0) | (total >= amount)
        return enough

    def _elsewhere(self, row: int, nodes: Nodes) -> npt.NDArray[np.int64]:
        """int64 [n]: at most so many pieces are near no NUMA node: what the node has beyond its NUMA nodes."""
        snapshot = self._view.snapshot
        near = np.maximum(snapshot.capacity[row][:, nodes], 0).sum(axis=0)
        beyond: npt.NDArray[np.int64] = np.maximum(snapshot.allocatable[row][nodes] - near, 0)
        return beyond

    def _short_way_is_final(self, part: _Part, demand: Demand) -> bool:
        if part.policy is NUMAPolicy.SINGLE_NUMA_NODE:
            # Without a hint from another manager, containers may end up on NUMA nodes of their own: a sum of memory
            # that no mask can hold counts as "no preference".
            return part.scope is Scope.CONTAINER or len(demand.containers) == 1 or bool(demand.pod.cpu)
        return part.policy is NUMAPolicy.NONE and not demand.pod.memory

    def _closest_differs(self, part: _Part) -> bool:
        """Whether single NUMA nodes may differ in their distance to themselves, which would decide between them."""
        if not part.closest or part.policy in {NUMAPolicy.NONE, NUMAPolicy.SINGLE_NUMA_NODE}:
            return False
        snapshot = self._view.snapshot
        to_self = snapshot.distances[:, :, part.nodes].diagonal()
        exists = (snapshot.zone_ids[:, part.nodes] != NO_ZONE).T
        return bool((np.where(exists, to_self, to_self[:, :1]) != to_self[:, :1]).any())

    def _by_masks(self, part: _Part) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """The whole way, in batches."""
        n = len(part.nodes)
        reason: Bytes = np.zeros(n, dtype=np.uint8)
        mask = np.zeros(n, dtype=np.int64)
        demand = self._demand(part)
        if not demand.names:
            return reason, mask
        size = max(1, _BATCH >> self._view.snapshot.z)
        for start in range(0, n, size):
            batch = slice(start, start + size)
            here = part.at(np.arange(n)[batch])
            reason[batch], used = self._admitted(here, demand)
            if part.policy is not NUMAPolicy.NONE:
                mask[batch] = used
        return reason, mask

    def _admitted(self, part: _Part, demand: Demand) -> tuple[Bytes, npt.NDArray[np.int64]]:
        admission = Admission(self._machines(part), demand)
        admission.run()
        reason = admission.reason
        doubtful = np.flatnonzero((reason != Reason.FITS) & admission.doubt)
        if len(doubtful):
            spared = doubtful[self._may_be_admitted(part.at(doubtful), demand)]
            reason[spared] = Reason.FITS
        reason[(reason == Reason.FITS) & ~self._totals_suffice(part, demand)] = Reason.ALLOCATION_FAILS
        return reason, np.where(reason == Reason.FITS, admission.mask, 0)

    def _may_be_admitted(self, part: _Part, demand: Demand) -> Bools:
        """Whether nodes (bool [n]) that refuse as far as can be seen may admit as far as cannot.

        What no state could change: there must be enough in total, and with policy restricted each container by itself,
        or the pod with scope "pod", must have a preferred hint now.
        """
        machines = self._machines(part)
        possible = np.ones(len(part.nodes), dtype=np.bool_)
        for row, amount in demand.pod.amounts.items():
            pool = machines.pools[row]
            possible &= ~pool.listed | (pool.total() >= amount)
        if part.policy is NUMAPolicy.RESTRICTED:
            for share in (demand.pod,) if part.scope is Scope.POD else demand.containers:
                alone = Admission(self._machines(part), demand.alone(share))
                alone.run()
                possible &= alone.reason == Reason.FITS
        return possible

    def _machines(self, part: _Part) -> Machines:
        snapshot, nodes = self._view.snapshot, part.nodes
        exists = snapshot.zone_ids[:, nodes] != NO_ZONE
        z = int(exists.any(axis=1).sum())
        demand = self._demand(part)
        memory = [row for row, name in enumerate(snapshot.resources) if name == MEMORY or is_hugepages(name)]
        pools = {}
        for row in {*demand.pod.amounts, *(row for share in demand.containers for row in share.amounts), *memory}:
            capacity = snapshot.zone_allocatable if row in memory else snapshot.capacity
            listed = self._view.free(row)[:z, nodes]
            near = np.maximum(capacity[row][:z, nodes], 0)
            device = row in demand.pod.devices
            none = np.zeros(len(nodes), dtype=np.int64)
            pools[row] = Pool(
                capacity=near,
                free=np.maximum(listed, 0),
                listed=(listed > UNLISTED).any(axis=0),
                elsewhere=self._elsewhere(row, nodes) if device else none,
                shared=(snapshot.allocatable[row][nodes] > UNLISTED)
                & (near.sum(axis=0) > snapshot.allocatable[row][nodes])
                if device
                else none.astype(np.bool_),
                reusable=np.zeros_like(near),
                reusable_by_mask={},
            )
        return Machines(
            policy=part.policy,
            scope=part.scope,
            machine=as_mask(exists[:z]),
            distances=snapshot.distances[:z, :z, nodes] if part.closest else None,
            pools=pools,
            memory_rows=tuple(memory),
            grouped=not part.ours,
        )
