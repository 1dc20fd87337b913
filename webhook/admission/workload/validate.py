"""The validating webhook on workloads: denies what would make their pods fail later.

1. Annotations about placement that did not change are not checked again, so existing workloads stay valid. Objects that
   a controller creates for a workload of a kind that is read here (the Jobs of a JobSet) are allowed, because that one
   was checked. What the controller of any other kind creates (an AppWrapper, a Trial) is checked as a user's own.
2. All annotations are parsed: those of the workload, and those of its templates.
3. A template must not have annotations that only we write into pods: its pods would be denied.
4. The workload is read by its kind, and its requests are compared with the existing topologies.
5. Errors in fields other than annotations are reported by the validation of the kind. But if a policy is requested and
   no kubelet would align the pods, there is a warning, or a denial by `--not-alignable`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from webhook.admission.annotation_warnings import annotation_warnings
from webhook.admission.koordinator_requests import requests_of_templates
from webhook.admission.kueue_requests import KueueRequest, asked_workload
from webhook.admission.reserved_fields import is_output
from webhook.admission.response import Allowed, Denied
from webhook.admission.workload.templates import Template, templates_in
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent, parse_numa_intent
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.kubernetes.alignment import obstacles
from webhook.formats.kubernetes.membership import GANG_REQUESTS, is_in_group
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kueue import KUEUE_ANNOTATIONS
from webhook.formats.topology import Topology
from webhook.formats.workload.common_fields import MAX_POD_SETS
from webhook.formats.workload.readers import is_made_by_another, read_workload
from webhook.model.errors import UserError, sentences
from webhook.model.fields import is_on
from webhook.model.limits import TooLarge, check_size
from webhook.model.names import INHERIT, INJECT_ENV, NUMA_TOPOLOGY_SPEC, PCIE_ROOT, RESOURCE_SPEC
from webhook.model.raw import Raw
from webhook.model.wording import quoted
from webhook.placing.gang.workload_judgement import annotations_in, check_gangs, may_be_completed, why_unmanaged
from webhook.placing.pod.claim_alignment import requires_root
from webhook.placing.pod.decision import NOT_ALIGNABLE
from webhook.placing.pod.not_aligned import NotAligned, not_aligned
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

_NUMA: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)
# Each takes a decision on all nodes, about a millisecond. Templates of one workload usually have the same problem.
_MOST_TEMPLATES: Final = 20


def unaligned_templates(raw: Raw, before: Raw, snapshot: Snapshot, rules: Rules) -> Iterator[tuple[NotAligned, str]]:
    """What kubelets do not align of a template's pods that request a NUMA policy, and the template's path.

    The request may be on the template or above it. A template that had the same problem before is skipped: a workload
    that is scaled gets no second warning, and an existing workload is not denied.
    """
    old = {template.path: template for template in templates_in(before)} if before else {}
    looked_at = 0
    for template in templates_in(raw):
        known = old.get(template.path)
        if known == template or template.scheduler not in rules.scheduler_names:
            continue
        asked = _may_not_be_aligned(template, rules)
        if asked is None or looked_at == _MOST_TEMPLATES:
            continue
        looked_at += 1
        found = not_aligned(snapshot, *asked, rules.engine)
        if found is not None and found.warns and not (known and _has_the_same(known, found, rules)):
            yield found, template.prefix


def _may_not_be_aligned(template: Template, rules: Rules) -> tuple[Pod, NUMAIntent] | None:
    """A pod of the template and its policy, if it requests one and may not be aligned."""
    own = {key: template.annotations[key] for key in _NUMA if key in template.annotations}
    # Without a gate, pods take no annotations from their owners.
    takes = template.annotations.get(INHERIT) != "false" or is_in_group(dict(template.annotations))
    above = template.above if takes and rules.gate != "Never" else {}
    annotations = own or {key: above[key] for key in _NUMA if key in above}
    try:
        intent, _ = parse_numa_intent(annotations)
        if not intent.policy:
            return None
        check_size(template.raw["spec"])
        pod = Pod.from_object({"metadata": {}, "spec": template.raw["spec"]})
    except UserError:
        return None  # it is denied, here or by the validation of its kind
    return (pod, intent) if obstacles(pod) else None


def _has_the_same(known: Template, found: NotAligned, rules: Rules) -> bool:
    asked = _may_not_be_aligned(known, rules)
    return asked is not None and obstacles(asked[0]) == found.obstacles


_SWITCHES: Final = (INHERIT, INJECT_ENV)
_OWN: Final = "metadata.annotations"
# Each warning quotes text of the user, and people read only a few.
_MOST_WARNINGS: Final = 20
_JUDGED: Final = GANG_REQUESTS.union(_NUMA, _SWITCHES, (PCIE_ROOT,))


class WorkloadValidator:
    """The handler. snapshot: returns the cluster at the time of a review."""

    def __init__(self, snapshot: Callable[[], ClusterSnapshot], rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = rules

    def handle(self, request: AdmissionRequest) -> Allowed | Denied:
        """Validate a workload when it is created, or when its annotations about placement or its templates change."""
        is_written = request.operation in {Operation.CREATE, Operation.UPDATE}
        if request.sub_resource or not is_written or is_made_by_another(request.object):
            return Allowed()
        cluster_snapshot = self._snapshot()
        try:
            asked = asked_workload(request.object, cluster_snapshot.topologies, self._rules)
        except UserError as error:
            if _of_kueue(request.object) == _of_kueue(request.old_object):
                return Allowed()
            return Denied(sentences(error.faults), "InvalidAnnotation")
        found = self._judged(request, asked, cluster_snapshot)
        told = tuple(map(asked.told, found.warnings))
        if isinstance(found, Denied):
            return replace(found, message=asked.told(found.message), warnings=told)
        return replace(found, warnings=told)

    def _judged(
        self, request: AdmissionRequest, asked: KueueRequest, cluster_snapshot: ClusterSnapshot
    ) -> Allowed | Denied:
        """The answer in our names. asked: the workload with Kueue's annotations read as ours."""
        rules, topologies = self._rules, cluster_snapshot.topologies
        before = _before(request.old_object, topologies, rules)
        judged = _annotations(asked.raw, before.raw, topologies, rules)
        if isinstance(judged, Denied):
            return judged
        of_koordinator = requests_of_templates(asked.raw, before.raw, rules)
        if of_koordinator.faults:
            return Denied(sentences(of_koordinator.faults), "InvalidAnnotation", judged.warnings)
        warnings = (
            *judged.warnings,
            *of_koordinator.warnings,
            *(warning for warning in asked.warnings if warning not in before.warnings),
            *_new_warnings(asked.raw, before.raw, topologies, rules),
        )
        unaligned = list(unaligned_templates(request.object, request.old_object, cluster_snapshot.nodes, rules))
        told = tuple(found.sentence(path) for found, path in unaligned)
        if rules.not_alignable == "Deny" and any(found.everywhere for found, _ in unaligned):
            return Denied(" ".join(told), NOT_ALIGNABLE, warnings[:_MOST_WARNINGS])
        return Allowed((*warnings, *told)[:_MOST_WARNINGS])


def _before(raw: Raw, topologies: Mapping[str, Topology], rules: Rules) -> KueueRequest:
    """The last version with Kueue's annotations read as ours; as it is, if they were invalid."""
    try:
        return asked_workload(raw, topologies, rules)
    except UserError:
        return KueueRequest(raw, {})


def _of_kueue(raw: Raw) -> list[tuple[str, dict[str, Any]]]:
    """(path, annotations) of Kueue's topology requests."""
    found = annotations_in(raw)
    return [
        (path, {key: annotations[key] for key in KUEUE_ANNOTATIONS if key in annotations})
        for path, annotations in found
        if isinstance(annotations, Mapping)
    ]


def _new_warnings(raw: Raw, before: Raw, topologies: Mapping[str, Topology], rules: Rules) -> Iterator[str]:
    """The warnings about its annotations that its last version did not have."""
    if before and list(annotations_in(raw)) == list(annotations_in(before)):
        return
    old = annotation_warnings(before, topologies, rules) if before else ()
    yield from (warning for warning in annotation_warnings(raw, topologies, rules) if warning not in old)


def _annotations(raw: Raw, before: Raw, topologies: Mapping[str, Topology], rules: Rules) -> Allowed | Denied:
    """Validate the annotations if they changed."""
    try:
        asked = _asked(raw)
    except TooLarge as error:
        return Denied(str(error), "InvalidAnnotation")
    if not asked or asked == _asked_before(before):
        return Allowed()
    faults = [*_not_text(asked), *_outputs(asked)]
    warnings: list[str] = []
    if not faults:
        try:
            workload = None if may_be_completed(raw) else read_workload(raw)
            if workload is not None and why_unmanaged(workload, rules):
                return Allowed()
            if workload is not None:
                check_gangs(workload, topologies)
        except UserError as error:
            # NUMA annotations are parsed below with their own path: a template may have them from the workload.
            faults += [fault for fault in error.faults if _is_ours_to_tell(fault)]
        for path, annotations in asked.items():
            try:
                for switch in _SWITCHES:
                    is_on(annotations, switch, path)
                requires_root(annotations, path)
                warnings += parse_numa_intent({key: annotations[key] for key in _NUMA if key in annotations}, path)[1]
            except UserError as error:
                faults += error.faults
    for name in (INJECT_ENV, PCIE_ROOT):
        if name in asked.get(_OWN, {}):
            warnings.append(f"{_OWN}[{name}] has no effect here. Write it on the pod template.")
    if faults:
        return Denied(sentences(faults), "InvalidAnnotation", tuple(warnings[:_MOST_WARNINGS]))
    return Allowed(tuple(warnings[:_MOST_WARNINGS]))


def _is_ours_to_tell(fault: UserError) -> bool:
    return isinstance(fault, TooLarge) or ("annotations" in fault.path and not _is_numa(fault))


def _is_numa(fault: UserError) -> bool:
    return any(f"[{key}]" in fault.path for key in _NUMA)


def _asked(raw: Raw) -> dict[str, dict[str, Any]]:
    """Path -> annotations about placement; only paths that have any."""
    found = {}
    for path, annotations in annotations_in(raw):
        if isinstance(annotations, Mapping):
            ours = {key: text for key, text in annotations.items() if key in _JUDGED or is_output(key)}
            if ours:
                found[path] = ours
            if len(found) > MAX_POD_SETS:
                raise TooLarge(
                    "", f"More than {MAX_POD_SETS} templates ask for a placement. At most {MAX_POD_SETS} may."
                )
    return found


def _asked_before(raw: Raw) -> dict[str, dict[str, Any]]:
    try:
        return _asked(raw)
    except TooLarge:
        return {}


def _not_text(asked: Mapping[str, Raw]) -> Iterator[UserError]:
    """Values of another type, which a custom resource without a schema accepts."""
    for path, annotations in asked.items():
        for key, text in annotations.items():
            if not isinstance(text, str):
                yield UserError(f"{path}[{key}]", f"This must be text, not {quoted(text)}. Write it in quotes.")


def _outputs(asked: Mapping[str, Raw]) -> Iterator[UserError]:
    """Annotations that only we may write. On the workload itself they have no effect."""
    for path, annotations in asked.items():
        for key in sorted(filter(is_output, annotations)) if path != _OWN else ():
            yield UserError(f"{path}[{key}]", "Only topology-webhook writes this, into pods. Leave it out.")
