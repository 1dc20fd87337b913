"""The mutating webhook on workloads: marks the pod templates of a workload whose own annotations request a placement.

The webhook on pods does not read a pod's owners. So a pod template of such a workload gets the annotation
`topology-webhook.dev/inherit`: its pods stay gated until the leader has read their owners.

1. A template is marked if the annotations of an object above it request something, unless the template itself has
   annotations of a gang, or sets `inherit` itself. A strategy alone requests nothing.
2. Only the mark is written. The request itself stays on the workload and is read from there. It can change even if the
   template cannot, and a request of the whole workload does not become a request of each pod set.
3. An update keeps an existing mark. A new mark is written if the request changes and the kind allows templates to
   change: this creates new pods, like any change of the template. If the template changes anyway (a rollout), a missing
   mark is added. So workloads that are older than this service are marked at their next rollout.
"""

from typing import Final

from webhook.admission.response import Allowed, Patched
from webhook.admission.workload.templates import annotations_on, asked_in, templates_in
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.kubernetes.membership import GROUP_ANNOTATIONS
from webhook.formats.patches.json_patch import Patch, Tokens
from webhook.formats.workload.common_fields import MAX_POD_SETS
from webhook.model.names import INHERIT, STRATEGY
from webhook.state.rules import Rules

# Templates of other kinds are fixed once the workload runs (Job, JobSet), or their operators ignore changes.
_TEMPLATES_MAY_CHANGE: Final = frozenset({"CronJob", "Deployment", "LeaderWorkerSet", "ReplicaSet", "StatefulSet"})


class WorkloadMutator:
    """The handler."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def handle(self, request: AdmissionRequest) -> Allowed | Patched:
        """Mark the pod templates of a created or updated workload, except those of other schedulers."""
        if request.sub_resource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return Allowed()
        creates = request.operation is Operation.CREATE
        before = {} if creates else {template.path: template for template in templates_in(request.old_object)}
        may_change = request.kind in _TEMPLATES_MAY_CHANGE
        asks_again = asked_in(annotations_on(request.object)) != asked_in(annotations_on(request.old_object))
        marked: list[Tokens] = []
        for template in templates_in(request.object):
            old = before.get(template.path)
            if INHERIT in template.annotations or template.scheduler not in self._rules.scheduler_names:
                continue
            kept = old is not None and INHERIT in old.annotations and (template.above or not may_change)
            wanted = bool(template.above.keys() - {STRATEGY}) and GROUP_ANNOTATIONS.isdisjoint(template.annotations)
            news = creates or (may_change and (asks_again or old is None or template.raw != old.raw))
            if kept or (news and wanted):
                marked.append((*template.path, "metadata", "annotations", INHERIT))
            if len(marked) > MAX_POD_SETS:
                # The validating webhook denies it, and names the limit.
                return Allowed()
        patch = Patch(request.object)
        for path in marked:
            patch.put(path, "true")
        return Patched(tuple(patch.operations)) if patch.operations else Allowed()
