"""Why one node cannot take a pod, as a sentence with the requested and available amounts."""

from collections.abc import Iterable, Sequence

import numpy as np

from webhook.engine.arrays import NO_ZONE, UNLISTED
from webhook.engine.cpu_cores import core_rules, in_cores
from webhook.engine.enforcement import not_enforced
from webhook.engine.filter.node_fit import untolerated
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.hints import rows_of
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.core_columns import FULL
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.kubernetes.avoided_node import used_again_text
from webhook.formats.kubernetes.pod import Pod
from webhook.model.names import KUBELET_OPTIONS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, PODS, format_amount, format_list, is_host_level, is_memory
from webhook.model.wording import counted


def explain(snapshot: Snapshot, pod: Pod, request: PodRequest, reason: Reason, node: int) -> str:
    """The sentence. node: the node's index in the snapshot."""
    node_arrays = snapshot.node_arrays
    policy = NUMAPolicy(int(node_arrays.policy[node]))
    match reason:
        case Reason.UNTOLERATED_TAINT:
            taint = untolerated(pod.tolerations, node_arrays.taint_sets[int(node_arrays.taint_set[node])])
            return f"untolerated taint {taint.key}={taint.value}:{taint.effect}" if taint else reason.phrase
        case Reason.NODE_SELECTOR_MISMATCH:
            return f"node selector mismatch: {_unmet_labels(snapshot, pod, node)}"
        case Reason.TOO_MANY_PODS:
            row = node_arrays.resources.find(PODS)
            places = max(int(node_arrays.allocatable[row, node]), 0)
            return f"too many pods: {counted(places, 'place is', 'places are')} taken, and there are no more"
        case Reason.INSUFFICIENT_RESOURCES:
            return "insufficient " + ", ".join(_shortages(snapshot, request, node))
        case Reason.NO_TOPOLOGY:
            return "no NUMA topology known: the node has no NodeResourceTopology with NUMA nodes"
        case Reason.UNKNOWN_POLICY:
            return f"unknown NUMA policy: {node_arrays.unknown_policies[node_arrays.names[node]]}"
        case Reason.POLICY_MISMATCH:
            own = request.policy or NUMAPolicy.NONE
            return f"NUMA policy mismatch: the pod asks for {own.koordinator}, the node's policy is {policy.kubelet}"
        case Reason.NO_SINGLE_NUMA_NODE:
            return f"no single NUMA node with {_wanted(snapshot, request, node)} ({_free(snapshot, request, node)})"
        case Reason.NOT_ALIGNED | Reason.ALLOCATION_FAILS:
            shortage = f"{reason.phrase}: {_wanted(snapshot, request, node)} ({_free(snapshot, request, node)})"
            return shortage + _disagreement(snapshot, request, node)
        case Reason.TOO_MANY_NUMA_NODES:
            zones, most = int(node_arrays.numa_nodes[node]), int(node_arrays.numa_limit[node])
            return (
                f"{counted(zones, 'NUMA node')}: with policy {policy.kubelet} its kubelet does not start on more than "
                f"{most} (max-allowable-numa-nodes); if that is raised, its annotation {KUBELET_OPTIONS} must say so"
            )
        case Reason.NUMA_NODE_EXCLUSIVE:
            return f"NUMA nodes held exclusively: {_residents(snapshot, request, node)}"
        case _:
            return _of_others(snapshot, pod, request, reason, node) or reason.phrase


def _of_others(snapshot: Snapshot, pod: Pod, request: PodRequest, reason: Reason, node: int) -> str | None:
    """The sentence of a reason that is about neither free amounts nor the node's own state; None for another reason."""
    node_arrays = snapshot.node_arrays
    if reason is Reason.NOT_ENFORCED:
        own = request.policy or NUMAPolicy.NONE
        return f"{own.koordinator} is {not_enforced(node_arrays, request, node)}"
    before = _rejection(pod, reason, node_arrays.names[node])
    return before or _of_cores(snapshot, pod, request, reason, node)


def _rejection(pod: Pod, reason: Reason, node: str) -> str | None:
    """The rejection because of which the pod avoids the node; None for another reason."""
    if reason is not Reason.REJECTED_BEFORE:
        return None
    avoided = [one for one in pod.avoided if one.node == node]
    rejected = f"its kubelet rejected a pod of the same controller or gang ({avoided[0].what})"
    return f"{rejected}; {used_again_text(avoided)}"


def _of_cores(snapshot: Snapshot, pod: Pod, request: PodRequest, reason: Reason, node: int) -> str | None:
    """The sentence of a reason about bound CPUs; None for another reason."""
    name = snapshot.node_arrays.names[node]
    if reason is Reason.AMPLIFIED_CPUS:
        return f"{reason.phrase}: only its scheduler counts bound CPUs there"
    if reason is Reason.CPU_BIND_POLICY_MISMATCH:
        own = CPUBindPolicy.FULL_PCPUS if snapshot.node_arrays.cpu_rule[node] & FULL else CPUBindPolicy.SPREAD_BY_PCPUS
        required = None if request.cpu_bind is None else request.cpu_bind.required
        return f"{reason.phrase}: the pod requires {required}, the node {own}"
    if reason is Reason.NOT_WHOLE_CORES:
        rules = core_rules(snapshot.node_arrays, request)
        threads = counted(0 if rules is None else int(rules.threads[node]), "thread")
        return f"{reason.phrase}: {_cpu(request)} CPUs requested, {threads} per core{_learned(pod, name)}"
    if reason is Reason.TOO_FEW_CORES:
        rules = core_rules(snapshot.node_arrays, request)
        by_kubelet = rules is not None and rules.by_kubelet[node]
        cpus = format_amount(CPU, rules.at_once) if rules is not None and by_kubelet else _cpu(request)
        wanted = f"{cpus} CPUs in cores {'at once ' if cpus != _cpu(request) else ''}requested"
        return f"{reason.phrase}: {wanted} ({_free(snapshot, request, node)}){_learned(pod, name)}"
    return None


def _learned(pod: Pod, node: str) -> str:
    """The rejection that showed that the node's kubelet gives whole cores only; empty if it is not learned from one."""
    found = [one for one in pod.learned if one.node == node]
    return f"; its kubelet rejected a pod of this namespace ({found[0].what})" if found else ""


def _unmet_labels(snapshot: Snapshot, pod: Pod, node: int) -> str:
    labels = snapshot.node_arrays.labels.rows[node]
    unmet = (f"{key}={value}" for key, value in pod.node_selector.items() if labels.get(key) != value)
    return ", ".join(unmet)


def _shortages(snapshot: Snapshot, request: PodRequest, node: int) -> Iterable[str]:
    for name, row, amount in zip(request.resources, request.rows, request.node, strict=True):
        free = max(int(snapshot.node_free(row)[node]), 0) if row >= 0 else 0
        if amount > free:
            yield f"{name}: {format_amount(name, amount)} requested, {format_amount(name, free)} free"


def _wanted(snapshot: Snapshot, request: PodRequest, node: int) -> str:
    """What is requested of NUMA nodes: by the pod, or by each of several containers if the node's scope is that."""
    node_arrays = snapshot.node_arrays
    lists = [_amounts(request, row) for row in request.containers]
    lists = [amounts for amounts in lists if amounts]
    if len(lists) < 2:
        return " and ".join(map(format_list, lists))
    demand = Demand.of(request)
    if node_arrays.scope[node] == Scope.POD and demand.pod.amounts:
        whole = {demand.names[row]: amount for row, amount in demand.pod.amounts.items()}
        return f"{format_list(whole)} for all containers together (scope pod)"
    return f"{' and '.join(map(format_list, lists))} for one container each (scope container)"


def _amounts(request: PodRequest, row: Sequence[int]) -> dict[str, int]:
    named = zip(request.resources, row, strict=True)
    return {name: amount for name, amount in named if amount > 0 and not (is_host_level(name) and "/" not in name)}


def _free(snapshot: Snapshot, request: PodRequest, node: int) -> str:
    """What each NUMA node has left of the requested resources; of CPUs, those in cores that the pod may have."""
    zones = []
    rules = core_rules(snapshot.node_arrays, request)
    snapshot = in_cores(snapshot, request)
    for z, numa_id in enumerate(snapshot.node_arrays.zone_ids[:, node].tolist()):
        if numa_id == NO_ZONE:
            continue
        free = {}
        for name, row in zip(request.resources, request.rows, strict=True):
            amount = int(snapshot.free(row)[z, node]) if row >= 0 else UNLISTED
            if amount != UNLISTED:
                free[name] = amount
        zones.append(f"NUMA {numa_id}: {format_list(free) or 'nothing'} free")
    in_which = " in such cores" if rules is not None and (rules.whole[node] or rules.spread[node]) else ""
    return "; ".join(zones) + in_which if zones else "no NUMA node is known"


def _cpu(request: PodRequest) -> str:
    return format_amount(CPU, request.node[request.resources.index(CPU)])


def _disagreement(snapshot: Snapshot, request: PodRequest, node: int) -> str:
    """What needs different numbers of NUMA nodes on a node whose kubelet rejects that; empty: nothing."""
    node_arrays = snapshot.node_arrays
    if node_arrays.policy[node] != NUMAPolicy.RESTRICTED or node_arrays.total[node]:
        return ""
    demand = Demand.of(request)
    of_memory: list[int] = []
    for share in (demand.pod,) if node_arrays.scope[node] == Scope.POD else demand.containers:
        rows = zip(share.amounts, rows_of(snapshot, share, np.array([node])), strict=True)
        widths = {
            demand.names[number]: int(row.narrowest()[0])
            for number, row in rows
            if row.amount > 0 and node_arrays.listed[number, node]
        }
        of_memory += [max((width for name, width in widths.items() if is_memory(name)), default=0)]
        if len(set(widths.values())) > 1:
            first, *others = widths.items()
            zones = int((node_arrays.zone_ids[:, node] != NO_ZONE).sum())
            beyond = f"more than the {zones} there are"
            one = f"{first[0]} needs {counted(first[1], 'NUMA node') if first[1] <= zones else beyond}"
            needs = ", ".join([one, *(f"{name} {width if width <= zones else beyond}" for name, width in others)])
            return f"; {needs}: a restricted kubelet wants the same number for all"
    if 1 < max(of_memory, default=0) != min(filter(None, of_memory)):
        wide = counted(max(of_memory), "NUMA node")
        return f"; memory of one container needs {wide}, and those give none to a container that needs fewer"
    return ""


def _residents(snapshot: Snapshot, request: PodRequest, node: int) -> str:
    single = request.policy is NUMAPolicy.SINGLE_NUMA_NODE
    residents = snapshot.multi_residents if single else snapshot.single_residents
    one, many = "pod that spans NUMA nodes", "pods that span NUMA nodes"
    one, many = (one, many) if single else ("SingleNUMANode pod", "")
    ids = snapshot.node_arrays.zone_ids[:, node].tolist()
    counts = residents[:, node].tolist()
    return ", ".join(f"NUMA {ids[z]} has {counted(count, one, many)}" for z, count in enumerate(counts) if count)
