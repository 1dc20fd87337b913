"""The decision on a pod at its creation: its verdict, the text that explains it, and the nodes it may run on.

1. The engine decides on every node.
2. If nodes fit, the pod is limited to them. If none fits now, the pod is kept off nodes that can never take it, or
   denied, depending on the settings. If none can ever fit, the pod is denied, or admitted with a warning.
3. A pod that the placement controller assigns gets the gate instead of affinity, because affinity of a gated pod can
   only be extended.
4. A pod that no existing node can take, even if empty, and that is in no gang, gets no gate: a cluster autoscaler adds
   nodes only for pods that the scheduler cannot place, and ignores gated pods. Its node is checked at the binding.

A workload's controller creates many equal pods at a time. While the cluster does not change, the decision on one pod
applies to all pods with the same signature.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from webhook.engine.decide import Decision, decide
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.formats.patches.affinity_patch import Constraint, within_bounds
from webhook.formats.patches.json_patch import Operation
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.placing.pod import placement_text
from webhook.placing.pod.gate import needs_gate
from webhook.placing.pod.node_names import PREFERRED_NODES, hold_to_fitting, keep_off_others
from webhook.placing.pod.not_aligned import NotAligned, not_aligned
from webhook.placing.pod.schedulability import UnschedulableReason, look_ahead
from webhook.state.rules import Rules

# Different pods that are created between two changes of the cluster. A decision takes up to 20 KiB (74 node names).
_MOST_DECISIONS: Final = 128

NOT_ALIGNABLE: Final = "NotAlignable"
"""The reason of a denial by `--not-alignable=Deny`, for programs."""


class Verdict(StrEnum):
    """What happens to the pod."""

    ALLOW = "allow"
    DENY = "deny"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class PodDecision:
    """The verdict on a pod, and the changes to it."""

    verdict: Verdict
    message: str
    """The decision in one line, or why there was none."""
    mutated: Mapping[str, Any] = field(default_factory=dict)
    """The pod as it is admitted; the original if nothing is changed."""
    operations: tuple[Operation, ...] = ()
    """The JSON patch from the pod to `mutated`."""
    warnings: tuple[str, ...] = ()
    reason: str = ""
    """The reason of a denial, for programs."""
    fit_count: int | None = None
    """Number of nodes that fit now; None if no node was checked: the pod is unmanaged or invalid."""
    excluded: Mapping[Reason, int] = field(default_factory=dict)
    """The others by reason."""
    constraint: Constraint = field(default_factory=Constraint)
    managed_fields: ManagedFields = field(default_factory=ManagedFields)
    """Of the constraint."""
    gated: bool = False
    """Whether it waits behind the gate; the constraint is then empty."""
    awaits_node: bool = False
    """Whether it waits, without the gate, for a node to be added."""
    not_aligned: NotAligned | None = None
    """What kubelets do not align of the pod; None: nothing."""
    nodes: Decision | None = None
    """The engine's result for each node; None if the decision on an equal pod was reused."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """The annotations that record what applies to the pod: see `webhook.state.management` and `kueue_requests`."""


class RecentDecisions:
    """The decisions since the last change of the cluster, by signature, for one set of rules.

    Pods that differ in their environment have no answer in common (`RecentAnswers`), but a decision. At 5,000 nodes it
    saves 72 % of the CPU time of their reviews, and 27 % if every second one comes with a change of the cluster.

    They reference no arrays, because a referenced snapshot must be copied at the next change, and no pod objects.
    """

    def __init__(self) -> None:
        self._version: Hashable = None
        self._decisions: dict[Hashable, PodDecision] = {}

    def get(self, snapshot: Snapshot, signature: Hashable) -> PodDecision | None:
        """The decision on a pod with this signature if the cluster has not changed since; else None."""
        return self._decisions.get(signature) if self._version == snapshot.version else None

    def put(self, snapshot: Snapshot, signature: Hashable, decision: PodDecision) -> None:
        """Store a decision for pods with this signature."""
        if self._version != snapshot.version or len(self._decisions) >= _MOST_DECISIONS:
            self._decisions.clear()
            self._version = snapshot.version
        self._decisions[signature] = replace(decision, nodes=None)


def creation_signature(pod: Pod, intent: NUMAIntent) -> Hashable:
    """Equal for pods with the same decision, including gate, text and preferred nodes."""
    return (
        pod_signature(pod, intent),
        may_be_in_group(pod.annotations),
        pod.has_own_affinity,
        pod.gets_devices,
        tuple(container.name for container in pod.containers),
        repr(pod.preferred_terms),
    )


def decide_pod(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, rules: Rules) -> PodDecision:
    """Decide on a pod as its user wrote it. The result applies to all equal pods, and has no operations yet."""
    decision = decide(snapshot, pod, intent, rules.engine)
    unaligned = not_aligned(snapshot, pod, intent, rules.engine)
    if unaligned and unaligned.everywhere and rules.not_alignable == "Deny":
        decided = PodDecision(Verdict.DENY, unaligned.sentence(), reason=NOT_ALIGNABLE)
    elif decision.fit_count:
        decided = _held_to_fitting(decision, pod, intent, rules, unaligned)
    else:
        decided = _fits_nowhere(decision, pod, intent, rules, unaligned)
    return replace(
        decided, fit_count=decision.fit_count, excluded=decision.excluded, not_aligned=unaligned, nodes=decision
    )


def _held_to_fitting(
    decision: Decision, pod: Pod, intent: NUMAIntent, rules: Rules, unaligned: NotAligned | None
) -> PodDecision:
    best = decision.best(max(PREFERRED_NODES, placement_text.BEST))
    note = unaligned.clause if unaligned else ""
    if rules.gate == "Never" and pod.gets_devices:
        note = "; ".join(filter(None, ("not aligned with its devices: the setting gate is Never", note)))
    extended = placement_text.served_by_slices(pod, best[0].node, decision.snapshot.node_arrays)
    note = "; ".join(filter(None, (extended, note)))
    text = placement_text.fitting(pod, intent, decision, best[: placement_text.BEST], note)
    warnings = () if best[0].enforces else (_unenforced(decision, intent, best[0].node),)
    own_affinity, gets_devices = pod.has_own_affinity, pod.gets_devices
    if needs_gate(pod.annotations, rules, fits=True, own_affinity=own_affinity, gets_devices=gets_devices):
        return PodDecision(Verdict.ALLOW, text, gated=True, warnings=warnings)
    preferred = best[:PREFERRED_NODES]
    constraint = hold_to_fitting(decision.snapshot.node_arrays, decision, preferred, rules.max_affinity_values)
    return replace(_constrained(Verdict.ALLOW, text, constraint, pod), warnings=warnings)


def _unenforced(decision: Decision, intent: NUMAIntent, node: str) -> str:
    """The warning if the best node, and so every one where such nodes come last, does not enforce the policy."""
    clause = placement_text.enforcement(decision, node)
    return f"{placement_text.subject(intent)} is asked for, and the best node that fits now is {node}; {clause}"


def _fits_nowhere(
    decision: Decision, pod: Pod, intent: NUMAIntent, rules: Rules, unaligned: NotAligned | None
) -> PodDecision:
    node_arrays = decision.snapshot.node_arrays
    unschedulable = look_ahead(node_arrays, pod, intent, rules.engine)
    text = placement_text.nowhere(pod, intent, decision, unschedulable.message, unaligned.clause if unaligned else "")
    may_fit_later = unschedulable.reason_code in {
        UnschedulableReason.LATER,
        UnschedulableReason.UNKNOWN,
        UnschedulableReason.NO_NODE,
    }
    if may_fit_later and (rules.no_capacity != "Deny" or may_be_in_group(pod.annotations)):
        awaits_node = unschedulable.reason_code is UnschedulableReason.NO_NODE and not may_be_in_group(pod.annotations)
        if not awaits_node and needs_gate(pod.annotations, rules, fits=False):
            return PodDecision(Verdict.WAIT, text, warnings=(text,), gated=True)
        constraint = Constraint()
        # No existing node can take it, so there is no reason to change what its user wrote.
        if not (awaits_node and pod.has_own_affinity):
            constraint = keep_off_others(node_arrays, unschedulable, rules.max_affinity_values)
        return replace(_constrained(Verdict.WAIT, text, constraint, pod), awaits_node=awaits_node, warnings=(text,))
    if not may_fit_later and rules.no_compatible_node == "Warn":
        return PodDecision(Verdict.ALLOW, text, warnings=(text,))
    return PodDecision(Verdict.DENY, text, reason=unschedulable.reason_code.value)


def _constrained(verdict: Verdict, text: str, constraint: Constraint, pod: Pod) -> PodDecision:
    bounded = within_bounds(constraint, pod.required_terms)
    managed_fields = ManagedFields.of(bounded, len(pod.required_terms or ()))
    return PodDecision(verdict, text, constraint=bounded, managed_fields=managed_fields)
