"""The service's treatment of one pod: the answer to its creation, and its assignment afterwards.

1. The mutating webhook's rules judge the creation: denied, unmanaged, or admitted, usually with our gate.
2. If it is gated, the leader reads the owners and places the pod by its complete request. It places members of a gang
   together: see `bare_pods` and `workload`.
3. Without a gate the pod is pinned to the nodes that fitted at its creation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.admission.pod.mutate import decide_creation
from webhook.admission.pod.mutation import mutate_pod, written
from webhook.admission.reserved_fields import forgery
from webhook.engine.decide import Decision, decide
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation, User
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.patches.affinity_patch import Constraint, required_terms, within_bounds
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.model.errors import UserError
from webhook.model.names import MANAGED_FIELDS
from webhook.model.raw import Raw
from webhook.placing.planner import Planner
from webhook.placing.pod import placement_text
from webhook.placing.pod.assignment import Assignment, assigned_node
from webhook.placing.pod.decision import PodDecision, Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.node_names import PREFERRED_NODES, hold_to_fitting, keep_off_others
from webhook.placing.pod.schedulability import UnschedulableReason, look_ahead
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE, namespace_of
from webhook.state.rules import Rules

# Quoted in messages about fields that only the service may write.
_USER: Final = User("the user of this manifest", ())


def creation_of(raw: Raw, api_version: str, kind: str, namespace: str) -> AdmissionRequest:
    """The request that the API server would send for the creation of an object of this kind."""
    group, _, version = api_version.rpartition("/")
    return AdmissionRequest(
        uid="",
        group=group,
        version=version,
        kind=kind,
        resource=f"{kind.lower()}s",
        sub_resource="",
        operation=Operation.CREATE,
        namespace=namespace or DEFAULT_NAMESPACE,
        name=str(raw["metadata"].get("name") or ""),
        object=raw,
        old_object={},
        user=_USER,
        dry_run=True,
    )


_UNKNOWN_GROUP: Final = (
    "spec.schedulingGroup: No PodGroup of scheduling.k8s.io is in the file or the cluster. "
    "The pod is judged as where the API server does not serve them: as if it named none."
)
_MAY_FIT_LATER: Final = frozenset({UnschedulableReason.LATER, UnschedulableReason.UNKNOWN, UnschedulableReason.NO_NODE})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for a pod."""

    verdict: Verdict
    message: str
    warnings: tuple[str, ...] = ()
    """The warnings that the API server prints at its creation."""
    managed: bool = False
    """Whether the service places it, or would if it were not denied."""
    intent: NUMAIntent = NO_INTENT
    """Its NUMA request, including annotations from its owners."""
    gated: GatedPod | None = None
    """The pod as the leader sees it; None if it is not gated."""
    decision: Decision | None = None
    """The engine's answer for each node; None if it was not called."""
    constraint: Constraint = field(default_factory=Constraint)
    """The node affinity for the right nodes if no leader pins it to one."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """The annotations that its creation records: see `PodDecision.marks`."""


def outcome_of(
    pod: Raw,
    cluster_snapshot: ClusterSnapshot,
    planner: Planner,
    owner_chain: OwnerChain | None = None,
    path: str | None = None,
) -> Outcome:
    """The outcome for a pod.

    cluster_snapshot: the cluster at its creation; the planner knows what was created later, such as its PodGroup.
    owner_chain: its owners. path: the path of its template, for messages; None if it has no template.
    """
    found = _outcome_of(pod, cluster_snapshot, planner, owner_chain, path)
    if cluster_snapshot.native_groups is None and scheduling_group_of(pod):
        return replace(found, warnings=(*found.warnings, f"{path or ''}{_UNKNOWN_GROUP}"))
    return found


def _outcome_of(
    pod: Raw,
    cluster_snapshot: ClusterSnapshot,
    planner: Planner,
    owner_chain: OwnerChain | None,
    path: str | None,
) -> Outcome:
    rules = planner.rules
    if (namespace := namespace_of(pod)) in rules.excluded_namespaces:
        return Outcome(Verdict.ALLOW, f"unmanaged: its namespace {namespace} is excluded")
    try:
        created = (
            decide_creation(_creation(pod), cluster_snapshot, rules)
            if path is None
            else _of_template(pod, cluster_snapshot, rules, path, (owner_chain and owner_chain.why_kueues) or "")
        )
    except UserError as error:
        return Outcome(Verdict.DENY, " ".join(map(str, error.faults)), managed=True)
    if created.verdict is Verdict.DENY:
        return Outcome(Verdict.DENY, created.message, created.warnings, True, decision=created.nodes)
    if created.fit_count is None:
        return Outcome(Verdict.ALLOW, created.message, created.warnings)
    try:
        gated = planner.read(created.mutated, owner_chain if created.gated else None)
    except UserError as error:
        return Outcome(Verdict.WAIT, " ".join(map(str, error.faults)), created.warnings, True)
    if not created.gated:
        admitted = created.verdict, created.message, created.warnings
        held = created.nodes, created.constraint, created.marks
        return Outcome(*admitted, True, gated.intent, None, *held)
    if gated.group_fault and path is not None:  # pods outside a template are judged with the others of their group
        return Outcome(Verdict.WAIT, gated.group_fault, created.warnings, True)
    if not gated.asks:
        return Outcome(Verdict.ALLOW, f"unmanaged: {gated.why_unasked}", created.warnings)
    return _assigned(gated, created, cluster_snapshot, planner)


def body_of(pod: Raw, outcome: Outcome, cluster_snapshot: ClusterSnapshot) -> Raw:
    """The pod after ungating, with the affinity that keeps it on the right nodes."""
    if not outcome.managed or outcome.verdict is Verdict.DENY:
        return pod
    fit_count, excluded = 0, {}
    if outcome.decision is not None:
        fit_count, excluded = outcome.decision.fit_count, dict(outcome.decision.excluded)
    users = without_ours(
        pod, ManagedFields.parse(((pod.get("metadata") or {}).get("annotations") or {}).get(MANAGED_FIELDS))
    )
    terms = required_terms(users)
    constraint = within_bounds(outcome.constraint, terms)
    managed_fields = ManagedFields.of(constraint, len(terms or ()))
    decided = PodDecision(
        outcome.verdict,
        outcome.message,
        fit_count=fit_count,
        excluded=excluded,
        constraint=constraint,
        managed_fields=managed_fields,
    )
    document: Raw = written(pod, decided, cluster_snapshot.topologies, outcome.marks).document
    return document


def _creation(pod: Raw) -> AdmissionRequest:
    return creation_of(pod, "v1", "Pod", pod["metadata"].get("namespace") or "")


def _of_template(
    pod: Raw, cluster_snapshot: ClusterSnapshot, rules: Rules, path: str, kueues_owner: str
) -> PodDecision:
    """The answer to a pod that a controller creates."""
    forged = forgery(_creation(pod), rules)
    if forged is not None:
        faults = " ".join(f"{path}{fault}" for fault in forged.faults)
        return PodDecision(Verdict.DENY, faults, pod, reason="ReservedField")
    return mutate_pod(pod, cluster_snapshot, rules, path, kueues_owner=kueues_owner)


def _assigned(gated: GatedPod, created: PodDecision, cluster_snapshot: ClusterSnapshot, planner: Planner) -> Outcome:
    """The leader's assignment of a pod outside a gang, and the nodes that it may use."""
    rules = planner.rules
    decision = decide(cluster_snapshot.nodes, gated.pod, gated.intent, rules.engine)
    found = planner.place(gated, cluster_snapshot.nodes)
    if not gated.taken and not gated.default.why_none and gated.delegated_why is None:
        verdict, text = created.verdict, created.message  # the message at its creation still applies
    elif isinstance(found, Assignment):
        placed = assigned_node(found.allocation, cluster_snapshot.nodes.node_arrays)
        verdict, text = Verdict.ALLOW, found.text.removeprefix(f"{placed}; ")
    else:
        verdict, text = Verdict.WAIT, found.text.removeprefix(placement_text.waiting(""))
    if isinstance(found, Assignment) and found.nodes:
        constraint = found.nodes
    elif decision.fit_count:
        best = decision.best(PREFERRED_NODES)
        constraint = hold_to_fitting(cluster_snapshot.nodes.node_arrays, decision, best, rules.max_affinity_values)
    else:
        constraint = hopeful_nodes(gated, cluster_snapshot, rules)
    held = decision, constraint, created.marks
    return Outcome(verdict, text, created.warnings, True, gated.intent, gated, *held)


def hopeful_nodes(gated: GatedPod, cluster_snapshot: ClusterSnapshot, rules: Rules) -> Constraint:
    """All nodes except those that can never take the pod."""
    node_arrays = cluster_snapshot.nodes.node_arrays
    unschedulable = look_ahead(node_arrays, gated.pod, gated.intent, rules.engine)
    may_fit = unschedulable.reason_code in _MAY_FIT_LATER
    return keep_off_others(node_arrays, unschedulable, rules.max_affinity_values) if may_fit else Constraint()
