"""RayCluster, RayJob and RayService as gangs: the head, and groups of workers.

A group has `replicas` times `numOfHosts` workers; `replicas` is at least `minReplicas`. Of these, `minReplicas` times
`numOfHosts` must start with the head, or all if no minimum is set. A suspended group has none. Each group's template
may request its own topology.

Source: kuberay ray.io/v1, controllers/ray/utils/util.go; KAI-Scheduler pkg/podgrouper plugins ray.
"""

from collections.abc import Mapping
from typing import Any

from webhook.formats.workload.common_fields import (
    at_most_a_cluster,
    count,
    gang_of_pod_sets,
    min_member,
    pod_sets_in,
    template_of,
    with_minimum,
)
from webhook.formats.workload.record import PodNames, WorkloadGang, WorkloadPodSet
from webhook.model.fields import mapping


def ray_cluster(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a RayCluster, or of the one that a RayJob or a RayService creates."""
    head = mapping(spec, "headGroupSpec", f"{path}.headGroupSpec")
    where = f"{path}.headGroupSpec"
    pod_sets = [WorkloadPodSet("headgroup", (f"{name}-head",), 1, template_of(head, where), f"{where}.template")]
    total = 0
    for index, group in enumerate(pod_sets_in(spec, "workerGroupSpecs", path)):
        if group.get("suspend") is not True:
            pod_sets.append(_workers(name, group, f"{path}.workerGroupSpecs[{index}]", index))
            total = at_most_a_cluster(total + len(pod_sets[-1].pods), f"{path}.workerGroupSpecs")
    return (gang_of_pod_sets(name, owner, with_minimum(pod_sets, min_member(owner))),)


def ray_job(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a RayJob's cluster."""
    return ray_cluster(name, owner, mapping(spec, "rayClusterSpec", f"{path}.rayClusterSpec"), f"{path}.rayClusterSpec")


def ray_service(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> tuple[WorkloadGang, ...]:
    """The gang of a RayService's cluster."""
    below = f"{path}.rayClusterConfig"
    return ray_cluster(name, owner, mapping(spec, "rayClusterConfig", below), below)


def _workers(name: str, group: Mapping[str, Any], path: str, index: int) -> WorkloadPodSet:
    hosts = count(group, "numOfHosts", path, 1)
    least = count(group, "minReplicas", path, 0)
    size = at_most_a_cluster(max(count(group, "replicas", path, 0), least) * hosts, path)
    pod_set = str(group.get("groupName") or f"worker-group-{index}")
    pods = PodNames(f"{name}-{pod_set}-worker", range(size))
    return WorkloadPodSet(pod_set, pods, min(least * hosts or size, size), template_of(group, path), f"{path}.template")
