"""LeaderWorkerSet as gangs: each replica is a gang of a leader and size - 1 workers.

1. Without a leader template all pods of a replica are equal, and the worker template's request applies to all.
2. startupPolicy LeaderReady: the leader does not wait for workers, which are created when it runs.
3. Segments come from subGroupPolicy or the annotation. LeaderWorker: the leader is one pod of the first segment, or,
   if size - 1 is a multiple of the segment, is added to it. LeaderExcluded: segments of workers only.

Source: lws api/leaderworkerset/v1; KAI-Scheduler pkg/podgrouper plugins leaderworkerset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.formats.workload.common_fields import (
    annotations_of,
    at_most_a_cluster,
    count,
    gang_of_pod_sets,
    min_member,
    template_of,
    with_minimum,
)
from webhook.formats.workload.record import PodNames, Replicas, WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import SegmentRequest, segment_request, topology_request
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.names import (
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)


def leader_worker_set(
    name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str
) -> Sequence[WorkloadGang]:
    """The gangs of a LeaderWorkerSet."""
    replicas = count(spec, "replicas", path, 1)
    if not replicas:
        return ()
    below = f"{path}.leaderWorkerTemplate"
    at_most_a_cluster(replicas * count(mapping(spec, "leaderWorkerTemplate", below), "size", below, 1), path)
    gangs = Replicas(replicas, lambda replica: _replica(f"{name}-{replica}", owner, spec, path))
    _ = gangs[0]  # a fault in one is a fault in all, and is reported now
    return gangs


def _replica(name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> WorkloadGang:
    below = f"{path}.leaderWorkerTemplate"
    template = mapping(spec, "leaderWorkerTemplate", below)
    size = count(template, "size", below, 1)
    if size < 1:
        raise UserError(f"{below}.size", "0 is not allowed. Write at least 1: a replica has at least its leader.")
    policy = mapping(template, "subGroupPolicy", f"{below}.subGroupPolicy")
    worker = template_of({"template": template.get("workerTemplate")}, below)
    leader = mapping(template, "leaderTemplate", f"{below}.leaderTemplate")
    leader_path = "leaderTemplate" if leader else "workerTemplate"
    lead = WorkloadPodSet("leader", (name,), 1, leader or worker, f"{below}.{leader_path}")
    workers = PodNames(name, range(1, size))
    late = len(workers) if spec.get("startupPolicy") == "LeaderReady" else 0
    follow = WorkloadPodSet("workers", workers, len(workers) - late, worker, f"{below}.workerTemplate", late=late)
    follow = replace(follow, at_once_by=f"{path}.startupPolicy: LeaderCreated")
    segments = _segments(owner, worker, policy, f"{below}.workerTemplate")
    pod_sets = with_minimum([lead, follow], min_member(owner))
    pod_sets = [replace(pod_set, order=order, cut=segments is not None) for order, pod_set in enumerate(pod_sets)]
    if leader:
        gang = gang_of_pod_sets(name, owner, pod_sets, reads_segments=segments is None)
    else:
        where = f"{below}.workerTemplate"
        asked = annotations_of(worker, where), f"{where}.metadata.annotations"
        gang = WorkloadGang(name, topology_request(asked, (owner, "metadata.annotations")), tuple(pod_sets))
    if segments is None:
        return gang
    excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    return _in_segments(gang, segments, size, excluded)


def _segments(
    owner: Mapping[str, str], worker: Mapping[str, Any], policy: Mapping[str, Any], path: str
) -> SegmentRequest | None:
    """The segments of a replica: the field overrides the set's annotation, which overrides the template's."""
    size = policy.get("subGroupSize")
    above = {**owner, KAI_SEGMENT_SIZE: str(size)} if size is not None else owner
    below = annotations_of(worker, path)
    sized = {KAI_SEGMENT_SIZE: above[KAI_SEGMENT_SIZE]} if above.get(KAI_SEGMENT_SIZE) else {}
    if not sized and KAI_SEGMENT_SIZE not in below:
        return None
    return segment_request(
        (sized, "metadata.annotations"),
        (below, f"{path}.metadata.annotations"),
        (owner, "metadata.annotations"),
    )


def _in_segments(gang: WorkloadGang, segments: SegmentRequest, size: int, excluded: bool) -> WorkloadGang:
    """The gang with its workers in segments. The leader joins the first segment unless it is excluded."""
    pod_sets = gang.all_pod_sets()
    (lead,) = (pod_set for pod_set in pod_sets if pod_set.name == "leader")
    (follow,) = (pod_set for pod_set in pod_sets if pod_set.name == "workers")
    if excluded:
        return _with_worker(gang, replace(follow, segments=segments), lead)
    others_named = {part.request.topology for part in gang.gangs} - {gang.request.topology, None}
    if others_named:
        raise UserError(
            f"metadata.annotations[{KAI_TOPOLOGY}]",
            f"The leader is in the first segment, and the templates name several topologies: {gang.request.topology}, "
            f"{', '.join(map(str, sorted(filter(None, others_named))))}. Name one, or exclude the leader: "
            "subGroupPolicyType: LeaderExcluded.",
        )
    if segments.inner is not None:
        raise UserError(
            f"{segments.path}[{KAI_SEGMENT_REQUIRED_PLACEMENT}]",
            "The leader is in the first segment, which then consists of no smaller ones. Write one size and one level, "
            "or exclude the leader: subGroupPolicyType: LeaderExcluded.",
        )
    beside = segments.size if (size - 1) % segments.size == 0 else segments.size - 1
    first, others = (
        replace(follow, pods=pods, minimum=minimum, late=len(pods) if follow.late else 0)
        for pods, minimum in (
            (follow.pods[:beside], min(beside, follow.minimum)),
            (follow.pods[beside:], max(follow.minimum - beside, 0)),
        )
    )
    request = replace(
        gang.request,
        required=segments.required,
        preferred=segments.preferred,
        path=segments.path,
        keys=(KAI_SEGMENT_REQUIRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT),
    )
    first = replace(first, name="first-workers", segments=None, order=follow.order)
    head = WorkloadGang("segment-0", request, (lead, first), segment=True)
    without_lead = _with_worker(gang, replace(others, segments=segments, order=follow.order + 1), None)
    return replace(without_lead, gangs=(head, *without_lead.gangs))


def _with_worker(gang: WorkloadGang, worker: WorkloadPodSet, leader: WorkloadPodSet | None) -> WorkloadGang:
    """The gang with its pod sets replaced by these."""
    new = {"workers": worker, "leader": leader}
    pod_sets = tuple(pod_set for old in gang.pod_sets if (pod_set := new[old.name]) is not None and pod_set.pods)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(_with_worker(part, worker, leader) for part in gang.gangs))
