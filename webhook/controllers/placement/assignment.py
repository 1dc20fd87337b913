"""A place for one pod: which node and NUMA nodes, or why there is none.

A pod whose node only the scheduler can choose is kept off the nodes that never can take it, and no more. The nodes that
fit now are preferred, not required: should the scheduler want none of them for it, it waits for others, where nothing
of ours can be added any more. What becomes of it where it goes, its NUMA nodes among that, is judged when it is bound.
The best node is reserved for it tentatively: for the moment that the scheduler takes as a rule, those that are placed
next do not count on the same. It may never come, so it keeps no other pod off a node otherwise.

A kubelet chooses NUMA nodes in the order in which pods reach it, and two that are placed on one node may be bound in
either order. So beside a pod that is placed and not bound yet only its equals are placed: among them the order makes no
difference. That lasts as long as the scheduler takes; if every node that fits has such a pod, this one is placed after
it was bound. One that is left to the scheduler does not wait for that: its order is not ours to keep.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from webhook.admission.patch import Operation
from webhook.admission.pod import placement_text
from webhook.admission.pod.affinity_patch import Constraint
from webhook.admission.pod.controller_patches import assignment_patch, ungate_patch
from webhook.admission.pod.node_names import NodeNames, keep_off_others
from webhook.admission.pod.not_aligned import NotAligned, not_aligned, not_aligned_on
from webhook.admission.pod.plan import NOT_ALIGNABLE
from webhook.admission.pod.reapply import kept_by_a_merge, terms_are_fixed
from webhook.admission.pod.schedulability import awaits_node, look_ahead
from webhook.cache.delegated_pods import delegation_text
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.decide import Decision, decide
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.hint import NUMAHint
from webhook.model.names import NUMA_SIGNATURE
from webhook.model.rules import Rules


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a pod is given."""

    hint: NUMAHint
    text: str
    """In one line."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What it takes from its owners, and those of its group."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of its group."""
    nodes: Constraint | None = None
    """The nodes among which the scheduler chooses; None: it is held to that of the hint."""
    hostname: str | None = None
    """The hostname label of the hint's node; None when missing or shared."""
    not_aligned: bool = False
    """Whether it asks for a policy, and its node's kubelet aligns nothing of it."""

    def signed(self, signature: str) -> "Assignment":
        """The same with what proves that its hint is ours; a pod that is left to the scheduler gets no hint."""
        if self.nodes is not None:
            return self
        return replace(self, annotations={**self.annotations, NUMA_SIGNATURE: signature})

    def patch(self, raw: Mapping[str, Any]) -> tuple[Operation, ...]:
        """What writes the place into the pod."""
        if self.nodes is not None:
            return ungate_patch(raw, self.nodes, self.text, self.annotations)
        return assignment_patch(raw, self.hint, self.text, self.annotations, self.labels, self.hostname)

    def assume(self, gated: GatedPod, expires: float) -> AssumedPod:
        """The same as a promise to this pod."""
        pod = gated.pod
        return AssumedPod(
            pod.key,
            pod.uid,
            self.hint.node,
            dict(self.hint.numa_nodes),
            pod.requests,
            gated.intent.policy,
            expires,
            tentative=self.nodes is not None,
        )


@dataclass(frozen=True, slots=True)
class NoAssignment:
    """Why a pod waits."""

    kind: frozenset[Hashable]
    """The kinds of reasons: as long as they stay the same, there is nothing new to tell."""
    text: str
    """In one line."""
    of_one: bool = False
    """Of a single pod: its own creation said the same."""
    awaits_node: bool = False
    """No node that is there could take the pod even if it were empty: it is left to the scheduler."""
    reserved_nodes: frozenset[str] = frozenset()
    """The nodes that are kept for its group meanwhile."""


# As a rule one of the first is free; to name all of 5,000 nodes that fit takes some milliseconds.
_LOOKED_AT: Final = 16

AssignedNode = Callable[[str], Iterable[Reservation]]
"""Node -> what is promised there to pods that are placed and not bound yet."""


def find_assignment(
    snapshot: Snapshot, gated: GatedPod, rules: Rules, assigned: AssignedNode
) -> Assignment | Decision | NoAssignment:
    """The best node for the pod now; the decision that there is none; or what else is to come first."""
    decision = decide(snapshot, gated.pod, gated.intent, rules.engine)
    if not decision.fit_count:
        if not awaits_node(decision):
            return decision
        return why_refused(snapshot, gated, rules) or replace(
            why_unassigned(decision, gated, rules, 0), awaits_node=True
        )
    best = decision.best(placement_text.BEST)
    why = gated.delegated_why
    node = _first_without_others(decision, gated, assigned)
    if node is None and why is None:
        return _others_first(best[0].node, assigned)
    node = node or best[0].node
    at = snapshot.node_arrays.index[node]
    hint = NUMAHint(node, decision.allocation(at))
    # Of a pod that the scheduler may put anywhere it is said of all nodes.
    unaligned = not_aligned_on(decision, at, gated.intent) if why is None else _not_aligned(snapshot, gated, rules)
    if unaligned and (refusal := why_refused(snapshot, gated, rules)):
        return refusal
    note = unaligned.clause if unaligned else ""
    text = placement_text.fitting(gated.pod, gated.intent, decision, best, note)
    warns = unaligned is not None and unaligned.warns
    if why is None:
        # A look at all nodes, for the few pods that need it.
        hostname = NodeNames(snapshot.node_arrays).named(node).hostname if terms_are_fixed(gated.raw) else None
        return Assignment(hint, f"{assigned_node(hint)}; {text}", hostname=hostname, not_aligned=warns)
    unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, rules.engine)
    preferred = decision.best(rules.preferred_nodes)
    nodes = keep_off_others(snapshot.node_arrays, unschedulable, rules.max_affinity_values, preferred)
    alone = "" if kept_by_a_merge(gated.raw, nodes) == nodes else " and by its own node affinity alone"
    return Assignment(hint, f"{delegation_text(why)}{alone}; {text}", nodes=nodes, not_aligned=warns)


def why_refused(snapshot: Snapshot, gated: GatedPod, rules: Rules) -> NoAssignment | None:
    """Why a pod that takes its policy from its owners waits: its creation, which could not know, would be denied."""
    if rules.not_alignable != "Deny" or not gated.takes_policy:
        return None
    unaligned = _not_aligned(snapshot, gated, rules)
    if unaligned is None or not unaligned.everywhere:
        return None
    return NoAssignment(frozenset({NOT_ALIGNABLE}), placement_text.waiting(unaligned.sentence()))


def _not_aligned(snapshot: Snapshot, gated: GatedPod, rules: Rules) -> NotAligned | None:
    return not_aligned(snapshot, gated.pod, gated.intent, rules.engine)


def _first_without_others(decision: Decision, gated: GatedPod, assigned: AssignedNode) -> str | None:
    """The best node on which none but equals of the pod wait to be bound."""
    equal = Reservation.of("", "", {}, gated.pod.requests).requests, gated.intent.policy
    for looked_at in (_LOOKED_AT, decision.fit_count):
        for candidate in decision.best(looked_at):
            if all((other.requests, other.policy) == equal for other in assigned(candidate.node)):
                return candidate.node
    return None


def _others_first(node: str, assigned: AssignedNode) -> NoAssignment:
    """As a rule this lasts too short a time to be reported."""
    count = len(tuple(assigned(node)))
    others = "another pod" if count == 1 else f"{count} other pods"
    text = f"it fits on {node}, but {others} must be bound there first: the kubelet admits pods in order of arrival"
    return NoAssignment(frozenset({"others first"}), placement_text.waiting(text))


def why_unassigned(decision: Decision, gated: GatedPod, rules: Rules, reserved_nodes: int) -> NoAssignment:
    """The decision in words; reserved_nodes: how many nodes are kept for others."""
    unschedulable = look_ahead(decision.snapshot.node_arrays, gated.pod, gated.intent, rules.engine)
    unaligned = _not_aligned(decision.snapshot, gated, rules)
    note = unaligned.clause if unaligned else ""
    text = placement_text.nowhere(gated.pod, gated.intent, decision, unschedulable.message, note)
    if reserved_nodes:
        text += f"; {reserved_nodes} nodes are kept for groups that have waited long"
    return NoAssignment(frozenset(decision.excluded), placement_text.waiting(text), of_one=True)


def without(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The view with no room on these nodes."""
    if not names:
        return snapshot
    node_arrays = snapshot.node_arrays
    closed = np.zeros(node_arrays.n, dtype=np.bool_)
    closed[[node_arrays.index[name] for name in names if name in node_arrays.index]] = True
    return snapshot.closed(closed)


def assigned_node(hint: NUMAHint) -> str:
    """`placed on n1, NUMA 0`."""
    return f"placed on {hint.node}{placement_text.where(numa_id for numa_id, _ in hint.numa_nodes)}"
