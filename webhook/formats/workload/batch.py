"""Job, CronJob and JobSet as gangs.

- A Job runs min(parallelism, completions) pods at a time. If it requests a topology it is a gang: all of these pods
  start together, or as many as its minimum says. Otherwise its pods start one by one.
- A CronJob creates such Jobs. Annotations on its Job template override those on the CronJob.
- A JobSet is one gang. If its replicated jobs start in order, or one depends on another, each is a gang, because the
  later ones are created only when the earlier ones run or have ended.

Source: kubernetes pkg/controller/job; jobset api/jobset/v1alpha2, pkg/webhooks (any order is the default);
KAI-Scheduler pkg/podgrouper plugins job, jobset.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.formats.workload.common_fields import (
    annotations_at,
    annotations_on,
    at_most_a_cluster,
    batch_min_member,
    count,
    gang_of_one_pod_set,
    gang_of_pod_sets,
    pod_sets_in,
    template_of,
    with_minimum,
)
from webhook.formats.workload.record import PodNames, WorkloadGang, WorkloadPodSet
from webhook.model.fields import mapping


def job(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a Job, or of a Job that a CronJob would create."""
    return _gang_of_job(name, owner, _pod_set("pods", name, spec, path))


def cron_job(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of the next Job of a CronJob."""
    below = f"{path}.jobTemplate"
    template = mapping(spec, "jobTemplate", below)
    pod_set = _pod_set("pods", name, mapping(template, "spec", f"{below}.spec"), f"{below}.spec")
    return _gang_of_job(name, owner, replace(pod_set, between=(annotations_at(template, below),)))


def job_set(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gangs of a JobSet."""
    pod_sets: list[WorkloadPodSet] = []
    total, one_by_one = 0, False
    for index, entry in enumerate(pod_sets_in(spec, "replicatedJobs", path)):
        where = f"{path}.replicatedJobs[{index}]"
        below = mapping(entry, "template", f"{where}.template")
        part = f"{name}-{entry.get('name', index)}"
        inner = mapping(below, "spec", f"{where}.template.spec")
        pod_set = _pod_set(str(entry.get("name", index)), part, inner, f"{where}.template.spec")
        between = (annotations_at(below, f"{where}.template"),)
        replicas = count(entry, "replicas", where, 1)
        total = at_most_a_cluster(total + replicas * len(pod_set.pods), f"{path}.replicatedJobs")
        pods = PodNames(part, range(replicas * len(pod_set.pods)), len(pod_set.pods))
        pod_sets.append(replace(pod_set, pods=pods, minimum=len(pods), between=between))
        one_by_one = one_by_one or bool(entry.get("dependsOn"))
    policy = mapping(spec, "startupPolicy", f"{path}.startupPolicy")
    asked = batch_min_member(owner)
    if policy.get("startupPolicyOrder") != "InOrder" and not one_by_one:
        return (gang_of_pod_sets(name, owner, with_minimum(pod_sets, asked)),)
    return tuple(
        gang_of_pod_sets(f"{name}-{pod_set.name}", owner, with_minimum([pod_set], asked)) for pod_set in pod_sets
    )


def _gang_of_job(name: str, owner: Mapping[str, str], pod_set: WorkloadPodSet) -> tuple[WorkloadGang, ...]:
    gang = gang_of_one_pod_set(name, owner, pod_set)
    minimums = (batch_min_member(*each) for each in (*annotations_on(pod_set), (owner, "metadata.annotations")))
    asked = next(filter(None, minimums), None)
    if asked is None and not gang.request.levels and gang.pod_sets[0].segments is None:
        asked = 1
    return (replace(gang, pod_sets=tuple(with_minimum(gang.pod_sets, asked))),)


def _pod_set(name: str, prefix: str, spec: Mapping[str, Any], path: str) -> WorkloadPodSet:
    """The pods that one Job runs at a time."""
    parallelism = count(spec, "parallelism", path, 1)
    at_a_time = min(parallelism, count(spec, "completions", path, parallelism))
    pods = PodNames(prefix, range(at_a_time))
    return WorkloadPodSet(name, pods, at_a_time, template_of(spec, path), f"{path}.template")
