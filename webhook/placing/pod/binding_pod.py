"""The pod of a Binding, as decisions on it read it: once per version of the pod.

In a burst a review is checked each time an earlier binding to its node becomes visible, and to parse the pod costs as
much as the decision.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from webhook.engine.snapshot.single_node import as_chosen
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent, parse_numa_intent
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.avoided_node import Avoided, learned_in
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.model.errors import UserError
from webhook.model.names import NUMA_ALLOCATION, PLACEMENT
from webhook.placing.pod.placement_text import FOR_A_NODE, affinity_added
from webhook.state.delegated_pods import delegation_text, why_delegated
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged

# Controllers that replace a failed pod and count no failures.
_REPLACE: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class BindingPod:
    """One version of an unbound pod."""

    raw: Mapping[str, Any]
    unmanaged: str | None
    """Why its binding is allowed as it is; None if it is managed and readable."""
    pod: Pod | None
    """Without the fields that the scheduler has already checked; None if it is unmanaged."""
    intent: NUMAIntent
    signature: Hashable
    """Equal for pods that a kubelet treats alike."""
    allocation: NUMAAllocation | None
    """Its assignment; None if it has none."""
    how_chosen: str | None
    """How its node was chosen, if its placement text says what it waits for; else None."""
    affinity: str
    """What was added to its node affinity, if `how_chosen` is told beside it."""
    placement: str
    """Its placement text."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any], rules: Rules) -> Self:
        """Read the pod. Invalid annotations request nothing: the pod was admitted with them."""
        allocation = assigned_node(raw)
        placement = _placement(raw)
        unmanaged, pod = why_unmanaged(raw, rules), None
        if unmanaged is None:
            try:
                pod = as_chosen(Pod.from_object(raw))
            except UserError as error:
                unmanaged = f"unreadable: {error}"
        if pod is None:
            return cls(raw, unmanaged, None, NO_INTENT, None, allocation, None, "", placement)
        intent = _intent(pod)
        how_chosen = _how_chosen(raw, allocation)
        affinity = "" if how_chosen is None else affinity_added(raw)
        return cls(raw, None, pod, intent, pod_signature(pod, intent), allocation, how_chosen, affinity, placement)

    def learning(self, node: str, avoided: Avoided) -> Self:
        """The same with what its namespace has learned of a node, unless it is pinned there and would be replaced.

        Such a pod was placed before that was learned, and would be refused until it is forgotten. So its kubelet
        rejects it once, and its controller's next pod goes elsewhere. A Job would count that as a failure.
        """
        if self.pod is None:
            return self
        controller = self.pod.controller
        if self.allocation is not None and self.allocation.node == node and controller and controller.kind in _REPLACE:
            return self
        learned = tuple(one for one in learned_in(avoided, self.pod.namespace) if one.node == node)
        return replace(self, pod=replace(self.pod, learned=learned)) if learned else self


# A few kilobytes each. More reviews than an API server sends at a time.
_MOST: Final = 1024


class BindingPods:
    """The pods of recent reviews, for one set of rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._read: dict[str, BindingPod] = {}

    def of(self, key: str, raw: Mapping[str, Any]) -> BindingPod:
        """The pod namespace/name; raw: its current version."""
        known = self._read.get(key)
        if known is not None and known.raw is raw:
            return known
        self._read.pop(key, None)
        if len(self._read) >= _MOST:
            del self._read[next(iter(self._read))]
        read = self._read[key] = BindingPod.from_object(raw, self._rules)
        return read

    def bound_or_gone(self, key: str, uid: str) -> None:
        """Drop a pod that is bound or gone, if it is this incarnation of it."""
        known = self._read.get(key)
        if known is not None and known.raw["metadata"].get("uid", "") == uid:
            del self._read[key]


def assigned_node(raw: Mapping[str, Any]) -> NUMAAllocation | None:
    """The assignment of an unbound pod; None if it has none."""
    text = ((raw.get("metadata") or {}).get("annotations") or {}).get(NUMA_ALLOCATION)
    try:
        return None if text is None else NUMAAllocation.parse(text)
    except UserError:
        return None


def _how_chosen(raw: Mapping[str, Any], allocation: NUMAAllocation | None) -> str | None:
    if allocation is not None and not allocation.reserved:
        return "placed there before"
    says = _placement(raw)
    if says.startswith(FOR_A_NODE):
        return "it was left to the scheduler until a node was added"
    why = why_delegated(raw)
    begins = None if why is None else delegation_text(why)
    return begins if begins and says.startswith(begins) else None


def _placement(raw: Mapping[str, Any]) -> str:
    text: str = ((raw.get("metadata") or {}).get("annotations") or {}).get(PLACEMENT, "")
    return text


def _intent(pod: Pod) -> NUMAIntent:
    """The node's own policy still applies to a pod with invalid annotations."""
    try:
        return parse_numa_intent(pod.annotations)[0]
    except UserError:
        return NO_INTENT
