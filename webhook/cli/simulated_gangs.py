"""Pods without a workload that are in one gang, as a workload of the simulation.

Their annotations define the gang, or the PodGroup does that Kubernetes or KAI-Scheduler reads. Its subgroups become
those of the workload.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.placement.pod_group_members import by_subgroup
from webhook.model.kai_pod_group import KAIPodGroup
from webhook.model.kai_subgroup import SubGroup
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    POD_GROUP_NAME,
)
from webhook.model.workload.common_fields import with_minimum
from webhook.model.workload.plain_pods import BY_HAND, workloads_of_pods
from webhook.model.workload.record import Workload, WorkloadGang, WorkloadPodSet
from webhook.model.workload.topology_request import NO_REQUEST, TopologyRequest

Raw = Mapping[str, Any]

_FIELDS: Final = ("requiredTopologyLevel", "preferredTopologyLevel")
_LEVELS: Final = frozenset({KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT})


def gang_of_pods(raws: Sequence[Raw], members: Sequence[GatedPod], group: KAIPodGroup | None) -> Workload:
    """The workload of a gang's pods. Raises UserError.

    members: the same pods as the leader sees them; group: the one that a user wrote for KAI-Scheduler, if any.
    """
    if group is not None:
        return _of_users_group(raws, members, group)
    if members[0].scheduling_group:
        raws = [_as_named(raw, gated) for raw, gated in zip(raws, members, strict=True)]
    (together, *_) = workloads_of_pods(raws)
    return together.workload


def _as_named(raw: Raw, gated: GatedPod) -> Raw:
    """A pod with what its PodGroup of Kubernetes requests; without a minimum each may start alone."""
    name = gated.membership.name if gated.membership else ""
    annotations = {MIN_MEMBER: "1", **gated.pod.annotations, POD_GROUP_NAME: name}
    return {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}


def _of_users_group(raws: Sequence[Raw], members: Sequence[GatedPod], group: KAIPodGroup) -> Workload:
    by_name = {gated.key: raw for raw, gated in zip(raws, members, strict=True)}
    pods = {name: [by_name[gated.key] for gated in some] for name, some in by_subgroup(members).items()}
    topology = TopologyRequest(topology=group.topology) if group.topology else NO_REQUEST
    gang = _gang(group.whole, group, pods, topology)
    return Workload(BY_HAND, group.namespace, group.name, "", (gang,), {})


def _gang(
    part: SubGroup, group: KAIPodGroup, pods: Mapping[str, Sequence[Raw]], request: TopologyRequest
) -> WorkloadGang:
    if part.required or part.preferred:
        request = TopologyRequest(
            part.topology or group.topology,
            part.required or None,
            part.preferred or None,
            part.path,
            part.path,
            _FIELDS,
        )
    below = (_gang(each, group, pods, NO_REQUEST) for each in part.parts)
    sets = () if part.parts else tuple(_pod_sets(part, group, pods.get(part.name, ())))
    return WorkloadGang(part.name or group.name, request, sets, tuple(gang for gang in below if gang.size))


def _pod_sets(part: SubGroup, group: KAIPodGroup, raws: Sequence[Raw]) -> list[WorkloadPodSet]:
    """The pods of a subgroup, with its minimum. Their own annotations about the gang say the same or nothing."""
    if not raws:
        return []
    (together, *_) = workloads_of_pods(map(_without_levels, raws))
    sets = [pod_set for gang in together.workload.gangs for pod_set in gang.all_pod_sets()]
    named = [replace(one, name=f"{part.name or group.name}-{number}") for number, one in enumerate(sets)]
    return with_minimum(named, part.minimum)


def _without_levels(raw: Raw) -> Raw:
    """A pod whose annotations say nothing that its PodGroup says."""
    own = {key: text for key, text in raw["metadata"]["annotations"].items() if key not in _LEVELS}
    return {**raw, "metadata": {**raw["metadata"], "annotations": own}}
