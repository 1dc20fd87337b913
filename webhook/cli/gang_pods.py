"""The pods of a workload that are placed together, and where.

1. The groups are those of the workload's top owner, as the leader reads them (see `webhook.model.owner_chain`).
2. Of these, the roles whose pods wait behind the gate and are in a group, each with what it takes from its owners.
3. A group by a name that its user chose starts with as many pods as an annotation asks for, else one by one: others may
   be in it, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.admission.gang import GangJudgement, judge_gangs
from webhook.admission.pod.plan import Verdict
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cli.gang_members import running_members
from webhook.cli.judgement import PodSet
from webhook.cli.judgement_context import JudgementContext
from webhook.cli.unpinned_gang import Domains, domains_by_path
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.model.owner_chain import OwnerChain
from webhook.model.workload.common_fields import batch_min_member, with_minimum
from webhook.model.workload.record import Gang, Replicas, Workload, WorkloadPodSet

Members = Mapping[str, GatedPod]
"""Path of a template -> one of its pods, of those that are in a group."""


@dataclass(frozen=True, slots=True)
class WorkloadGroup:
    """The answer for the members of a group."""

    judgement: GangJudgement
    members: frozenset[str]
    """The paths of their templates."""
    domains: Mapping[str, Domains]
    """Path of a template -> the domains of its pods; empty where they are not placed."""


def judge_group(
    workload: Workload,
    owner_chain: OwnerChain,
    sets: Sequence[PodSet],
    cluster_snapshot: ClusterSnapshot,
    around: JudgementContext,
) -> WorkloadGroup | None:
    """The answer for the pods that are in a group; None where none is. Raises UserError."""
    members = {
        one.path: gated for one in sets if (gated := one.outcome.gated) is not None and gated.membership is not None
    }
    if not members or not owner_chain.gangs:
        return None
    annotations: Mapping[str, str] = {} if owner_chain.raw is None else owner_chain.raw["metadata"]["annotations"]
    top = replace(workload, kind=owner_chain.top.kind, name=owner_chain.top.name, annotations=annotations)
    is_top = (top.kind, top.name) == (workload.kind, workload.name)
    gangs = _changed(owner_chain.gangs, lambda gang: _of_members(gang, members)) if is_top else owner_chain.gangs
    if is_top and not all(gated.in_group_of_its_top for gated in members.values()):
        gangs = _changed(gangs, lambda gang: _one_by_one(gang, members))
    running = running_members(replace(top, gangs=owner_chain.gangs), around.running)
    top = replace(top, gangs=gangs)
    ours = {name: running[name] for name in _names(gangs) if name in running} if running else {}
    judgement = judge_gangs(top, cluster_snapshot, around.trees, around.rules, ours)
    if judgement.verdict is Verdict.DENY:  # what would deny the workload was judged before: its pods wait, and say why
        judgement = replace(judgement, verdict=Verdict.WAIT)
    domains: Mapping[str, Domains] = {}
    if judgement.placement is not None and judgement.placement.assigned:
        domains = domains_by_path(gangs, judgement.placement.gangs)
    if not is_top:  # the templates are those of the owner's, not the workload's own
        everywhere = tuple(dict.fromkeys(domain for found in domains.values() for domain in found))
        domains = dict.fromkeys(members, everywhere)
    return WorkloadGroup(judgement, frozenset(members), domains)


def _changed(gangs: Sequence[Gang], change: Callable[[Gang], Gang]) -> Sequence[Gang]:
    return gangs.each(change) if isinstance(gangs, Replicas) else tuple(map(change, gangs))


def _of_members(gang: Gang, members: Members) -> Gang:
    """The roles that are members, their templates as pods with what they take from their owners."""
    pod_sets = tuple(_as_stored(pod_set, members[pod_set.path]) for pod_set in gang.pod_sets if pod_set.path in members)
    parts = (_of_members(part, members) for part in gang.gangs)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(part for part in parts if part.all_pod_sets()))


def _as_stored(pod_set: WorkloadPodSet, gated: GatedPod) -> WorkloadPodSet:
    metadata = {"annotations": gated.pod.annotations, "labels": gated.pod.labels}
    return replace(pod_set, template={"metadata": metadata, "spec": gated.raw["spec"]})


def _one_by_one(gang: Gang, members: Members) -> Gang:
    """With the minimum that is asked for, else of one pod."""
    asked = next(filter(None, (batch_min_member(gated.pod.annotations) for gated in members.values())), 1)
    minimums = iter([pod_set.minimum for pod_set in with_minimum(gang.all_pod_sets(), asked)])
    return _with_minimums(gang, minimums)


def _with_minimums(gang: Gang, minimums: Iterator[int]) -> Gang:
    """In the order of `all_pod_sets`."""
    pod_sets = tuple(replace(pod_set, minimum=next(minimums)) for pod_set in gang.pod_sets)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(_with_minimums(part, minimums) for part in gang.gangs))


def _names(gangs: Sequence[Gang]) -> Iterator[str]:
    for gang in gangs:
        for pod_set in gang.all_pod_sets():
            yield from pod_set.pods
