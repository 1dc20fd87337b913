"""What a pod that fits nowhere now can hope for: a place once other pods leave, or never one on the nodes there are.

1. Every node is thought empty, ready and not cordoned, and the pod is decided on once more.
2. Some node fits: the pod can wait for it.
3. No node has a policy the pod can live with (or none publishes its NUMA nodes): never.
4. Among the nodes that the pod's selectors and tolerations let it onto, none is large enough: never.
5. Its own selectors and tolerations let it onto no node at all: it waits for one, as it would without us.
"""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from webhook.admission.placement_text import excluded, on_numa_nodes, subject
from webhook.engine.decide import Decision, Options, decide
from webhook.engine.reason import Reason
from webhook.engine.snapshot import Snapshot
from webhook.engine.view import View
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount

_PODS_OWN = frozenset({Reason.NODE_SELECTOR_MISMATCH, Reason.NODE_AFFINITY_MISMATCH, Reason.UNTOLERATED_TAINT})
_INCOMPATIBLE = frozenset({Reason.NO_TOPOLOGY, Reason.POLICY_MISMATCH})


class Prospect(Enum):
    """What can become of a pod that fits nowhere now."""

    LATER = "Later"
    NO_COMPATIBLE_NODE = "NoCompatibleNode"
    TOO_LARGE = "TooLarge"
    NO_ELIGIBLE_NODE = "NoEligibleNode"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The prospect, the decision on the emptied cluster, and why, in one sentence."""

    prospect: Prospect
    when_empty: Decision
    message: str


def look_ahead(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> Outlook:
    """The outlook of a pod that fits nowhere now."""
    empty = _emptied(snapshot)
    decision = decide(View(empty), pod, intent, options)
    counts = excluded(pod, decision.excluded)
    reasons = decision.excluded.keys()
    if decision.fit_count:
        nodes = "1 node" if decision.fit_count == 1 else f"{decision.fit_count} nodes"
        return Outlook(Prospect.LATER, decision, f"{nodes} could take it once other pods leave")
    if not snapshot.n:
        return Outlook(Prospect.NO_COMPATIBLE_NODE, decision, "there is no node at all")
    if reasons <= _PODS_OWN:
        message = f"its own node selector, affinity and tolerations let it onto no node: {counts}"
        return Outlook(Prospect.NO_ELIGIBLE_NODE, decision, message)
    if reasons <= _PODS_OWN | _INCOMPATIBLE:
        message = f"no node has a NUMA policy that goes with {subject(intent)}: {counts}"
        return Outlook(Prospect.NO_COMPATIBLE_NODE, decision, message)
    return Outlook(Prospect.TOO_LARGE, decision, _why_too_large(empty, pod, intent, decision) or counts)


def _emptied(snapshot: Snapshot) -> Snapshot:
    """The snapshot as if no pod ran: all that is allocatable is free, every node is ready."""
    return replace(
        snapshot,
        available=snapshot.zone_allocatable,
        requested=np.zeros_like(snapshot.requested),
        node_free=np.maximum(snapshot.allocatable, 0),
        single_residents=np.zeros_like(snapshot.single_residents),
        multi_residents=np.zeros_like(snapshot.multi_residents),
        ready=np.ones_like(snapshot.ready),
        fresh=np.ones_like(snapshot.fresh),
        unschedulable=np.zeros_like(snapshot.unschedulable),
    )


def _why_too_large(empty: Snapshot, pod: Pod, intent: NUMAIntent, decision: Decision) -> str | None:
    """The resource that no node, or no NUMA node, has enough of; None when it is not a matter of one resource."""
    eligible = np.flatnonzero(~np.isin(decision.reason, [*_PODS_OWN, *_INCOMPATIBLE]))
    for resource, amount in pod.requests.items():
        row = empty.resources.find(resource)
        if row < 0:
            return f"no node has {resource}"
        largest = int(eligible[empty.node_free[row, eligible].argmax()])
        if amount > empty.node_free[row, largest]:
            asks, has = format_amount(resource, amount), format_amount(resource, int(empty.node_free[row, largest]))
            return f"it asks for {asks} {resource}, the largest node has {has} ({empty.names[largest]})"
    policies = {intent.policy} if intent.policy else set(empty.policy[eligible].tolist())
    return _too_large_for_one(empty, pod, eligible) if policies == {NUMAPolicy.SINGLE_NUMA_NODE} else None


def _too_large_for_one(empty: Snapshot, pod: Pod, eligible: npt.NDArray[np.intp]) -> str | None:
    """The resource that no single NUMA node has enough of. What no NUMA node lists is not looked for in one."""
    for resource in on_numa_nodes(pod.requests):
        zones = empty.zone_allocatable[empty.resources.find(resource)][:, eligible]
        position, column = np.unravel_index(zones.argmax(), zones.shape)
        node, largest = int(eligible[column]), int(zones[position, column])
        # What must come from one NUMA node: the whole pod, or each container for itself.
        whole = empty.scope[node] == Scope.POD
        amount = pod.requests[resource] if whole else max(one.requests.get(resource, 0) for one in pod.containers)
        if amount > largest >= 0:
            where = f"{empty.names[node]}, NUMA {empty.zone_ids[position, node]}"
            return (
                f"it asks for {format_amount(resource, amount)} {resource} in one NUMA node, "
                f"the largest has {format_amount(resource, largest)} ({where})"
            )
    return None
