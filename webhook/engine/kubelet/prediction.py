"""Whether a node's kubelet will admit a pod, predicted for all nodes at once from their published NRTs.

1. Who aligns the pod on each node: the kubelet, by its policy and scope; or, if the kubelet does not and the pod or the
   node's label has a policy, Koordinator's agent, by the hint that we write (webhook.engine.kubelet.numa_assignment).
2. The short way for all nodes: every container within one NUMA node
   (webhook.engine.kubelet.policy_single_numa_node).
3. If that fails and the policy allows more: all sets of NUMA nodes (webhook.engine.kubelet.all_sets), in batches. A
   best-effort kubelet takes anything available; the sets are then computed only on request (`wide`).
4. For a single node whose pods are known, all sets at once: its pods may show what its NRT does not
   (webhook.engine.kubelet.all_sets).

Source: kubernetes pkg/kubelet/cm (topology, cpu, memory and device managers with policy static).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Bytes, Nodes, all_nodes, every
from webhook.engine.cpu_cores import in_cores
from webhook.engine.kubelet.all_sets import AllSets
from webhook.engine.kubelet.bitmask import as_mask
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.kubelet.machine_state import devices_shared
from webhook.engine.kubelet.memory_manager import grouped_by_hints
from webhook.engine.kubelet.numa_assignment import joint_sets, share_out
from webhook.engine.kubelet.policy_best_effort import Lowest, lowest, spread
from webhook.engine.kubelet.policy_groups import PolicyGroup, policy_groups
from webhook.engine.kubelet.policy_restricted import preferred_sets
from webhook.engine.kubelet.policy_single_numa_node import ZoneFit, fit_zones
from webhook.engine.kubelet.totals import pieces_suffice, totals
from webhook.engine.numa_fit import Allocation, Masks, NUMAFit, Wide, by_numa_id
from webhook.engine.reason import FITS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy, Scope

WholeWay = Callable[[PolicyGroup], Masks]
"""The masks (int64 [n]) of a group's nodes, by all sets."""


def wide(snapshot: Snapshot, policy_groups: Sequence[tuple[PolicyGroup, Share]], whole_way: WholeWay) -> Wide:
    """The open nodes of some groups, each with the share of its one container.

    The pod certainly fits there, but over more than one NUMA node. Which ones they are is computed on request:
    1. A cheap lower bound of their number, and sometimes the exact set (webhook.engine.kubelet.policy_best_effort).
    2. For the requested nodes, those left: by what their kubelet would take where.
    3. What is still open: all sets of NUMA nodes, the full admission.
    """
    late = [_LazyGroup(snapshot, policy_group, share, whole_way) for policy_group, share in policy_groups]
    ends = np.cumsum([len(policy_group.nodes) for policy_group, _ in policy_groups])

    def masks(where: Nodes) -> Masks:
        found = np.zeros(len(where), dtype=np.int64)
        numbers = np.searchsorted(ends, where, side="right")
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            found[mine] = late[number].masks(where[mine] - (ends[number] - len(late[number].policy_group.nodes)))
        return found

    return Wide(
        np.concatenate([policy_group.nodes for policy_group, _ in policy_groups]),
        lambda: np.concatenate([each.lowest.at_least for each in late]),
        masks,
    )


class _LazyGroup:
    """One group."""

    def __init__(self, snapshot: Snapshot, policy_group: PolicyGroup, share: Share, whole_way: WholeWay) -> None:
        self.policy_group = policy_group
        self._snapshot = snapshot
        self._share = share
        self._whole_way = whole_way

    @cached_property
    def lowest(self) -> Lowest:
        """The cheap result."""
        return lowest(self._snapshot, self._share, self.policy_group)

    def masks(self, where: Nodes) -> Masks:
        """int64 [n]: the masks of some nodes (indexes into the group)."""
        # A request for a few nodes need not compute the lower bounds of all.
        mask = self.lowest.mask[where] if "lowest" in self.__dict__ else np.zeros(len(where), dtype=np.int64)
        (rest,) = (mask == 0).nonzero()
        if len(rest):
            closer = spread(self._snapshot, self._share, self.policy_group.at(where[rest]))
            mask[rest] = closer.mask
            rest = rest[closer.open]
        if len(rest):
            mask[rest] = self._whole_way(self.policy_group.at(where[rest]))
        return mask


def split_inside(snapshot: Snapshot, demand: Demand, policy: NUMAPolicy, node: int, mask: int) -> Allocation | None:
    """The amounts taken of each NUMA node in the mask; None if they do not follow from it.

    The short way, in plain integers. The pod's NUMA nodes are known. The amounts follow from them if
    1. there is only one: everything is taken there, and resources of init containers are reused; or
    2. one container is admitted by a restricted kubelet: then its NUMA nodes are its affinity, and everything is taken
       inside (webhook.engine.kubelet.policy_restricted). CPUs: from completely free NUMA nodes while that many are
       needed, then from the fullest first; memory: from the lowest first; or
    3. one container is admitted by a best-effort kubelet over several (webhook.engine.kubelet.policy_best_effort).

    Everything else takes the admission itself (webhook.engine.kubelet.admission). The split of ten nodes of 8
    NUMA nodes in the cluster of make bench takes 88 to 146 times as long without 1. and 2., 1.9 to 2.8 times without 3.

    node: an index; mask: of the NUMA nodes that the pod uses, 0 = not known.
    """
    alone = mask.bit_count() == 1
    restricted = policy is NUMAPolicy.RESTRICTED and len(demand.containers) == 1 and not demand.pod.devices
    if demand.init_only_memory or not mask or not (alone or restricted):
        return None
    node_arrays = snapshot.node_arrays
    ids = node_arrays.zone_ids[:, node].tolist()
    taken: dict[int, dict[str, int]] = {position: {} for position in range(len(ids)) if mask >> position & 1}
    for row, amount in demand.pod.amounts.items():
        if not node_arrays.listed[row, node]:
            continue
        column = snapshot.free(row)[:, node].tolist()
        free = {position: max(column[position], 0) for position in taken}
        if sum(free.values()) < amount:
            return None
        order = list(free)
        if row in demand.pod.cpu and not alone:
            order = _cpu_order(free, node_arrays.capacity[row, :, node].tolist(), amount)
        needed = amount
        for position in order:
            here = min(free[position], needed)
            needed -= here
            if here:
                taken[position][demand.names[row]] = here
    return tuple((ids[position], amounts) for position, amounts in taken.items() if amounts)


def split_over_several(snapshot: Snapshot, demand: Demand, policy_group: PolicyGroup) -> Allocation | None:
    """The amounts on a best-effort group's only node, where no NUMA node holds the pod; None: not known."""
    by_totals = totals(snapshot, demand, policy_group.nodes)
    if by_totals is None or not demand.pod.amounts or not (by_totals.sure & by_totals.suffice)[0]:
        return None
    (share,) = demand.containers
    found = spread(snapshot, share, policy_group)
    if found.open[0]:
        return None
    taken = {demand.names[row]: amounts[:, 0] for row, amounts in zip(share.amounts, found.taken, strict=True)}
    return by_numa_id(snapshot.node_arrays.zone_ids[:, policy_group.nodes[0]], taken)


def _cpu_order(free: Mapping[int, int], capacity: list[int], amount: int) -> list[int]:
    """The NUMA nodes in the order in which webhook.engine.kubelet.pools.take_cpus takes CPUs from them."""
    fullest_first = sorted(free, key=free.__getitem__)
    whole = []
    needed = amount
    for position in fullest_first:
        if free[position] == capacity[position] and needed >= free[position] > 0:
            whole.append(position)
            needed -= free[position]
    return whole + [position for position in fullest_first if position not in whole]


def predict(snapshot: Snapshot, request: PodRequest, among: Bools | None = None) -> NUMAFit:
    """The verdict of every node's kubelet on the pod, and the NUMA nodes that it would use.

    A node without a known topology takes every pod without a strict policy of its own.
    among: bool [node]: the nodes to judge; others may get NoSingleNUMANode without a closer look.
    """
    snapshot = in_cores(snapshot, request)
    prediction = _Prediction(snapshot, request, among)
    n = snapshot.node_arrays.n
    groups = tuple(policy_groups(snapshot, request, all_nodes(n)))
    if len(groups) == 1:
        reason, mask = prediction.admit(groups[0])
    else:
        reason = np.zeros(n, dtype=np.uint8)
        mask = np.zeros(n, dtype=np.int64)
        for policy_group in groups:
            reason[policy_group.nodes], mask[policy_group.nodes] = prediction.admit(policy_group)
    return NUMAFit(
        reason == FITS, reason, mask, lambda node: prediction.split(node, int(mask[node])), prediction.wide()
    )


class _Prediction:
    """One pod on the nodes of one snapshot."""

    def __init__(self, snapshot: Snapshot, request: PodRequest, among: Bools | None = None) -> None:
        self._snapshot = snapshot
        self._request = request
        self._among = among
        self._late: list[tuple[PolicyGroup, Share]] = []
        self._all_sets = AllSets(snapshot, request)

    def admit(self, policy_group: PolicyGroup) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Reason (uint8 [n]) and mask (int64 [n]) of each node of the group."""
        n = len(policy_group.nodes)
        if policy_group.verdict is not None:
            return np.full(n, policy_group.verdict, dtype=np.uint8), np.zeros(n, dtype=np.int64)
        if policy_group.ours:
            return self._jointly(policy_group)
        demand = self._assigned
        if (
            self._all_sets.groups_decide
            or (policy_group.scope is Scope.POD and demand.init_only_memory)
            or self._closest_differs(policy_group)
        ):
            return self._all_sets.admit(policy_group)
        shares = self._shares(policy_group, demand)
        grouped = self._grouped(policy_group, demand)
        short = self._by_zones(shares, policy_group.nodes, grouped)
        fits, mask = short.fits, short.mask
        if demand.pod.devices or policy_group.policy is NUMAPolicy.NONE:
            fits = fits & pieces_suffice(self._snapshot, policy_group, demand)
            mask = mask * (fits if policy_group.policy is not NUMAPolicy.NONE else 0)
        none = policy_group.policy is NUMAPolicy.NONE
        reason = (~fits).view(np.uint8) * np.uint8(Reason.ALLOCATION_FAILS if none else Reason.NO_SINGLE_NUMA_NODE)
        final = self._short_way_is_final(policy_group, demand)
        if final is not True:
            rest = np.flatnonzero(~(fits | final))
            if self._among is not None:
                rest = rest[self._among.take(policy_group.nodes.take(rest))]
            if len(rest) and policy_group.policy is NUMAPolicy.RESTRICTED and len(shares) == 1:
                rest = self._prefer(policy_group, demand, shares[0], rest, reason, mask)
            elif len(rest) and policy_group.policy in {NUMAPolicy.NONE, NUMAPolicy.BEST_EFFORT}:
                # Totals do not show what memory groups leave.
                by_sets = rest[:0] if grouped is None else rest[grouped[:, rest].any(axis=0)]
                if len(by_sets):
                    rest = np.setdiff1d(rest, by_sets)
                rest = np.concatenate([by_sets, self._put_off(policy_group, demand, rest, reason)])
            if len(rest):
                reason[rest], mask[rest] = self._all_sets.admit(policy_group.at(rest))
        if demand.pod.cpu and np.count_nonzero(by_socket := self._snapshot.node_arrays.numa_per_socket > 1):
            # The CPUs may be of any NUMA node of the socket.
            mask[by_socket.take(policy_group.nodes)] = 0
        return reason, mask

    def _jointly(self, policy_group: PolicyGroup) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Reason and mask where we choose the NUMA nodes. Best-effort admits a pod without any if none suffice."""
        n = len(policy_group.nodes)
        share = self._whole.pod
        if not (any(share.amounts.values()) or share.devices):
            return np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.int64)
        single = policy_group.policy is NUMAPolicy.SINGLE_NUMA_NODE
        mask = joint_sets(self._snapshot, share, policy_group.nodes, 1 if single else self._snapshot.node_arrays.z)
        listed = self._snapshot.node_arrays.listed[list(share.amounts)].any(axis=0).take(policy_group.nodes)
        if not every(listed):
            mask *= listed
        if policy_group.policy is NUMAPolicy.BEST_EFFORT:
            return np.zeros(n, dtype=np.uint8), mask
        reason = np.uint8(Reason.NO_SINGLE_NUMA_NODE if single else Reason.NOT_ALIGNED)
        return ((mask == 0) & listed).astype(np.uint8) * reason, mask

    def _put_off(self, policy_group: PolicyGroup, demand: Demand, rest: Nodes, reason: Bytes) -> Nodes:
        """Judge `rest`, indexes into a group whose policy never rejects, by totals; returns the undecided ones.

        Writes their reasons; their NUMA nodes stay open.
        """
        by_totals = totals(self._snapshot, demand, policy_group.nodes[rest])
        if by_totals is None:
            return rest
        fits = by_totals.suffice & pieces_suffice(self._snapshot, policy_group.at(rest), demand)
        reason[rest] = (~fits).view(np.uint8) * np.uint8(Reason.ALLOCATION_FAILS)
        late = rest[by_totals.sure & fits]
        if len(late) and policy_group.policy is not NUMAPolicy.NONE:
            self._late.append((policy_group.at(late), demand.containers[0]))
        return rest[~by_totals.sure]

    def _prefer(
        self,
        policy_group: PolicyGroup,
        demand: Demand,
        share: Share,
        rest: Nodes,
        reason: Bytes,
        mask: npt.NDArray[np.int64],
    ) -> Nodes:
        """Judge `rest`, indexes into a group with policy restricted, by its preferred sets; returns the undecided ones.

        Writes their reasons and masks. Admitted nodes are judged again if that is not final: several containers are
        admitted one after the other, and the closest NUMA nodes need not be the lowest.
        """
        here = policy_group.at(rest)
        preferred = preferred_sets(self._snapshot, share, here)
        admits = preferred.mask > 0
        still_open = preferred.open
        if policy_group.closest or len(demand.containers) > 1:
            still_open = still_open | admits
        reason[rest] = Reason.NOT_ALIGNED
        mask[rest] = 0
        (found,) = admits.nonzero()
        if len(found):
            enough = pieces_suffice(self._snapshot, here.at(found), demand)
            reason[rest[found]] = (~enough).view(np.uint8) * np.uint8(Reason.ALLOCATION_FAILS)
            mask[rest[found]] = preferred.mask[found] * enough
        return rest[still_open]

    def wide(self) -> Wide | None:
        """The admitted nodes whose NUMA nodes are still open."""
        return wide(self._snapshot, self._late, self._all_sets.masks) if self._late else None

    def split(self, node: int, mask: int) -> Allocation:
        """What the pod would take of each NUMA node of one node (an index); mask: those it uses, 0 = not known."""
        (policy_group,) = policy_groups(self._snapshot, self._request, np.array([node]))
        demand = self._assigned
        if policy_group.verdict is not None or policy_group.policy is NUMAPolicy.NONE or not demand.names:
            return ()
        if policy_group.ours:
            return share_out(self._snapshot, self._whole, node, mask)
        arrays = self._snapshot.node_arrays
        if demand.pod.cpu and (
            arrays.numa_per_socket[node] > 1 or (arrays.spread_cpus[node] and mask.bit_count() != 1)
        ):
            return ()  # how many CPUs it takes of which NUMA node is not known
        short = split_inside(self._snapshot, demand, policy_group.policy, node, mask)
        by_totals = policy_group.policy is NUMAPolicy.BEST_EFFORT and not self._all_sets.groups_decide
        if short is None and mask == 0 and by_totals and self._grouped(policy_group, demand) is None:
            short = split_over_several(self._snapshot, demand, policy_group)
        return self._all_sets.split(policy_group) if short is None else short

    @property
    def _assigned(self) -> Demand:
        return self._all_sets.demand

    @cached_property
    def _whole(self) -> Demand:
        return Demand.whole(self._request)

    def _shares(self, policy_group: PolicyGroup, demand: Demand) -> list[Share]:
        """The shares that must each stay within one NUMA node."""
        if policy_group.policy is NUMAPolicy.NONE:
            return [Share(share.kind, {}, share.memory, {}) for share in demand.containers]
        return [demand.pod] if policy_group.scope is Scope.POD else list(demand.containers)

    def _grouped(self, policy_group: PolicyGroup, demand: Demand) -> Bools | None:
        """NUMA nodes whose memory is in a group of several, as far as known (bool [z, n]); None: there are none."""
        if policy_group.policy not in {NUMAPolicy.RESTRICTED, NUMAPolicy.BEST_EFFORT} or not demand.pod.memory:
            return None
        return grouped_by_hints(self._snapshot, policy_group.nodes)

    def _by_zones(self, shares: list[Share], nodes: Nodes, grouped: Bools | None = None) -> ZoneFit:
        """The short way. Resources that no NUMA node of a node lists are ignored there: nothing aligns them."""
        snapshot, everywhere = self._snapshot, len(nodes) == self._snapshot.node_arrays.n
        at = slice(None) if everywhere else nodes
        memory = {row for share in shares for row in share.memory}

        def free(row: int) -> Amounts:
            plane = snapshot.free(row)[:, at]
            return plane if grouped is None or row not in memory else np.where(grouped, np.minimum(plane, 0), plane)

        fit = fit_zones(shares, free, lambda row: snapshot.node_arrays.capacity[row][:, at], len(nodes))
        listed = snapshot.node_arrays.listed
        rows = sorted({row for share in shares for row in share.amounts if not every(listed[row])})
        if not rows:
            return fit
        failed = np.flatnonzero(~fit.fits)
        patterns = as_mask(~listed[rows][:, nodes[failed]])
        for pattern in np.unique(patterns[patterns > 0]).tolist():
            gone = {row for bit, row in enumerate(rows) if pattern >> bit & 1}
            here = failed[patterns == pattern]
            closed = None if grouped is None else grouped[:, here]
            again = self._by_zones([share.without(gone) for share in shares], nodes[here], closed)
            fit.fits[here], fit.mask[here] = again.fits, again.mask
        return fit

    def _short_way_is_final(self, policy_group: PolicyGroup, demand: Demand) -> bool | Bools:
        """Whether a rejection by the short way is final: for all nodes of the group, or for each (bool [n])."""
        if policy_group.policy is not NUMAPolicy.SINGLE_NUMA_NODE:
            return policy_group.policy is NUMAPolicy.NONE and not demand.pod.memory
        if len(demand.containers) == 1:
            return True
        if policy_group.scope is Scope.POD:
            # Without a hint from another manager, containers may be on different NUMA nodes: a memory total that no
            # mask can hold counts as "no preference".
            return bool(demand.pod.cpu)
        shared = [devices_shared(self._snapshot, row, policy_group.nodes) for row in demand.reused_devices]
        return ~np.logical_or.reduce(shared) if shared else True

    def _closest_differs(self, policy_group: PolicyGroup) -> bool:
        """Whether single NUMA nodes may differ in their distance to themselves, which would break ties between them."""
        if not policy_group.closest or policy_group.policy in {NUMAPolicy.NONE, NUMAPolicy.SINGLE_NUMA_NODE}:
            return False
        node_arrays = self._snapshot.node_arrays
        to_self = node_arrays.distances[:, :, policy_group.nodes].diagonal()
        exists = (node_arrays.zone_ids[:, policy_group.nodes] != NO_ZONE).T
        return bool((np.where(exists, to_self, to_self[:, :1]) != to_self[:, :1]).any())
