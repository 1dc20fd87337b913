"""Deployment, ReplicaSet, StatefulSet, ReplicationController and bare pods as gangs.

Their pods start one by one: the minimum is one, unless an annotation sets another. They still share one topology
request: a Deployment that requires a rack has all its pods in one rack.

The pods of a StatefulSet are numbered from `ordinals.start`, and their ranks from 0.
By default a StatefulSet creates a pod only when the previous one is ready. With a larger minimum the first pod would
wait for pods that are never created.

Source: KAI-Scheduler pkg/podgrouper plugins deployment, defaultgrouper, podjob; kubernetes
pkg/controller/statefulset.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.formats.workload.common_fields import (
    INT32,
    annotations_of,
    annotations_path,
    count,
    gang_of_one_pod_set,
    min_member,
    template_of,
)
from webhook.formats.workload.record import PodNames, WorkloadGang, WorkloadPodSet
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.wording import quoted


def replicas(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of an object with `replicas` and a pod template."""
    size = count(spec, "replicas", path, 1)
    template, where = template_of(spec, path), f"{path}.template"
    asked = min_member(annotations_of(template, where), path=annotations_path(where)) or min_member(owner) or 1
    pods = PodNames(name, range(size))
    pod_set = WorkloadPodSet("pods", pods, min(asked, size), template, where)
    return (gang_of_one_pod_set(name, owner, pod_set),)


def stateful_set(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a StatefulSet."""
    (gang,) = replicas(name, owner, spec, path)
    (pod_set,) = gang.pod_sets
    if start := _first_ordinal(spec, path):
        pods = PodNames(name, range(start, start + len(pod_set.pods)))
        pod_set = replace(pod_set, pods=pods)
        gang = replace(gang, pod_sets=(pod_set,))
    if spec.get("podManagementPolicy") == "Parallel" or len(pod_set.pods) <= 1:
        return (gang,)
    first = replace(pod_set, minimum=1, late=len(pod_set.pods) - 1, at_once_by=f"{path}.podManagementPolicy: Parallel")
    return (replace(gang, pod_sets=(first,)),)


def _first_ordinal(spec: Mapping[str, Any], path: str) -> int:
    """The index of the first pod. Raises UserError."""
    where = f"{path}.ordinals"
    start = mapping(spec, "ordinals", where).get("start")
    if start is None:
        return 0
    if type(start) is not int or not 0 <= start <= INT32:
        raise UserError(f"{where}.start", f"{quoted(start)} is not the number of a pod. Write a whole number from 0.")
    return start


def bare_pod(raw: Mapping[str, Any], name: str) -> tuple[WorkloadGang, ...]:
    """The gang of a pod without an owner: the pod alone."""
    return (gang_of_one_pod_set(name, {}, WorkloadPodSet("pods", (name,), 1, raw, "")),)
