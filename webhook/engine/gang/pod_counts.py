"""How many pods of one class fit on each node: on the node as a whole and within NUMA nodes.

1. Nodes that would not take even one by the scheduler's and the policies' rules take none. Bound CPUs count by the
   cores that are free for them (webhook.engine.cpu_cores).
2. The node as a whole: the minimum over the resources of free // request, in exact integers; "pods" is one of them.
3. If each pod stays within one NUMA node: at most the sum of the same over the NUMA nodes.
4. If only a replay can tell (webhook.engine.gang.admission_replay), step 2 is an upper bound, or 0 if not even one pod
   is admitted. What replays have found limits the counts (`Caps`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools
from webhook.engine.cpu_cores import core_reasons, core_rules
from webhook.engine.filter.node_fit import avoided_nodes, closed
from webhook.engine.gang.pod_class import Bound, PodClass
from webhook.engine.koordinator import ours_to_place, policy_fit, shut_out
from webhook.engine.kubelet import predict
from webhook.engine.kubelet.bitmask import as_mask
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import Exclusive

UNBOUNDED = 1 << 31
"""Means that no resource limits the number: more pods than any gang has; sums over all nodes stay within int64."""


def slots(free: Sequence[Amounts], requests: Sequence[int]) -> Amounts:
    """The number of pods that fit: int64, in the shape of the free amounts, at most UNBOUNDED.

    free: for each resource int64 [node] or [zone, node], cpu in millicores, rest in bytes or a count; -1 = not listed,
    below zero = over-committed: nothing fits in either case. requests: the amount one pod requests of each, at least 1.
    """
    if not free:
        raise ValueError("no resource to count by: say so with a row of UNBOUNDED")
    fit = np.floor_divide(free[0], requests[0])
    other = np.empty_like(fit)
    for amounts, request in zip(free[1:], requests[1:], strict=True):
        # Pods and most devices are requested one by one; a division takes twice as long as a minimum.
        np.minimum(fit, amounts if request == 1 else np.floor_divide(amounts, request, out=other), out=fit)
    return np.clip(fit, 0, UNBOUNDED, out=fit)


Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """Pods of one class per node. N nodes, Z positions."""

    nodes: Amounts
    """int64 [N]; an upper bound where only a replay can tell."""
    zones: Amounts | None
    """int64 [Z, N]: pods per NUMA node, defined on bound nodes; None = there are none."""
    bound: Bools
    """bool [N]: each pod stays within one NUMA node."""


def count(snapshot: Snapshot, pod_class: PodClass) -> Count:
    """The count of every node."""
    nodes = _as_a_whole(snapshot, pod_class)
    # A shortage on the node as a whole is already in that count.
    shut = closed(snapshot.node_arrays, pod_class.pod)
    if shut is not None:
        nodes[shut] = 0
    avoided = avoided_nodes(snapshot.node_arrays, pod_class.pod)
    if avoided is not None:
        nodes[avoided] = 0
    policies = policy_fit(snapshot.node_arrays, pod_class.request)
    if policies is not None:
        nodes[policies != Reason.FITS] = 0
    cores = core_reasons(snapshot.node_arrays, pod_class.request)
    if cores is not None:
        nodes[cores != Reason.FITS] = 0
    rules = core_rules(snapshot.node_arrays, pod_class.request)
    if rules is not None:
        np.minimum(nodes, slots([rules.whole_free_of_node(snapshot)], [rules.cpu]), out=nodes)
        if (spread := rules.spread_on_node(snapshot)) is not None:
            np.minimum(nodes, spread, out=nodes)
        np.minimum(nodes, rules.kubelet_pods(snapshot), out=nodes)
        nodes[rules.too_few(snapshot)] = 0
    how = pod_class.ways
    if how.refusing is not None:
        nodes[how.refusing] = 0
    zones: Amounts | None = None
    anywhere = np.zeros(len(nodes), dtype=np.bool_)
    for bound in how.bound:
        anywhere |= bound.where
        fit = _per_zone(snapshot, pod_class, bound)
        np.minimum(nodes, fit.sum(axis=0), out=nodes, where=bound.where)
        zones = fit if zones is None else np.where(bound.where, fit, zones)
    if how.open is not None:
        nodes[how.open & ~predict(snapshot, pod_class.request).fits] = 0
    return Count(nodes, zones, anywhere)


def _as_a_whole(snapshot: Snapshot, pod_class: PodClass) -> Amounts:
    if any(row < 0 for row in pod_class.node):
        return np.zeros(snapshot.node_arrays.n, dtype=np.int64)
    return slots([snapshot.node_free(row) for row in pod_class.node], list(pod_class.node.values()))


def _per_zone(snapshot: Snapshot, pod_class: PodClass, bound: Bound) -> Amounts:
    """int64 [zone, node]: pods that fit into each NUMA node; exclusive NUMA nodes count as full."""
    wanted = {row: amount for row, amount in bound.share.amounts.items() if amount > 0}
    rules = core_rules(snapshot.node_arrays, pod_class.request)
    spread = None
    if rules is not None and rules.row in wanted:
        spread = rules.spread_in_zones(snapshot)
        # Each pod needs cores of its own for its CPUs; other CPUs of these cores are free for the next pod.
        too_few = rules.free(snapshot) < wanted[rules.row]
        snapshot = snapshot.with_plane(rules.row, np.where(too_few, 0, rules.whole_free(snapshot)))
    devices = [row for row, amount in bound.share.devices.items() if amount == 0]
    fit = _planes(snapshot, wanted, devices, slice(None))
    if spread is not None:
        np.minimum(fit, spread, out=fit)
    without = np.flatnonzero(bound.where & ~snapshot.node_arrays.listed[[*wanted, *devices]].all(axis=0))
    if len(without):
        fit[:, without] = _leaving_unlisted_out(snapshot, wanted, devices, without)
    shut = shut_out(snapshot, pod_class.request) if pod_class.request.exclusive is Exclusive.REQUIRED else None
    if shut is not None:
        # The kubelet takes the lowest NUMA node with capacity: if that belongs to another pod, the node takes no more.
        blocked = np.where(
            ours_to_place(snapshot.node_arrays), shut, np.logical_or.accumulate(shut & (fit > 0), axis=0)
        )
        fit[blocked] = 0
    return fit


def _planes(snapshot: Snapshot, wanted: Mapping[int, int], devices: Sequence[int], at: slice | Positions) -> Amounts:
    planes = [snapshot.free(row)[:, at] for row in wanted]
    if planes:
        fit = slots(planes, list(wanted.values()))
    else:
        fit = np.full((snapshot.node_arrays.z, len(snapshot.node_arrays.names)), UNBOUNDED, dtype=np.int64)[:, at]
    for row in devices:
        # A request for zero devices still binds the pod to NUMA nodes that have some.
        fit[snapshot.node_arrays.capacity[row][:, at] <= 0] = 0
    return fit


def _leaving_unlisted_out(
    snapshot: Snapshot, wanted: Mapping[int, int], devices: Sequence[int], nodes: Positions
) -> Amounts:
    """The same for nodes where no NUMA node lists some resource, which is then not aligned."""
    fit = np.zeros((snapshot.node_arrays.z, len(nodes)), dtype=np.int64)
    rows = [*wanted, *devices]
    patterns = as_mask(~snapshot.node_arrays.listed[rows][:, nodes])
    for pattern in np.unique(patterns).tolist():
        gone = {row for bit, row in enumerate(rows) if pattern >> bit & 1}
        here = patterns == pattern
        listed = {row: amount for row, amount in wanted.items() if row not in gone}
        fit[:, here] = _planes(snapshot, listed, [row for row in devices if row not in gone], nodes[here])
    fit[snapshot.node_arrays.zone_ids[:, nodes] == NO_ZONE] = 0
    return fit


class Caps:
    """The most pods of a gang's classes that each node admits, as replays have found, and the counts that these limit.

    Classes are compared by identity.
    """

    def __init__(self) -> None:
        self._most: dict[PodClass, Amounts] = {}
        self._counts: dict[PodClass, tuple[Snapshot, Count]] = {}

    def __bool__(self) -> bool:
        return bool(self._most)

    def lower(self, pod_class: PodClass, nodes: int | Amounts, most: int, n: int) -> None:
        """Note that these nodes (n of each, of n nodes) admit at most so many pods of the class."""
        if pod_class not in self._most:
            self._most[pod_class] = np.full(n, UNBOUNDED, dtype=np.int64)
        limits = self._most[pod_class]
        limits[nodes] = np.minimum(limits[nodes], most)

    def limited(self, pod_class: PodClass, counted: Count) -> Count:
        """The count within the limits."""
        most = self._most.get(pod_class)
        return counted if most is None else replace(counted, nodes=np.minimum(counted.nodes, most))

    def count(self, snapshot: Snapshot, pod_class: PodClass) -> Count:
        """The count of a class in the snapshot, which is asked for again and again; without the limits."""
        known = self._counts.get(pod_class)
        if known is None or known[0] is not snapshot:
            known = self._counts[pod_class] = snapshot, count(snapshot, pod_class)
        return known[1]
