"""What a pod that fits nowhere now can hope for.

1. Every node is thought empty, ready and not cordoned, and the pod is decided on once more.
2. Some node fits: the pod can wait for it.
3. Of no node that it may go to the NUMA nodes are known, or there is no node: it waits. What is not known may become
   known; only what contradicts is refused.
4. No node has a policy the pod can live with: nothing to wait for.
5. A node large enough as a whole could never align it: the scheduler would bind it there some day, and the kubelet
   refuse it again and again. Nothing to wait for, either.
6. No node is large enough, or the pod's own selectors let it onto none: it waits, as it would without us.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from webhook.admission.placement_text import excluded, on_numa_nodes, subject
from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision, Options, decide
from webhook.engine.emptied import emptied
from webhook.engine.koordinator import policy_fit
from webhook.engine.rare import with_rows
from webhook.engine.reason import Reason
from webhook.engine.request import named_resources
from webhook.engine.snapshot import Snapshot
from webhook.engine.view import View
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount

_PODS_OWN = frozenset({Reason.NODE_SELECTOR_MISMATCH, Reason.NODE_AFFINITY_MISMATCH, Reason.UNTOLERATED_TAINT})
_INCOMPATIBLE = frozenset({Reason.NO_TOPOLOGY, Reason.POLICY_MISMATCH})
_NOT_ALIGNED = frozenset(
    {
        Reason.NO_SINGLE_NUMA_NODE,
        Reason.NOT_ALIGNED,
        Reason.ALLOCATION_FAILS,
        Reason.TOO_MANY_NUMA_NODES,
        Reason.NUMA_NODE_EXCLUSIVE,
    }
)


class Prospect(Enum):
    """What can become of a pod that fits nowhere now; the value is the reason of a denial, for programs."""

    LATER = "NoRoomNow"
    UNKNOWN = "TopologyUnknown"
    NO_COMPATIBLE_NODE = "NoCompatibleNode"
    NEVER_ALIGNED = "NeverAligned"
    NO_NODE = "NoNode"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The prospect, and why, in words."""

    prospect: Prospect
    message: str
    when_empty: Decision
    """The decision on the emptied cluster."""
    hopeful: Bools
    """bool [node]: where the pod may go once it can: nodes that fit when empty, else those of a compatible policy."""


def look_ahead(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> Outlook:
    """The outlook of a pod that fits nowhere now."""
    empty = emptied(with_rows(snapshot, named_resources(pod)))
    decision = decide(View(empty), pod, intent, options)
    compatible = _compatible(empty, decision)
    reasons = decision.excluded.keys()
    if decision.fit_count:
        nodes = "1 node" if decision.fit_count == 1 else f"{decision.fit_count} nodes"
        message = f"{nodes} could take it once other pods leave"
        return Outlook(Prospect.LATER, message, decision, decision.fits)
    eligible = ~_any_of(decision, _PODS_OWN)
    if not empty.n or (Reason.NO_TOPOLOGY in reasons and not (eligible & empty.has_topology).any()):
        return Outlook(Prospect.UNKNOWN, _what_is_unknown(eligible), decision, eligible)
    if not compatible.any() or (reasons & _INCOMPATIBLE and reasons <= _INCOMPATIBLE | _PODS_OWN):
        message = _why_incompatible(empty, intent, eligible)
        return Outlook(Prospect.NO_COMPATIBLE_NODE, message, decision, compatible)
    if reasons & _NOT_ALIGNED:
        why = _too_large_for_one(empty, pod, intent, _any_of(decision, _NOT_ALIGNED))
        message = f"none could align it even if it were empty: {why or excluded(pod, decision.excluded)}"
        return Outlook(Prospect.NEVER_ALIGNED, message, decision, compatible)
    if reasons <= _PODS_OWN:
        message = "its own node selector, affinity and tolerations let it onto none"
    else:
        why = _too_large(empty, pod, eligible)
        message = f"none could take it even if it were empty: {why or excluded(pod, decision.excluded)}"
    return Outlook(Prospect.NO_NODE, message, decision, compatible)


def _compatible(snapshot: Snapshot, decision: Decision) -> Bools:
    """Where the node's NUMA policy goes with the pod's, bool [node]."""
    unfit = policy_fit(snapshot, decision.request)
    return np.ones(snapshot.n, dtype=np.bool_) if unfit is None else unfit == Reason.FITS


def _any_of(decision: Decision, reasons: frozenset[Reason]) -> Bools:
    """Where the reason is one of these, bool [node]."""
    where: Bools = np.isin(decision.reason, list(reasons))
    return where


def _what_is_unknown(eligible: Bools) -> str:
    """eligible: bool [node], where the pod may go by its own selectors."""
    if not eligible.size:
        return "the cluster has no nodes"
    count = np.count_nonzero(eligible)
    nodes = "the one node" if count == 1 else f"any of the {count} nodes"
    return f"no NUMA topology is known for {nodes} it may go to"


def _why_incompatible(snapshot: Snapshot, intent: NUMAIntent, eligible: Bools) -> str:
    """Which policies the nodes have. eligible: bool [node], where the pod may go by its own selectors."""
    known = eligible & snapshot.has_topology
    counts = np.bincount(snapshot.policy[known], minlength=len(NUMAPolicy)).tolist()
    policies = [f"{count} with {NUMAPolicy(policy).kubelet}" for policy, count in enumerate(counts) if count]
    unknown = int(np.count_nonzero(eligible & ~snapshot.has_topology))
    if unknown:
        policies.append(f"{unknown} without a known NUMA topology")
    return f"no node has a NUMA policy that goes with {subject(intent)}: there are {', '.join(policies)}"


def _too_large(empty: Snapshot, pod: Pod, eligible: Bools) -> str | None:
    """The resource that no node has enough of; None when it is not a matter of one resource."""
    nodes = np.flatnonzero(eligible)
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


def _too_large_for_one(empty: Snapshot, pod: Pod, intent: NUMAIntent, eligible: Bools) -> str | None:
    """The resource that no single NUMA node has enough of; None when it is not a matter of one resource and NUMA node.

    A resource that no NUMA node lists is not looked for in one.
    """
    nodes: npt.NDArray[np.intp] = np.flatnonzero(eligible)
    policies = {intent.policy} if intent.policy else set(empty.policy[nodes].tolist())
    if policies != {NUMAPolicy.SINGLE_NUMA_NODE}:
        return None
    for resource in on_numa_nodes(pod.requests):
        zones = empty.zone_allocatable[empty.resources.find(resource)][:, nodes]
        position, column = np.unravel_index(zones.argmax(), zones.shape)
        node, largest = int(nodes[column]), int(zones[position, column])
        # What must come from one NUMA node: the whole pod, or each container for itself.
        whole = empty.scope[node] == Scope.POD
        amount = pod.requests[resource] if whole else max(one.requests.get(resource, 0) for one in pod.containers)
        if amount > largest >= 0:
            asks, has = format_amount(resource, amount), format_amount(resource, largest)
            where = f"{empty.names[node]}, NUMA {empty.zone_ids[position, node]}"
            return f"it asks for {asks} {resource} in one NUMA node, the largest has {has} ({where})"
    return None
