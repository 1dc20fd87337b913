"""Koordinator's CPU bind policies: pods whose CPUs are whole physical cores, or one CPU of each core.

1. What must hold on a node: the policy that the pod requires; else the node's, if the pod's CPUs are bound; and what
   a kubelet with full-pcpus-only requires of every pod that it gives CPUs.
2. FullPCPUs: the request is a multiple of the threads per core, and that many CPUs are in wholly free cores.
   SpreadByPCPUs: there are as many cores with a free CPU as CPUs are requested (`spread_pods`).
3. A node that requires another policy than the pod is excluded, and for bound CPUs one whose CPUs are amplified.
4. A kubelet with full-pcpus-only also counts what is free of the whole node, container after container, before it lets
   a container use the CPUs of an init container again: 8 after 8 take 16 (`at_once`).
5. Where the threads per core are not known, nothing more is required.

On NUMA nodes the free amounts are reduced to such CPUs (`in_cores`); the alignment is then as for any pod. Amounts that
are taken later count against whole cores, also those of pods that would take split ones: never too much is promised.

Source: koordinator pkg/scheduler/plugins/nodenumaresource (plugin.go Filter, resource_manager.go), kubernetes
pkg/kubelet/cm/cpumanager/policy_static.go (enforceSMTAlignment, SMTAlignmentError).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Bytes, Ids
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.core_columns import AMPLIFIED, FULL, KUBELET_FULL, SPREAD
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.kubernetes.pod import ContainerKind, QoS
from webhook.model.resources import CPU


def spread_pods(free: Amounts, split: Amounts, cores: Amounts, threads: Amounts, cpu: int) -> Amounts:
    """The pods that get one CPU of each of several cores (SpreadByPCPUs): int64, of the shape of `free`.

    The pods request `cpu` millicores each. This matters on machines with more than two threads per core. A pod takes a
    CPU of as many cores as it requests CPUs. m pods fit if and only if the cores together have enough, where a core
    counts with at most m of its free CPUs: sum over cores of min(free, m) >= m * cpus (Gale-Ryser).

    Known are the wholly free cores, the number of other cores with a free CPU, and these cores' free CPUs together. How
    they are distributed is not. The sum is least if as many of these cores as possible have all but one of their CPUs
    free and the others one, so this is what counts: a node never counts more pods than it takes, and the first one is
    exact.

    free: free millicores; split: those in cores of which a CPU is taken; cores: 1000 for each core with a free CPU;
    threads: per core.
    """
    cpus, wide = max(cpu // 1000, 1), np.maximum(threads, 2)
    partly = np.maximum(np.minimum(split, free), 0) // 1000
    whole = np.maximum(free // 1000 - partly, 0) // wide
    others = np.clip(cores // 1000 - whole, 0, partly)
    beyond = partly - others
    room = np.maximum(wide - 2, 1)
    nearly = np.minimum(beyond // room, others)
    rest = np.where(nearly < others, beyond - nearly * room, 0)
    pods = np.zeros_like(free)
    for m in range(1, int(wide.max(initial=2)) + 1):
        have = whole * np.minimum(wide, m) + nearly * np.minimum(wide - 1, m)
        have += np.where(nearly < others, np.minimum(1 + rest, m) + (others - nearly - 1), 0)
        pods = np.where((have >= m * cpus) & (m <= wide), m, pods)
    # With as many pods as threads, no core has more CPUs than pods: then the sum alone decides.
    return np.where(pods >= wide, np.maximum(pods, free // 1000 // cpus), pods)


UNLIMITED: Final = np.iinfo(np.int64).max
"""More pods than any node takes."""
_OTHERS: Final = {CPUBindPolicy.FULL_PCPUS: SPREAD, CPUBindPolicy.SPREAD_BY_PCPUS: FULL}
"""Required policy of a pod -> the rule of a node that contradicts it."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreRules:
    """Which nodes require what of a pod's CPUs. N nodes."""

    row: int
    """Of cpu."""
    cpu: int
    """What the pod requests, in millicores."""
    whole: Bools
    """bool [N]: its CPUs are wholly free cores."""
    spread: Bools
    """bool [N]: they are one of each core."""
    threads: Ids
    """int [N]: threads per core; 0 = not known."""
    by_kubelet: Bools
    """bool [N]: its kubelet requires whole cores of every container that it gives CPUs."""
    at_once: int
    """What must be free in whole cores of all NUMA nodes for such a kubelet, in millicores."""

    def whole_free(self, snapshot: Snapshot) -> Amounts:
        """int64 [zone, node]: what is free of each NUMA node; of wholly free cores where that is required."""
        free = snapshot.free(self.row)
        step = 1000 * np.maximum(self.threads, 1).astype(np.int64)
        cores = np.maximum(free - snapshot.node_arrays.split_cpu, 0) // step * step
        return np.where(self.whole & (free > 0), cores, free)

    def free(self, snapshot: Snapshot) -> Amounts:
        """int64 [zone, node]: what one pod can have of each NUMA node."""
        free = self.whole_free(snapshot)
        single = np.minimum(free // 1000 * 1000, snapshot.node_arrays.core_cpu)
        return np.where(self.spread & (free > 0), single, free)

    def whole_free_of_node(self, snapshot: Snapshot) -> Amounts:
        """int64 [node]: the same as `whole_free` for the node as a whole."""
        free = snapshot.node_free(self.row)
        return np.where(self.whole, free - snapshot.node_arrays.split_cpu_of_node, free)

    def spread_in_zones(self, snapshot: Snapshot) -> Amounts | None:
        """int64 [zone, node]: pods with one CPU of each core; None = no core has more than two: sums are exact."""
        arrays = snapshot.node_arrays
        if not self._has_wide_cores(arrays):
            return None
        pods = spread_pods(
            snapshot.free(self.row), arrays.split_cpu, arrays.core_cpu, arrays.threads.astype(np.int64), self.cpu
        )
        return np.where(self.spread & (arrays.threads > 2), pods, UNLIMITED)

    def spread_on_node(self, snapshot: Snapshot) -> Amounts | None:
        """int64 [node]: the same for the node as a whole."""
        arrays = snapshot.node_arrays
        if not self._has_wide_cores(arrays):
            return None
        free, cores = snapshot.node_free(self.row), arrays.core_cpu.sum(axis=0)
        pods = spread_pods(free, arrays.split_cpu_of_node, cores, arrays.threads.astype(np.int64), self.cpu)
        return np.where(self.spread & (arrays.threads > 2), pods, UNLIMITED)

    def _has_wide_cores(self, arrays: NodeArrays) -> bool:
        return bool(np.count_nonzero(self.spread & (arrays.threads > 2)))

    def too_few(self, snapshot: Snapshot) -> Bools:
        """Bool [node]: the node as a whole has too few such CPUs."""
        cores = snapshot.node_arrays.core_cpu.sum(axis=0)
        too_few: Bools = (self.whole_free_of_node(snapshot) < self.cpu) | (self.spread & (cores < self.cpu))
        too_few |= self.kubelet_pods(snapshot) == 0
        return too_few

    def kubelet_pods(self, snapshot: Snapshot) -> Amounts:
        """int64 [node]: such pods that a kubelet with full-pcpus-only admits one after the other, by all NUMA nodes."""
        listed = self.by_kubelet & snapshot.node_arrays.listed[self.row]
        free = np.maximum(self.whole_free(snapshot), 0).sum(axis=0)
        pods = np.where(free < self.at_once, 0, (free - self.at_once) // max(self.cpu, 1) + 1)
        return np.where(listed, pods, UNLIMITED)


class WholeCores(NamedTuple):
    """What one node has of wholly free cores, and what pods of several classes take of it, in millicores."""

    in_zones: Sequence[int]
    of_node: int
    needs: tuple[int, ...]
    """0 of a class that needs no whole cores there."""


class WholeCoresOfClasses:
    """The wholly free cores of each node for several classes of pods."""

    def __init__(self, snapshot: Snapshot, requests: Sequence[PodRequest]) -> None:
        self._rules = [core_rules(snapshot.node_arrays, request) for request in requests]
        self._none = WholeCores((0,) * snapshot.node_arrays.z, 0, (0,) * len(requests))
        self._planes = [
            None if rules is None else (rules.whole_free(snapshot), rules.whole_free_of_node(snapshot))
            for rules in self._rules
        ]

    def at(self, node: int) -> WholeCores:
        """Those of a node (an index)."""
        needs = tuple([rules.cpu if rules is not None and rules.whole[node] else 0 for rules in self._rules])
        if not any(needs):
            return self._none
        planes = next(planes for planes, cpu in zip(self._planes, needs, strict=True) if planes is not None and cpu)
        return WholeCores(tuple(planes[0][:, node].tolist()), int(planes[1][node]), needs)


def core_rules(node_arrays: NodeArrays, request: PodRequest) -> CoreRules | None:
    """What nodes require of the pod's CPUs; None = nothing anywhere."""
    rule = node_arrays.cpu_rule
    # Nearly all pods end here: this costs two microseconds at 5,000 nodes.
    learned = [(at, n) for name, n in request.whole_cores if (at := node_arrays.index.get(name)) is not None]
    if request.cpu_bind is None and not (
        _has_exclusive_cpus(request) and (learned or np.count_nonzero(rule & KUBELET_FULL))
    ):
        return None
    column = request.resources.index(CPU)
    threads = node_arrays.threads
    by_kubelet = rule & KUBELET_FULL != 0
    if learned:
        where, found = zip(*learned, strict=True)
        threads = threads.copy()
        threads[list(where)] = found
        by_kubelet[list(where)] = True
    known = threads > 0
    by_kubelet &= known & _has_exclusive_cpus(request)
    whole = np.zeros(node_arrays.n, dtype=np.bool_)
    spread = whole.copy()
    if request.cpu_bind is not None:
        required = request.cpu_bind.required
        whole = known & ((rule & FULL != 0) | (required is CPUBindPolicy.FULL_PCPUS))
        spread = known & ~whole & ((rule & SPREAD != 0) | (required is CPUBindPolicy.SPREAD_BY_PCPUS))
    whole, spread = whole | by_kubelet, spread & ~by_kubelet
    if not np.count_nonzero(whole) and not np.count_nonzero(spread):
        return None
    cpu, row = request.node[column], request.rows[column]
    return CoreRules(row, cpu, whole, spread, threads, by_kubelet, _at_once(request, column))


def core_reasons(node_arrays: NodeArrays, request: PodRequest) -> Bytes | None:
    """uint8 [node]: why a node can never take the pod's CPUs; None = each can."""
    bind = request.cpu_bind
    rules = core_rules(node_arrays, request)
    if bind is None and rules is None:
        return None
    reasons = np.zeros(node_arrays.n, dtype=np.uint8)
    if rules is not None:
        step = 1000 * np.maximum(rules.threads, 1).astype(np.int64)
        uneven = np.zeros(node_arrays.n, dtype=np.bool_)
        if bind is not None:
            uneven |= rules.whole & (rules.cpu % step != 0)
            uneven |= rules.spread & (rules.cpu % 1000 != 0)
        for cpus in _exclusive_cpus(request):
            uneven |= rules.by_kubelet & (cpus % step != 0)
        reasons[uneven] = Reason.NOT_WHOLE_CORES
    if bind is not None:
        other = 0 if bind.required is None else _OTHERS[bind.required]
        reasons[node_arrays.cpu_rule & other != 0] = Reason.CPU_BIND_POLICY_MISMATCH
        reasons[node_arrays.cpu_rule & AMPLIFIED != 0] = Reason.AMPLIFIED_CPUS
    return reasons if np.count_nonzero(reasons) else None


def in_cores(snapshot: Snapshot, request: PodRequest) -> Snapshot:
    """The snapshot as free as it is for one pod's CPUs; the same one if nothing is required of them."""
    rules = core_rules(snapshot.node_arrays, request)
    return snapshot if rules is None else snapshot.with_plane(rules.row, rules.free(snapshot))


def _has_exclusive_cpus(request: PodRequest) -> bool:
    return request.qos is QoS.GUARANTEED and not request.pod_level and any(request.integral_cpu)


def _at_once(request: PodRequest, column: int) -> int:
    """The most that is free or held when a container is checked: it cannot count on what an init container holds."""
    held = running = most = 0
    for kind, amounts, integral in zip(request.kinds, request.containers, request.integral_cpu, strict=True):
        if integral:
            most = max(most, held + amounts[column])
            held = max(held, running + amounts[column])
            running += amounts[column] if kind is not ContainerKind.INIT else 0
    return most


def _exclusive_cpus(request: PodRequest) -> set[int]:
    """What containers get exclusively from a kubelet, in millicores."""
    if not _has_exclusive_cpus(request):
        return set()
    column = request.resources.index(CPU)
    containers = zip(request.containers, request.integral_cpu, strict=True)
    return {amounts[column] for amounts, integral in containers if integral}
