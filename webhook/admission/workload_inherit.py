"""The mutating webhook on workloads: what asks for a placement on the workload itself is made known to its pods.

A pod's creation is answered without a look at its owners. So a pod template of a workload that asks for something gets
the annotation `topology-webhook.dev/inherit`: its pods wait behind the gate until the leader has read their owners.

1. Marked is a template below an object, or a template of objects, whose annotations ask for something, unless the
   template makes its pods a group itself, or says `inherit` itself.
2. Nothing but the mark is written. The wish stays where it is, and is read from there: it can change, also where a
   template cannot, and what the whole workload asks does not turn into what each of its roles asks for itself.
3. At an update a mark that was there stays. A new one is written when what the workload asks changes, if its kind lets
   templates change: that makes new pods, as any change of the template does. Where the template changes anyway (a
   rollout) one that misses the mark gets it: workloads that were there before this service come in so.
4. What submits a RayJob's work is no part of its cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.gang import MAX_DEPTH, MAX_FIELD_NAME
from webhook.admission.patch import Patch, Tokens
from webhook.admission.rules import Rules
from webhook.model.lineage import INHERITED
from webhook.model.membership import GROUP_ANNOTATIONS
from webhook.model.names import INHERIT
from webhook.model.review import AdmissionRequest, AdmissionResponse, Allowed, Operation, Patched
from webhook.model.workload.fields import MAX_ROLES

# Those of others are fixed once the workload runs (Job, JobSet), or are not looked at again by their operators.
_TEMPLATES_MAY_CHANGE: Final = frozenset({"CronJob", "Deployment", "LeaderWorkerSet", "ReplicaSet", "StatefulSet"})
_NOT_SEARCHED: Final = frozenset({"metadata", "status", "submitterPodTemplate"})


def mark_templates(request: AdmissionRequest, rules: Rules) -> AdmissionResponse:
    """Mark the pod templates of a workload that is created or updated; not those of other schedulers."""
    if request.sub_resource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
        return Allowed()
    creates = request.operation is Operation.CREATE
    before = {} if creates else {template.path: template for template in _templates(request.old_object)}
    may_change = request.kind in _TEMPLATES_MAY_CHANGE
    asks_anew = _asked(request.object) != _asked(request.old_object)
    marked: list[Tokens] = []
    for template in _templates(request.object):
        old = before.get(template.path)
        if INHERIT in template.annotations or template.scheduler not in rules.scheduler_names:
            continue
        kept = old is not None and INHERIT in old.annotations and (template.is_asked or not may_change)
        wanted = template.is_asked and GROUP_ANNOTATIONS.isdisjoint(template.annotations)
        news = creates or (may_change and (asks_anew or old is None or template.raw != old.raw))
        if kept or (news and wanted):
            marked.append((*template.path, "metadata", "annotations", INHERIT))
        if len(marked) > MAX_ROLES:
            # It is denied by its validation, which names the bound.
            return Allowed()
    patch = Patch(request.object)
    for path in marked:
        patch.put(path, "true")
    return Patched(tuple(patch.operations)) if patch.operations else Allowed()


@dataclass(frozen=True, slots=True)
class _Template:
    path: Tokens
    raw: Mapping[str, Any]
    annotations: Mapping[str, Any]
    scheduler: str
    is_asked: bool
    """Whether an object above asks for something."""


def _templates(raw: Any, path: Tokens = (), *, asked: bool = False) -> Iterator[_Template]:
    """The pod templates below an object: whatever has a spec with containers."""
    if len(path) >= MAX_DEPTH:
        return
    if isinstance(raw, list):
        for index, each in enumerate(raw):
            yield from _templates(each, (*path, index), asked=asked)
    if not isinstance(raw, Mapping):
        return
    annotations = _annotations(raw)
    spec = raw.get("spec")
    if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
        # A CRD may leave its templates without a schema; what is no pod's the pods' creation shows.
        if _may_be_annotated(raw):
            yield _Template(path, raw, annotations, str(spec.get("schedulerName") or "default-scheduler"), asked)
        return
    asked = asked or not INHERITED.isdisjoint(annotations)
    for key, below in raw.items():
        if isinstance(below, Mapping | list) and key not in _NOT_SEARCHED and len(key) <= MAX_FIELD_NAME:
            yield from _templates(below, (*path, key), asked=asked)


def _asked(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: text for key, text in _annotations(raw).items() if key in INHERITED}


def _may_be_annotated(raw: Mapping[str, Any]) -> bool:
    metadata = raw.get("metadata")
    return metadata is None or (
        isinstance(metadata, Mapping) and isinstance(metadata.get("annotations"), Mapping | None)
    )


def _annotations(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}
