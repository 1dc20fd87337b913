"""What becomes of a pod by what it asks for, whoever it is: its verdict, in words, and where it may run.

1. The engine decides on every node.
2. Some nodes fit: the pod is held to them. None fits now: it is kept off those that never can, or denied, as the rules
   say. There is nothing to wait for: denied, or let in with a warning.
3. A pod that is to be placed by the controller gets the gate instead: behind it affinity can only be added to.
4. One for which no node is there, and that is in no group, is left to the scheduler: a cluster autoscaler adds nodes
   for pods that the scheduler cannot place, and never sees one with a gate. Where it goes is judged when it is bound.

A controller makes its pods alike and many at a time: for as long as the cluster stays as it is, what was planned for
one holds for all that ask for the same.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from webhook.admission.pod import placement_text
from webhook.admission.pod.affinity_patch import Constraint, within_bounds
from webhook.admission.pod.gate import needs_gate
from webhook.admission.pod.managed_fields import ManagedFields
from webhook.admission.pod.node_names import hold_to_fitting, keep_off_others
from webhook.admission.pod.not_aligned import NotAligned, not_aligned
from webhook.admission.pod.schedulability import UnschedulableReason, look_ahead
from webhook.engine.decide import Decision, decide
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import NUMAIntent
from webhook.model.membership import may_be_in_group
from webhook.model.pod import Pod
from webhook.model.rules import Rules

# Distinct pods that are created between two changes of the cluster; a plan takes up to 20 KiB (74 node names).
_MOST_PLANS: Final = 128

NOT_ALIGNABLE: Final = "NotAlignable"
"""The reason of a denial by `--not-alignable=Deny`, for programs."""


class Verdict(StrEnum):
    """What becomes of a pod."""

    ALLOW = "allow"
    DENY = "deny"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a pod."""

    verdict: Verdict
    text: str
    fit_count: int
    """Nodes that fit now."""
    excluded: Mapping[Reason, int]
    """The others by reason."""
    constraint: Constraint = field(default_factory=Constraint)
    managed_fields: ManagedFields = field(default_factory=ManagedFields)
    """Of the constraint."""
    gated: bool = False
    """Whether it waits behind the gate; the constraint is then empty."""
    awaits_node: bool = False
    """Whether it waits, without the gate, for a node to be added."""
    warn: bool = False
    reason: str = ""
    """Of a denial, for programs."""
    not_aligned: NotAligned | None = None
    """What of it kubelets do not align; None: nothing."""


class Plans:
    """The plans made since the cluster last changed, by what was asked; of one cluster and by one set of rules.

    They hold no arrays: a snapshot that is held has to be copied at the next change.
    """

    def __init__(self) -> None:
        self._version: Hashable = None
        self._plans: dict[Hashable, Plan] = {}

    def get(self, snapshot: Snapshot, request_signature: Hashable) -> Plan | None:
        """The plan for a pod that asks this, if one was made in view of the same cluster."""
        return self._plans.get(request_signature) if self._version == snapshot.version else None

    def put(self, snapshot: Snapshot, request_signature: Hashable, plan: Plan) -> None:
        """Keep a plan."""
        if self._version != snapshot.version or len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
            self._version = snapshot.version
        self._plans[request_signature] = plan


def signature_of(pod: Pod, intent: NUMAIntent) -> Hashable:
    """Everything of a pod that its plan depends on."""
    return (
        intent,
        may_be_in_group(pod.annotations),
        pod.has_own_affinity,
        tuple(
            (container.name, container.kind, *_items(container.requests), None, *_items(container.limits))
            for container in pod.containers
        ),
        _items(pod.overhead),
        pod.pod_level and (_items(pod.pod_level.requests), _items(pod.pod_level.limits)),
        pod.qos,
        _items(pod.requests),
        _items(pod.node_selector),
        # Nested as the user wrote them; as text they can be compared.
        repr(pod.required_terms),
        repr(pod.preferred_terms),
        repr(pod.tolerations),
    )


def _items(amounts: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(amounts.items())


def plan(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, rules: Rules) -> tuple[Plan, Decision]:
    """Decide on a pod as its user wrote it."""
    decision = decide(snapshot, pod, intent, rules.engine)
    unaligned = not_aligned(snapshot, pod, intent, rules.engine)
    if unaligned and unaligned.everywhere and rules.not_alignable == "Deny":
        denied = Plan(Verdict.DENY, unaligned.sentence(), decision.fit_count, decision.excluded, reason=NOT_ALIGNABLE)
        return replace(denied, not_aligned=unaligned), decision
    planned = _held_to_fitting if decision.fit_count else _fits_nowhere
    return replace(planned(decision, pod, intent, rules, unaligned), not_aligned=unaligned), decision


def _held_to_fitting(
    decision: Decision, pod: Pod, intent: NUMAIntent, rules: Rules, unaligned: NotAligned | None
) -> Plan:
    best = decision.best(max(rules.preferred_nodes, placement_text.BEST))
    note = unaligned.clause if unaligned else ""
    text = placement_text.fitting(pod, intent, decision, best[: placement_text.BEST], note)
    if needs_gate(pod.annotations, rules, fits=True, own_affinity=pod.has_own_affinity):
        return Plan(Verdict.ALLOW, text, decision.fit_count, decision.excluded, gated=True)
    preferred = best[: rules.preferred_nodes]
    constraint = hold_to_fitting(decision.snapshot.node_arrays, decision, preferred, rules.max_affinity_values)
    constraint = within_bounds(constraint, pod.required_terms)
    return Plan(
        Verdict.ALLOW,
        text,
        decision.fit_count,
        decision.excluded,
        constraint,
        ManagedFields.of(constraint, _terms(pod)),
    )


def _fits_nowhere(decision: Decision, pod: Pod, intent: NUMAIntent, rules: Rules, unaligned: NotAligned | None) -> Plan:
    node_arrays = decision.snapshot.node_arrays
    unschedulable = look_ahead(node_arrays, pod, intent, rules.engine)
    text = placement_text.nowhere(pod, intent, decision, unschedulable.message, unaligned.clause if unaligned else "")
    excluded = decision.excluded
    may_fit_later = unschedulable.reason_code in {
        UnschedulableReason.LATER,
        UnschedulableReason.UNKNOWN,
        UnschedulableReason.NO_NODE,
    }
    if may_fit_later and (rules.no_capacity != "Deny" or may_be_in_group(pod.annotations)):
        awaits_node = unschedulable.reason_code is UnschedulableReason.NO_NODE and not may_be_in_group(pod.annotations)
        if not awaits_node and needs_gate(pod.annotations, rules, fits=False):
            return Plan(Verdict.WAIT, text, 0, excluded, gated=True, warn=True)
        constraint = Constraint()
        # The nodes that are there do not take it anyway: that is no reason to change what its user wrote.
        if not (awaits_node and pod.has_own_affinity):
            constraint = keep_off_others(node_arrays, unschedulable, rules.max_affinity_values)
            constraint = within_bounds(constraint, pod.required_terms)
        managed_fields = ManagedFields.of(constraint, _terms(pod))
        return Plan(Verdict.WAIT, text, 0, excluded, constraint, managed_fields, awaits_node=awaits_node, warn=True)
    if not may_fit_later and rules.no_compatible_node == "Warn":
        return Plan(Verdict.ALLOW, text, 0, excluded, warn=True)
    return Plan(Verdict.DENY, text, 0, excluded, reason=unschedulable.reason_code.value)


def _terms(pod: Pod) -> int:
    return len(pod.required_terms or ())
