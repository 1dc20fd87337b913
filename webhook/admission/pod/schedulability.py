"""Whether a pod that fits nowhere now can fit later.

1. The pod is decided on again with every node empty, ready, not cordoned and not avoided.
2. If a node fits then, the pod can wait for it.
3. Otherwise, if a node with a compatible policy is large enough as a whole but could never align the pod, waiting is
   useless: the scheduler would bind the pod there one day, and the kubelet would reject it again and again.
4. Otherwise, if the NUMA nodes or the policy of an eligible node are unknown, the pod waits: they may become known.
5. Otherwise, if all remaining nodes have policies that are incompatible with the pod's, waiting is useless.
6. Otherwise no node has the labels and the size for the pod, or the cluster has no nodes. The pod waits for a node to
   be added, as it would without this service. Nodes that are not eligible say nothing about future ones.
"""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from webhook.admission.pod.placement_text import excluded, on_numa_nodes, subject, unknown_policy
from webhook.engine.arrays import Bools, Nodes
from webhook.engine.cpu_cores import core_reasons
from webhook.engine.decide import Decision, decide
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.koordinator import policy_fit
from webhook.engine.reason import Reason
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.extra_rows import with_rows
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import NUMAIntent
from webhook.model.options import Options
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount

_PODS_OWN = frozenset({Reason.NODE_SELECTOR_MISMATCH, Reason.NODE_AFFINITY_MISMATCH, Reason.UNTOLERATED_TAINT})
_AS_A_WHOLE = _PODS_OWN | {
    *(Reason.NOT_READY, Reason.UNSCHEDULABLE, Reason.TOO_MANY_PODS, Reason.INSUFFICIENT_RESOURCES)
}
_UNKNOWN = frozenset({Reason.NO_TOPOLOGY, Reason.UNKNOWN_POLICY})
_NOT_ALIGNED = frozenset(
    {
        Reason.NO_SINGLE_NUMA_NODE,
        Reason.NOT_ALIGNED,
        Reason.ALLOCATION_FAILS,
        Reason.TOO_MANY_NUMA_NODES,
        Reason.TOO_FEW_CORES,
        Reason.NUMA_NODE_EXCLUSIVE,
    }
)
_OTHER_CORES = frozenset({Reason.AMPLIFIED_CPUS, Reason.CPU_BIND_POLICY_MISMATCH, Reason.NOT_WHOLE_CORES})


class UnschedulableReason(Enum):
    """Whether a pod that fits nowhere now can fit later. The value is the reason of a denial, for programs."""

    LATER = "InsufficientCapacity"
    UNKNOWN = "TopologyUnknown"
    NO_COMPATIBLE_NODE = "NoCompatibleNode"
    UNALIGNABLE = "Unalignable"
    NO_NODE = "NoNode"


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Whether the pod can fit later, and why."""

    reason_code: UnschedulableReason
    message: str
    when_empty: Decision
    """The decision on the empty cluster."""
    hopeful: Bools
    """bool [node]: nodes that the pod may get later: those that fit when empty, else those with a compatible policy."""


def look_ahead(node_arrays: NodeArrays, pod: Pod, intent: NUMAIntent, options: Options) -> Unschedulable:
    """The schedulability of a pod that fits nowhere now."""
    empty = empty_cluster(with_rows(node_arrays, named_resources(pod)))
    pod = replace(pod, avoided=())  # nodes are avoided for minutes only
    decision = decide(Snapshot(empty), pod, intent, options)
    reasons = decision.excluded.keys()
    if decision.fit_count:
        nodes = "1 node" if decision.fit_count == 1 else f"{decision.fit_count} nodes"
        message = f"{nodes} could take it once other pods leave"
        return Unschedulable(UnschedulableReason.LATER, message, decision, decision.fits)
    eligible = ~_any_of(decision, _PODS_OWN)
    compatible = _compatible(empty, decision)
    if reasons & _NOT_ALIGNED:
        why = _too_large_for_one(empty, pod, intent, _any_of(decision, _NOT_ALIGNED))
        message = f"none could align it even if it were empty: {why or excluded(pod, decision)}"
        return Unschedulable(UnschedulableReason.UNALIGNABLE, message, decision, compatible)
    if reasons & _UNKNOWN:
        return Unschedulable(
            UnschedulableReason.UNKNOWN, _what_is_unknown(decision, eligible), decision, _any_of(decision, _UNKNOWN)
        )
    if reasons & _OTHER_CORES:
        message = f"no node binds its CPUs so: {excluded(pod, decision)}"
        return Unschedulable(UnschedulableReason.NO_COMPATIBLE_NODE, message, decision, compatible)
    if Reason.POLICY_MISMATCH in reasons:
        message = _why_incompatible(empty, intent, _any_of(decision, frozenset({Reason.POLICY_MISMATCH})))
        return Unschedulable(UnschedulableReason.NO_COMPATIBLE_NODE, message, decision, compatible)
    return Unschedulable(UnschedulableReason.NO_NODE, _why_no_node(decision, pod, eligible), decision, compatible)


def awaits_node(decision: Decision) -> bool:
    """Whether the reason is NO_NODE, without the other steps: no node is large enough as a whole, even if empty."""
    if not decision.excluded.keys() <= _AS_A_WHOLE:
        return False
    empty = Snapshot(empty_cluster(decision.snapshot.node_arrays))
    return not (node_fit(empty, decision.pod, decision.request) == Reason.FITS).any()


def _compatible(node_arrays: NodeArrays, decision: Decision) -> Bools:
    """Whether the node's NUMA policy and CPU bind policy are compatible with the pod's, bool [node]."""
    found = np.ones(node_arrays.n, dtype=np.bool_)
    for unfit in (policy_fit(node_arrays, decision.request), core_reasons(node_arrays, decision.request)):
        if unfit is not None:
            found &= unfit == Reason.FITS
    return found


def _any_of(decision: Decision, reasons: frozenset[Reason]) -> Bools:
    """Whether the reason is one of these, bool [node]."""
    where: Bools = np.isin(decision.reason, list(reasons))
    return where


def _what_is_unknown(decision: Decision, eligible: Bools) -> str:
    """eligible: bool [node], nodes that the pod's own selectors allow."""
    count = int(np.count_nonzero(eligible))
    clauses = []
    if nodes := decision.excluded.get(Reason.NO_TOPOLOGY):
        if nodes < count:
            which = f"{nodes} of the {count} nodes"
        else:
            which = "the one node" if count == 1 else f"any of the {count} nodes"
        clauses.append(f"no NUMA topology is known for {which} it may go to")
    if nodes := decision.excluded.get(Reason.UNKNOWN_POLICY):
        which = "the one node" if nodes == count == 1 else f"{nodes} of the {count} nodes"
        example = unknown_policy(decision.snapshot.node_arrays, decision.reason == Reason.UNKNOWN_POLICY)
        clauses.append(f"the NUMA policy of {which} it may go to is unknown ({example})")
    return ", and ".join(clauses)


def _why_no_node(decision: Decision, pod: Pod, eligible: Bools) -> str:
    """Why no node could take the pod as a whole. eligible: bool [node], nodes that its own selectors allow."""
    if not eligible.size:
        return "the cluster has no nodes"
    if not eligible.any():
        return "its own node selector, affinity and tolerations let it onto none"
    why = _too_large(decision.snapshot.node_arrays, pod, eligible)
    return f"none could take it even if it were empty: {why or excluded(pod, decision)}"


def _why_incompatible(node_arrays: NodeArrays, intent: NUMAIntent, nodes: Bools) -> str:
    """The policies of the nodes. nodes: bool [node], those with an incompatible policy."""
    counts = np.bincount(node_arrays.policy[nodes], minlength=len(NUMAPolicy)).tolist()
    policies = [f"{count} with {NUMAPolicy(policy).kubelet}" for policy, count in enumerate(counts) if count]
    return f"no node has a NUMA policy that goes with {subject(intent)}: there are {', '.join(policies)}"


def _too_large(empty: NodeArrays, pod: Pod, eligible: Bools) -> str | None:
    """The resource that no node has enough of; None if only the combination is missing."""
    nodes = _by_name(empty, eligible)
    for resource, amount in pod.requests.items():
        row = empty.resources.find(resource)
        if row < 0:
            return f"no node has {resource}"
        largest = int(nodes[empty.node_free[row, nodes].argmax()])
        free = int(empty.node_free[row, largest])
        if amount > free:
            asks, has = format_amount(resource, amount), format_amount(resource, free)
            return f"it asks for {asks} {resource}, the largest node has {has} ({empty.names[largest]})"
    return None


def _too_large_for_one(empty: NodeArrays, pod: Pod, intent: NUMAIntent, eligible: Bools) -> str | None:
    """The resource that no single NUMA node has enough of; None if there is no such resource.

    A resource that no NUMA node lists is not checked.
    """
    nodes = _by_name(empty, eligible)
    policies = {intent.policy} if intent.policy else set(empty.policy[nodes].tolist())
    if policies != {NUMAPolicy.SINGLE_NUMA_NODE}:
        return None
    for resource in on_numa_nodes(pod.requests):
        zones = empty.zone_allocatable[empty.resources.find(resource)][:, nodes]
        position, column = np.unravel_index(zones.argmax(), zones.shape)
        node, largest = int(nodes[column]), int(zones[position, column])
        # What must fit in one NUMA node: the whole pod, or each container.
        whole = empty.scope[node] == Scope.POD
        amount = pod.requests[resource] if whole else max(one.requests.get(resource, 0) for one in pod.containers)
        if amount > largest >= 0:
            asks, has = format_amount(resource, amount), format_amount(resource, largest)
            where = f"{empty.names[node]}, NUMA {empty.zone_ids[position, node]}"
            return f"it asks for {asks} {resource} in one NUMA node, the largest has {has} ({where})"
    return None


def _by_name(node_arrays: NodeArrays, where: Bools) -> Nodes:
    """These nodes (bool [node]) by name: a text names the first of equal ones, whatever the order of arrival."""
    return node_arrays.order[where[node_arrays.order]]
