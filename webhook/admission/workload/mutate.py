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
"""

from typing import Final

from webhook.admission.patch import Patch, Tokens
from webhook.admission.response import Allowed, Patched
from webhook.admission.workload.templates import annotations_on, asked_in, templates_in
from webhook.model.admission_review import AdmissionRequest, Operation
from webhook.model.membership import GROUP_ANNOTATIONS
from webhook.model.names import INHERIT
from webhook.model.rules import Rules
from webhook.model.workload.common_fields import MAX_POD_SETS

# Those of others are fixed once the workload runs (Job, JobSet), or are not looked at again by their operators.
_TEMPLATES_MAY_CHANGE: Final = frozenset({"CronJob", "Deployment", "LeaderWorkerSet", "ReplicaSet", "StatefulSet"})


class WorkloadMutator:
    """The handler."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def handle(self, request: AdmissionRequest) -> Allowed | Patched:
        """Mark the pod templates of a workload that is created or updated; not those of other schedulers."""
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
            wanted = template.above and GROUP_ANNOTATIONS.isdisjoint(template.annotations)
            news = creates or (may_change and (asks_again or old is None or template.raw != old.raw))
            if kept or (news and wanted):
                marked.append((*template.path, "metadata", "annotations", INHERIT))
            if len(marked) > MAX_POD_SETS:
                # It is denied by its validation, which names the bound.
                return Allowed()
        patch = Patch(request.object)
        for path in marked:
            patch.put(path, "true")
        return Patched(tuple(patch.operations)) if patch.operations else Allowed()
