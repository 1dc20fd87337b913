"""Whether a pod that fits nowhere now can fit later: it is denied only if it is proven that it cannot.

1. The pod is decided on again with every node empty, ready, not cordoned and not avoided.
2. If a node fits then, the pod can wait for it.
3. Otherwise, unless only a node that is added could help, the pod waits for a node that would fit without its taints:
   those come and go, as with pressure on a disk, or a cordon. It also waits for one that some other state of its pods
   could let admit it: an empty node is not always the best one (webhook.engine.kubelet.some_state). And for one whose
   devices are away: a device plugin that restarts takes them for some minutes (webhook.engine.snapshot.empty_cluster).
4. Otherwise, if a node with a compatible policy is large enough as a whole but could never align the pod, waiting is
   useless: the scheduler would bind the pod there one day, and the kubelet would reject it again and again.
5. Otherwise, if the NUMA nodes or the policy of an eligible node are unknown, the pod waits: they may become known. So
   they may for a node that Kubernetes itself has tainted for a while. A node with more NUMA nodes than its kubelet
   starts with counts as one of these.
6. Otherwise, if all remaining nodes have policies that are incompatible with the pod's, waiting is useless.
7. Otherwise no node has the labels and the size for the pod, or the cluster has no nodes. The pod waits for a node to
   be added, as it would without this service. Nodes that are not eligible say nothing about future ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from webhook.engine.arrays import Bools, Nodes
from webhook.engine.cpu_cores import core_reasons
from webhook.engine.decide import Decision, decide
from webhook.engine.filter.node_fit import Tolerations, node_fit
from webhook.engine.koordinator import policy_fit
from webhook.engine.kubelet.some_state import may_admit
from webhook.engine.reason import Reason
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster, with_devices_back
from webhook.engine.snapshot.extra_rows import with_rows
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.avoided_node import AvoidedNode, rejections_text
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount
from webhook.model.wording import counted
from webhook.placing.pod.placement_text import excluded, on_numa_nodes, subject, unknown_policy

# Where Kubernetes itself taints nodes: pressure, cordons, nodes that are not ready or not initialized.
_TRANSIENT = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_PODS_OWN = frozenset({Reason.NODE_SELECTOR_MISMATCH, Reason.NODE_AFFINITY_MISMATCH, Reason.UNTOLERATED_TAINT})
_AS_A_WHOLE = _PODS_OWN | {
    *(Reason.NOT_READY, Reason.UNSCHEDULABLE, Reason.TOO_MANY_PODS, Reason.INSUFFICIENT_RESOURCES)
}
# Of a node that is there, its kubelet must have started: what is known of its NUMA nodes or options is not right.
_UNKNOWN = frozenset({Reason.NO_TOPOLOGY, Reason.UNKNOWN_POLICY, Reason.TOO_MANY_NUMA_NODES})
_NOT_ALIGNED = frozenset(
    {
        Reason.NO_SINGLE_NUMA_NODE,
        Reason.NOT_ALIGNED,
        Reason.ALLOCATION_FAILS,
        Reason.TOO_FEW_CORES,
        Reason.NUMA_NODE_EXCLUSIVE,
    }
)
# Those of them that depend on where the pods of a node are.
_BY_STATE = frozenset({Reason.NO_SINGLE_NUMA_NODE, Reason.NOT_ALIGNED, Reason.ALLOCATION_FAILS})
_OTHER_POLICY = frozenset({Reason.POLICY_MISMATCH, Reason.NOT_ENFORCED})
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
    """bool [node]: nodes that the pod may get later; if there are none, those with a compatible policy."""


def look_ahead(node_arrays: NodeArrays, pod: Pod, intent: NUMAIntent, options: Options) -> Unschedulable:
    """The schedulability of a pod that fits nowhere now."""
    empty = empty_cluster(with_rows(node_arrays, named_resources(pod)))
    learned, pod = pod.learned, replace(pod, avoided=(), learned=())  # both end some day
    decision = decide(Snapshot(empty), pod, intent, options)
    reasons = decision.excluded.keys()
    if decision.fit_count:
        known = decision
        if learned:
            known = decide(Snapshot(empty), replace(pod, learned=learned), intent, options)
        message = _once(node_arrays, known) if known.fit_count else _but_for_cores(decision, learned)
        return Unschedulable(UnschedulableReason.LATER, message, decision, decision.fits)
    compatible, untainted = _compatible(empty, decision), decision
    if not reasons <= _AS_A_WHOLE:
        if Reason.UNTOLERATED_TAINT in reasons:
            untainted = decide(Snapshot(replace(empty, taint_set=np.zeros_like(empty.taint_set))), pod, intent, options)
        if (found := _some_day(decision, untainted, "without an")) is not None:
            return found
        arrays = with_devices_back(untainted.snapshot.node_arrays, named_resources(pod))
        if arrays is not None:
            back = decide(Snapshot(arrays), pod, intent, options)
            if (found := _some_day(untainted, back, "once its devices are back:")) is not None:
                return found
    if reasons & _NOT_ALIGNED:
        where = _any_of(decision, _NOT_ALIGNED)
        why = _too_large_for_one(empty, pod, intent, where) or _of_empty(decision, where)
        message = f"none could align it even if it were empty: {why}"
        return Unschedulable(UnschedulableReason.UNALIGNABLE, message, decision, compatible)
    may_go = ~_any_of(untainted, _PODS_OWN) & ~_tainted_for_good(decision)
    unknown = _any_of(untainted, _UNKNOWN) & may_go
    if unknown.any():
        message = _what_is_unknown(untainted, unknown, may_go)
        return Unschedulable(UnschedulableReason.UNKNOWN, message, untainted, unknown)
    if reasons & _OTHER_CORES:
        message = f"no node binds its CPUs so: {excluded(pod, decision)}"
        return Unschedulable(UnschedulableReason.NO_COMPATIBLE_NODE, message, decision, compatible)
    if reasons & _OTHER_POLICY:
        message = _why_incompatible(decision, intent)
        if Reason.NOT_ENFORCED in reasons:
            message += ", and nodes that do not enforce it are excluded (unenforced: Deny)"
        return Unschedulable(UnschedulableReason.NO_COMPATIBLE_NODE, message, decision, compatible)
    message = _why_no_node(decision, pod, ~_any_of(decision, _PODS_OWN))
    return Unschedulable(UnschedulableReason.NO_NODE, message, decision, compatible)


def _some_day(decision: Decision, better: Decision, when: str) -> Unschedulable | None:
    """Step 3; None if no node may fit.

    decision: on the empty cluster, where none fits; better: on one whose nodes have more to offer; when: they do.
    """
    if better.fit_count:
        message = f"{counted(better.fit_count, 'node')} could take it {when} {_of_empty(decision, better.fits)}"
        return Unschedulable(UnschedulableReason.LATER, message, better, better.fits)
    (nodes,) = _any_of(better, _BY_STATE).nonzero()
    possible = np.zeros_like(better.fits)
    if len(nodes):
        possible[nodes] = may_admit(better.snapshot, better.request, nodes)
    if possible.any():
        why = _of_empty(better, possible)
        message = f"it fits no empty node, but could once other pods hold the first NUMA nodes: {why}"
        return Unschedulable(UnschedulableReason.LATER, message, better, possible)
    return None


def _tainted_for_good(decision: Decision) -> Bools:
    """Nodes with an untolerated taint that Kubernetes does not remove by itself, such as a control plane's."""
    arrays, tolerations = decision.snapshot.node_arrays, Tolerations(decision.pod.tolerations)
    stays = [
        any(not taint.key.startswith(_TRANSIENT) and not tolerations.cover(taint) for taint in taints)
        for taints in arrays.taint_sets
    ]
    return np.array(stays, dtype=np.bool_).take(arrays.taint_set)


def _of_empty(decision: Decision, nodes: Bools) -> str:
    """Why the first of these nodes (bool [node], at least one) does not take the pod although it is empty."""
    node_arrays = decision.snapshot.node_arrays
    first = int(_by_name(node_arrays, nodes)[0])
    return f"{decision.explain(first)[1]} on {node_arrays.names[first]}"


def _once(node_arrays: NodeArrays, when_empty: Decision) -> str:
    """When the nodes that fit if they are empty could take the pod, by what keeps them from it now."""
    fits = when_empty.fits
    not_ready, cordoned = fits & ~node_arrays.ready, fits & node_arrays.ready & node_arrays.unschedulable
    clauses = (
        (fits & ~not_ready & ~cordoned, "could take it once other pods leave"),
        (cordoned, "could take it once uncordoned"),
        (not_ready, "could take it once ready"),
    )
    found = [(int(np.count_nonzero(where)), when) for where, when in clauses]
    return ", ".join(f"{counted(count, 'node')} {when}" for count, when in found if count)


def _but_for_cores(when_empty: Decision, learned: Sequence[AvoidedNode]) -> str:
    """What keeps the pod from nodes that fit if they are empty: their kubelets give whole cores only, as is learned."""
    index = when_empty.snapshot.node_arrays.index
    refusing = [one for one in learned if one.node in index and when_empty.fits[index[one.node]]]
    one, more = (
        f"{nodes} could take it if {kubelets} did not insist on whole cores"
        for nodes, kubelets in (("node", "its kubelet"), ("nodes", "their kubelets"))
    )
    return f"{counted(len(refusing), one, more)} ({rejections_text(refusing)})"


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


def _what_is_unknown(decision: Decision, unknown: Bools, eligible: Bools) -> str:
    """unknown: bool [node], what is waited for; eligible: bool [node], nodes that the pod may go to."""
    count = int(np.count_nonzero(eligible))
    clauses = []
    if nodes := _count_of(decision, Reason.NO_TOPOLOGY, unknown):
        if nodes < count:
            which = f"{nodes} of the {counted(count, 'node')}"
        else:
            which = "the one node" if count == 1 else f"any of the {counted(count, 'node')}"
        clauses.append(f"no NUMA topology is known for {which} it may go to")
    if nodes := _count_of(decision, Reason.UNKNOWN_POLICY, unknown):
        which = "the one node" if nodes == count == 1 else f"{nodes} of the {counted(count, 'node')}"
        example = unknown_policy(decision.snapshot.node_arrays, unknown & (decision.reason == Reason.UNKNOWN_POLICY))
        clauses.append(f"the NUMA policy of {which} it may go to is unknown ({example})")
    if (too_many := unknown & (decision.reason == Reason.TOO_MANY_NUMA_NODES)).any():
        clauses.append(_of_empty(decision, too_many))
    return ", and ".join(clauses)


def _count_of(decision: Decision, reason: Reason, among: Bools) -> int:
    return int(np.count_nonzero((decision.reason == reason) & among))


def _why_no_node(decision: Decision, pod: Pod, eligible: Bools) -> str:
    """Why no node could take the pod as a whole. eligible: bool [node], nodes that its own selectors allow."""
    if not eligible.size:
        return "the cluster has no nodes"
    if not eligible.any():
        text = "its own node selector, affinity and tolerations let it onto none"
        tainted = _any_of(decision, frozenset({Reason.UNTOLERATED_TAINT}))
        return f"{text}: {_of_empty(decision, tainted)}" if tainted.any() else text
    why = _too_large(decision.snapshot.node_arrays, pod, eligible)
    return f"none could take it even if it were empty: {why or excluded(pod, decision)}"


def _why_incompatible(decision: Decision, intent: NUMAIntent) -> str:
    """The policies of the nodes, and why a node with another policy is none for the pod."""
    node_arrays, nodes = decision.snapshot.node_arrays, _any_of(decision, _OTHER_POLICY)
    counts = np.bincount(node_arrays.policy[nodes], minlength=len(NUMAPolicy)).tolist()
    found = [(count, NUMAPolicy(policy).kubelet) for policy, count in enumerate(counts) if count]
    policies = ", ".join(f"{counted(count, 'node has', 'nodes have')} {policy}" for count, policy in found)
    others = _compatible(node_arrays, decision) & ~_any_of(decision, _PODS_OWN)
    if others.any():
        why = _of_empty(decision, others)
        return f"no other node has a NUMA policy that goes with {subject(intent)}: {policies}; {why}"
    return f"no node has a NUMA policy that goes with {subject(intent)}: {policies}"


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
