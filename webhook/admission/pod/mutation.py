"""The mutation of a pod at its creation, shared by the webhook and `review`.

1. Unmanaged pods are not changed (`cache.management`).
2. The annotations are parsed; invalid ones deny the pod. The defaults of the namespace or the settings fill in what
   they omit.
3. Additions of an earlier pass are removed: the decision starts from what the user wrote.
4. The nodes that can take the pod are determined, or the decision on an equal pod is reused (`decision`).
5. The affinity or gate, the placement text, the managed fields record and, if requested, environment variables become
   one patch, which is applied to the pod.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from webhook.admission.grove_requests import in_pod_gang
from webhook.admission.koordinator_requests import requests_of_pod
from webhook.admission.kueue_requests import asked_pod, left_to_kueue_text
from webhook.formats.koordinator.intent import NUMAIntent, NUMASpec, parse_numa_spec
from webhook.formats.kubernetes.domain_label import variables_of_levels
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import check_owners
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import AFFINITY_PATH, NODE_SELECTOR_PATH, check_only_appended, constrain
from webhook.formats.patches.json_patch import END, Patch
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.formats.shard_choice import ShardChoice
from webhook.formats.topology import Topology
from webhook.model.errors import UserError, UserErrors
from webhook.model.fields import is_on
from webhook.model.limits import check_annotations, check_size
from webhook.model.names import (
    INHERIT,
    INJECT_ENV,
    KAI_TOPOLOGY,
    MANAGED_FIELDS,
    NUMA_DEFAULTS,
    PLACEMENT,
    SCHEDULING_GROUP,
    SHARD,
)
from webhook.model.raw import Raw
from webhook.placing.pod import placement_text
from webhook.placing.pod.claim_alignment import requires_root
from webhook.placing.pod.decision import (
    NOT_ALIGNABLE,
    PodDecision,
    RecentDecisions,
    Verdict,
    creation_signature,
    decide_pod,
)
from webhook.placing.pod.gate import set_gate
from webhook.state.avoided_nodes import avoiding
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.devices import with_claims
from webhook.state.management import MARKS, Unmanaged, management_of
from webhook.state.rules import Rules
from webhook.state.shards import NodeShards
from webhook.state.unmanaged import NOT_ANNOTATED

_CONTAINERS: Final = ("initContainers", "containers")


def inject_environment(patch: Patch, topologies: Mapping[str, Topology]) -> None:
    """Add a gang member's rank and domains to its containers as environment variables, if an annotation requests them.

    Each variable reads a label of the pod through the downward API when its container starts. The labels are written
    when the pod is assigned. Without such a label the variable is empty. A variable that a container defines itself is
    not changed, so a second pass adds nothing.

    Source: kubernetes pkg/fieldpath (a key that the pod does not have gives the empty string).
    """
    annotations = patch.document["metadata"].get("annotations") or {}
    if annotations.get(INJECT_ENV) != "true":
        return
    variables = _variables(annotations, topologies)
    for kind in _CONTAINERS:
        for index, container in enumerate(patch.document["spec"].get(kind) or ()):
            _inject(patch, ("spec", kind, index, "env"), container, variables)


def _variables(annotations: Mapping[str, str], topologies: Mapping[str, Topology]) -> dict[str, str]:
    """The variables of the pod's topology, or of all topologies if the pod may take its topology from its owners."""
    named = topologies.get(annotations.get(KAI_TOPOLOGY, ""))
    variables: dict[str, str] = {}
    for topology in [named] if named else (each for each in topologies.values() if each.source is not None):
        variables |= variables_of_levels(topology.node_labels)
    return variables or variables_of_levels(())


def _inject(patch: Patch, path: tuple[str | int, ...], container: Raw, variables: Mapping[str, str]) -> None:
    defined = {variable.get("name") for variable in container.get("env") or ()}
    for name in sorted(variables.keys() - defined):
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{variables[name]}']"}}
        patch.put((*path, END), {"name": name, "valueFrom": source})


def mutate_pod(
    raw: Raw,
    cluster_snapshot: ClusterSnapshot,
    rules: Rules,
    path: str = "",
    recent: RecentDecisions | None = None,
    namespace: str = "",
    kueues_owner: str = "",
) -> PodDecision:
    """Decide on a pod.

    path: its path in its workload ("spec.template."), for messages. recent: earlier decisions with the same rules.
    namespace: that of the workload. kueues_owner: what shows that Kueue manages the workload, which marks its pods.
    Raises UserError for a pod that is invalid beyond its annotations.
    """
    try:
        asked = in_pod_gang(asked_pod(raw, cluster_snapshot.topologies, rules, path, kueues_owner), rules, path)
    except UserError as error:
        return denied(error, raw, "InvalidAnnotation")
    management = management_of(asked.raw, cluster_snapshot, rules, namespace)
    if isinstance(management, Unmanaged):
        why, of_kueue = management.why, left_to_kueue_text(raw, rules, kueues_owner)
        unread = _unread_switches(asked.raw, path) if why == NOT_ANNOTATED else ()
        if of_kueue:
            why = of_kueue if why == NOT_ANNOTATED else f"{why}; {of_kueue}"
        warnings = (*asked.warnings, *management.warnings, *unread)
        return PodDecision(Verdict.ALLOW, f"unmanaged: {why}", raw, warnings=warnings)
    annotations = asked.raw["metadata"].get("annotations") or {}
    try:
        spec, warnings = parse_numa_spec(annotations, f"{path}metadata.annotations")
        for switch in (INHERIT, INJECT_ENV):
            is_on(annotations, switch, f"{path}metadata.annotations")
        requires_root(annotations, f"{path}metadata.annotations")
        marks = {**asked.added, **management.marks(annotations, spec)}
    except UserError as error:
        return denied(error, raw, "InvalidAnnotation")
    warnings = (*asked.warnings, *warnings, *management.warnings)
    intent = spec.intent(NUMASpec.from_json(marks.get(NUMA_DEFAULTS)))
    try:
        check_owners(_marked(raw, marks))
    except UserError as error:
        return denied(error, raw, "InvalidOwnerReference")
    users = without_ours(asked.raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
    check_size(users.get("spec") or {})
    check_annotations(users["metadata"].get("annotations") or {})
    marked = _marked(users, marks)
    pod = avoiding(Pod.from_object(marked), marked, cluster_snapshot.avoided, namespace)
    pod = with_claims(pod, marked, cluster_snapshot.devices, namespace)
    of_koordinator = requests_of_pod(pod, intent.cpu_bind, path)
    warnings = (*warnings, *of_koordinator.warnings)
    if of_koordinator.faults:
        return replace(denied(UserErrors(of_koordinator.faults), raw, "InvalidAnnotation"), warnings=warnings)
    decided = _decided(pod, intent, cluster_snapshot, rules, recent or RecentDecisions())
    unaligned = decided.not_aligned
    if decided.verdict is Verdict.DENY:
        text = unaligned.sentence(path) if unaligned and decided.reason == NOT_ALIGNABLE else decided.message
        return replace(decided, message=text, mutated=raw, warnings=warnings)
    if unaligned and unaligned.warns:
        warnings = (*warnings, unaligned.sentence(path))
    patch = written(raw, decided, cluster_snapshot.topologies, marks)
    _annotate(patch, SHARD, _first_shard(asked.raw, decided, cluster_snapshot.shards))
    operations, warnings = tuple(patch.operations), (*warnings, *decided.warnings)
    return replace(decided, mutated=patch.document, operations=operations, warnings=warnings, marks=marks)


def _unread_switches(raw: Raw, path: str) -> Iterator[str]:
    """The faults of switches that a pod has without a request. A pod is not denied for them: it may be anybody's."""
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    for switch in (INHERIT, INJECT_ENV):
        try:
            is_on(annotations, switch, f"{path}metadata.annotations")
        except UserError as error:
            yield " ".join(map(str, error.faults))


def _marked(raw: Raw, marks: Mapping[str, str]) -> Raw:
    """The pod as a member of its PodGroup, if it is marked as one: it gets the gate, and reads its owners."""
    if SCHEDULING_GROUP not in marks:
        return raw
    metadata = raw["metadata"]
    annotations = {**(metadata.get("annotations") or {}), SCHEDULING_GROUP: marks[SCHEDULING_GROUP]}
    return {**raw, "metadata": {**metadata, "annotations": annotations}}


def denied(error: UserError, raw: Raw, reason: str) -> PodDecision:
    """The denial of an invalid pod."""
    return PodDecision(Verdict.DENY, " ".join(map(str, error.faults)), raw, reason=reason)


def _decided(
    pod: Pod, intent: NUMAIntent, cluster_snapshot: ClusterSnapshot, rules: Rules, recent: RecentDecisions
) -> PodDecision:
    signature = creation_signature(pod, intent)
    decided = recent.get(cluster_snapshot.nodes, signature)
    if decided is None:
        decided = decide_pod(cluster_snapshot.nodes, pod, intent, rules)
        recent.put(cluster_snapshot.nodes, signature, decided)
    return decided


def written(raw: Raw, decided: PodDecision, topologies: Mapping[str, Topology], marks: Mapping[str, str]) -> Patch:
    """The patch that writes the decision into the pod and removes the additions of an earlier pass."""
    users = without_ours(raw, ManagedFields.parse(_annotations(raw).get(MANAGED_FIELDS)))
    wanted = Patch(users)
    constrain(wanted, decided.constraint)
    if users is raw:
        patch = wanted
    else:
        patch = Patch(raw)
        _restore(patch, users, NODE_SELECTOR_PATH)
        if _affinity(wanted.document) != _affinity(raw):
            _restore(patch, users, AFFINITY_PATH)
            constrain(patch, decided.constraint)
    set_gate(patch, wanted=decided.gated)
    affinity = placement_text.affinity_text(decided.constraint)
    _annotate(patch, PLACEMENT, placement_text.annotated(_said(decided), affinity))
    _annotate(patch, MANAGED_FIELDS, decided.managed_fields.text() if decided.managed_fields else None)
    for mark in dict.fromkeys((*MARKS, *marks)):
        _annotate(patch, mark, marks.get(mark))
    inject_environment(patch, topologies)
    check_only_appended(users, patch.document)
    return patch


def _first_shard(raw: Raw, decided: PodDecision, shards: NodeShards | None) -> str | None:
    """In which shard the gang of a pod waits first; None where a pod alone, or all wait in one shard.

    Written now, it does not change if a shard comes or goes while the gang is placed. Equal pods get equal answers, so
    a pod alone, whose uid spreads it, gets none.
    """
    if shards is None or not shards.known or not decided.gated or not may_be_in_group(_annotations(raw)):
        return None
    uids = [one.get("uid", "") for one in raw["metadata"].get("ownerReferences") or ()]
    return ShardChoice(shards.first(f"owner {uids[0] if uids else ''}")).text()


def _said(decided: PodDecision) -> str:
    """The placement text of the pod, which says whether it is gated."""
    if decided.awaits_node:
        return placement_text.waiting_for_node(decided.message)
    if not decided.gated:
        return decided.message
    return (placement_text.to_be_assigned if decided.fit_count else placement_text.waiting)(decided.message)


def _affinity(pod: Raw) -> Any:
    return (pod.get("spec") or {}).get("affinity")


def _restore(patch: Patch, users: Raw, path: tuple[str, str]) -> None:
    """Reset a field of the spec to what the user wrote."""
    held, wanted = ((pod.get("spec") or {}).get(path[1]) for pod in (patch.document, users))
    if wanted is None and held is not None:
        patch.remove(path)
    elif wanted != held:
        patch.replace(path, wanted)


def _annotations(raw: Raw) -> Mapping[str, str]:
    return (raw.get("metadata") or {}).get("annotations") or {}


def _annotate(patch: Patch, name: str, text: str | None) -> None:
    path = ("metadata", "annotations", name)
    stands = _annotations(patch.document).get(name)
    if text is None and stands is not None:
        patch.remove(path)
    elif text is not None and text != stands:
        patch.put(path, text)
