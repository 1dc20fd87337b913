"""The gangs of a workload whose templates name PodGroups of Kubernetes itself: one for each PodGroup.

The PodGroup says what the gang requests and how many pods start together. Pods outside the workload may be in it, too;
they do not count here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from webhook.controllers.placement.gated_pods import GatedPod
from webhook.model.counted import counted
from webhook.model.workload.common_fields import batch_min_member, with_minimum
from webhook.model.workload.record import WorkloadGang, WorkloadPodSet
from webhook.model.workload.topology_request import topology_request


def gangs_of_pod_groups(
    pod_sets: Iterable[WorkloadPodSet], members: Mapping[str, GatedPod]
) -> tuple[list[WorkloadGang], str]:
    """The gangs of these pod sets, and why one of them waits for more pods; empty if none does.

    pod_sets: with templates as pods, those of replicas with the same path; members: path -> one of its pods.
    """
    by_group: dict[str, dict[str, list[WorkloadPodSet]]] = {}
    for pod_set in pod_sets:
        group = by_group.setdefault(members[pod_set.path].scheduling_group, {})
        group.setdefault(pod_set.path, []).append(pod_set)
    gangs, few = [], ""
    for name, of_paths in by_group.items():
        annotations = members[next(iter(of_paths))].pod.annotations
        asked = batch_min_member(annotations) or 1
        whole = [replace(same[0], pods=tuple(chain(*(one.pods for one in same)))) for same in of_paths.values()]
        there = sum(len(pod_set.pods) for pod_set in whole)
        if there < asked and not few:
            few = f"group {name}: {there} of the {counted(asked, 'pod')} that must start together are there"
        request = topology_request((annotations, "metadata.annotations"))
        gangs.append(WorkloadGang(name, request, tuple(with_minimum(_named_apart(whole), asked))))
    return gangs, few


def _named_apart(pod_sets: Sequence[WorkloadPodSet]) -> list[WorkloadPodSet]:
    """With names that differ."""
    if len({pod_set.name for pod_set in pod_sets}) == len(pod_sets):
        return [*pod_sets]
    return [replace(pod_set, name=f"{pod_set.name}-{number}") for number, pod_set in enumerate(pod_sets)]
