"""Volcano's Job as a gang: each task is a pod set, in the order of the tasks.

All pods start together unless `minAvailable`, of the Job or of a task, sets a minimum. A task with `dependsOn` is
created once other pods run, so no pod waits for it. Volcano's controller creates the pods with the scheduler of their
template, else of the Job, and its webhook writes `volcano` into a Job that names none.

Source: volcano pkg/controllers/job (job_controller_util.go, job_controller_actions.go),
pkg/webhooks/admission/jobs/mutate, pkg/scheduler/api/job_info.go (CheckTaskMinAvailable).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from webhook.formats.workload.common_fields import (
    at_most_a_cluster,
    batch_min_member,
    count,
    gang_of_pod_sets,
    pod_sets_in,
    template_of,
    with_minimum,
)
from webhook.formats.workload.record import PodNames, WorkloadGang, WorkloadPodSet
from webhook.model.fields import mapping

VOLCANO_JOB: Final = ("batch.volcano.sh", "Job")
"""API group and kind."""
_SCHEDULER: Final = "volcano"


def volcano_job(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a Job of Volcano."""
    pod_sets: list[WorkloadPodSet] = []
    total = 0
    for index, task in enumerate(pod_sets_in(spec, "tasks", path)):
        pod_sets.append(_pod_set(name, index, task, spec, f"{path}.tasks[{index}]"))
        total = at_most_a_cluster(total + len(pod_sets[-1].pods), f"{path}.tasks")
    # Volcano's webhook replaces 0.
    asked = batch_min_member(owner) or count(spec, "minAvailable", path, 0) or None
    return (gang_of_pod_sets(name, owner, _with_minimum(pod_sets, asked)),)


def scheduler_of_pods(raw: Mapping[str, Any]) -> str | None:
    """The scheduler of a Volcano Job's pods whose template names none; None for any other object."""
    if str(raw.get("apiVersion") or "").rpartition("/")[0] != VOLCANO_JOB[0] or raw.get("kind") != VOLCANO_JOB[1]:
        return None
    spec = raw.get("spec")
    return str((spec.get("schedulerName") if isinstance(spec, Mapping) else None) or _SCHEDULER)


def _pod_set(name: str, index: int, task: Mapping[str, Any], spec: Mapping[str, Any], path: str) -> WorkloadPodSet:
    pod_set = str(task.get("name") or f"default{index}")
    size = count(task, "replicas", path, 0)
    template = template_of(task, path)
    inner = mapping(template, "spec", f"{path}.template.spec")
    if not inner.get("schedulerName"):
        template = {**template, "spec": {**inner, "schedulerName": spec.get("schedulerName") or _SCHEDULER}}
    pods = PodNames(f"{name}-{pod_set}", range(size))
    late = size if task.get("dependsOn") else 0
    minimum = min(count(task, "minAvailable", path, size), size - late)
    by = f"{path} without dependsOn"
    return WorkloadPodSet(pod_set, pods, minimum, template, f"{path}.template", late=late, at_once_by=by)


def _with_minimum(pod_sets: list[WorkloadPodSet], asked: int | None) -> list[WorkloadPodSet]:
    """The pod sets with the Job's minimum: below the sum of the tasks' it replaces them, above it adds to them."""
    more = (asked or 0) - sum(pod_set.minimum for pod_set in pod_sets)
    if more <= 0:
        return with_minimum(pod_sets, asked)
    raised = []
    for pod_set in pod_sets:
        here = min(more, len(pod_set.pods) - pod_set.late - pod_set.minimum)
        more -= here
        raised.append(replace(pod_set, minimum=pod_set.minimum + here))
    return raised
