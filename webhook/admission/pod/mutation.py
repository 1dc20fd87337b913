"""A pod at its creation: which nodes can take it, and how that is written into it. The webhook and `review` share this.

1. Pods that are not ours to place are left alone (manage.py).
2. The annotations say what the pod asks for; faults in them deny it. What they leave open is its namespace's to say, or
   the settings'.
3. What an earlier pass added is taken out: the decision starts from what the user wrote.
4. A plan is made, or taken over from a pod that asked for the same (plan.py).
5. The affinity or gate, the placement in words, the managed fields record and, if wanted, variables of the environment
   become one
   patch, tried on the pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.admission.patch import Operation, Patch
from webhook.admission.pod import placement_text
from webhook.admission.pod.affinity_patch import AFFINITY_PATH, check_only_appended, constrain
from webhook.admission.pod.environment import inject_environment
from webhook.admission.pod.gate import set_gate
from webhook.admission.pod.managed_fields import ManagedFields, without_ours
from webhook.admission.pod.plan import NOT_ALIGNABLE, Plan, Plans, Verdict, plan, signature_of
from webhook.admission.pod.reapply import NODE_SELECTOR_PATH
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.management import MARKS, Unmanaged, management_of
from webhook.engine.decide import Decision
from webhook.model.errors import UserError
from webhook.model.flag import is_on
from webhook.model.intent import NUMASpec, parse_numa_spec
from webhook.model.limits import check_annotations, check_size
from webhook.model.names import INHERIT, INJECT_ENV, MANAGED_FIELDS, NUMA_DEFAULTS, PLACEMENT
from webhook.model.owner_reference import check_owners
from webhook.model.pod import Pod
from webhook.model.rules import Rules
from webhook.model.topology import Topology

__all__ = ["PodMutation", "Verdict", "mutate_pod"]


@dataclass(frozen=True, slots=True)
class PodMutation:
    """The verdict on a pod, and what is done to it."""

    verdict: Verdict
    message: str
    """In one line: what was decided, or why nothing is."""
    mutated: Mapping[str, Any]
    """The pod as it is let in; as it came where nothing is changed."""
    operations: tuple[Operation, ...] = ()
    """The JSON patch from the pod to `mutated`."""
    warnings: tuple[str, ...] = ()
    reason: str = ""
    """Of a denial, for programs."""
    plan: Plan | None = None
    """What was planned; None where nothing was to be."""
    decision: Decision | None = None
    """What the engine says of each node; None where it was not asked, for this pod."""


def mutate_pod(
    raw: Mapping[str, Any],
    cluster_snapshot: ClusterSnapshot,
    rules: Rules,
    path: str = "",
    plans: Plans | None = None,
    namespace: str = "",
) -> PodMutation:
    """Decide on a pod; `path` is where it stands in its workload ("spec.template."), for messages.

    `plans` are those made before, by the same rules; `namespace` is that of the workload. Raises UserError for a pod
    that is unreadable beyond its annotations.
    """
    management = management_of(raw, cluster_snapshot, rules, namespace)
    if isinstance(management, Unmanaged):
        return PodMutation(Verdict.ALLOW, f"left alone: {management.why}", raw, warnings=management.warnings)
    annotations = raw["metadata"].get("annotations") or {}
    try:
        spec, warnings = parse_numa_spec(annotations, f"{path}metadata.annotations")
        for switch in (INHERIT, INJECT_ENV):
            is_on(annotations, switch, f"{path}metadata.annotations")
        marks = management.marks(annotations, spec)
    except UserError as error:
        return PodMutation(Verdict.DENY, " ".join(map(str, error.faults)), raw, reason="InvalidAnnotation")
    warnings = (*warnings, *management.warnings)
    intent = spec.intent(NUMASpec.from_json(marks.get(NUMA_DEFAULTS)))
    try:
        check_owners(raw)
    except UserError as error:
        return PodMutation(Verdict.DENY, str(error), raw, reason="InvalidOwnerReference")
    users = without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
    check_size(users.get("spec") or {})
    check_annotations(users["metadata"].get("annotations") or {})
    pod = Pod.from_object(users)
    plans, request_signature = plans or Plans(), signature_of(pod, intent)
    planned, decision = plans.get(cluster_snapshot.nodes, request_signature), None
    if planned is None:
        planned, decision = plan(cluster_snapshot.nodes, pod, intent, rules)
        plans.put(cluster_snapshot.nodes, request_signature, planned)
    unaligned = planned.not_aligned
    if planned.verdict is Verdict.DENY:
        text = unaligned.sentence(path) if unaligned and planned.reason == NOT_ALIGNABLE else planned.text
        return PodMutation(Verdict.DENY, text, raw, (), warnings, planned.reason, planned, decision)
    if unaligned and unaligned.warns:
        warnings = (*warnings, unaligned.sentence(path))
    patch = written(raw, planned, cluster_snapshot.topologies, marks)
    if planned.warn:
        warnings = (*warnings, planned.text)
    operations = tuple(patch.operations)
    return PodMutation(planned.verdict, planned.text, patch.document, operations, warnings, "", planned, decision)


def written(
    raw: Mapping[str, Any], planned: Plan, topologies: Mapping[str, Topology], marks: Mapping[str, str]
) -> Patch:
    """The patch that writes the plan into the pod, in the place of what an earlier pass added."""
    users = without_ours(raw, ManagedFields.parse(_annotations(raw).get(MANAGED_FIELDS)))
    wanted = Patch(users)
    constrain(wanted, planned.constraint)
    if users is raw:
        patch = wanted
    else:
        patch = Patch(raw)
        _restore(patch, users, NODE_SELECTOR_PATH)
        if _affinity(wanted.document) != _affinity(raw):
            _restore(patch, users, AFFINITY_PATH)
            constrain(patch, planned.constraint)
    set_gate(patch, wanted=planned.gated)
    _annotate(patch, PLACEMENT, placement_text.annotated(_said(planned)))
    _annotate(patch, MANAGED_FIELDS, planned.managed_fields.text() if planned.managed_fields else None)
    for mark in MARKS:
        _annotate(patch, mark, marks.get(mark))
    inject_environment(patch, topologies)
    check_only_appended(users, patch.document)
    return patch


def _said(planned: Plan) -> str:
    """The text of the pod itself, which says whether it is gated."""
    if planned.awaits_node:
        return placement_text.waiting_for_node(planned.text)
    if not planned.gated:
        return planned.text
    return (placement_text.to_be_assigned if planned.fit_count else placement_text.waiting)(planned.text)


def _affinity(pod: Mapping[str, Any]) -> Any:
    return (pod.get("spec") or {}).get("affinity")


def _restore(patch: Patch, users: Mapping[str, Any], path: tuple[str, str]) -> None:
    """Bring a field of the spec back to what the user wrote."""
    held, wanted = ((pod.get("spec") or {}).get(path[1]) for pod in (patch.document, users))
    if wanted is None and held is not None:
        patch.remove(path)
    elif wanted != held:
        patch.replace(path, wanted)


def _annotations(raw: Mapping[str, Any]) -> Mapping[str, str]:
    return (raw.get("metadata") or {}).get("annotations") or {}


def _annotate(patch: Patch, name: str, text: str | None) -> None:
    path = ("metadata", "annotations", name)
    stands = _annotations(patch.document).get(name)
    if text is None and stands is not None:
        patch.remove(path)
    elif text is not None and text != stands:
        patch.put(path, text)
