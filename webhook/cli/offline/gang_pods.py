"""The pods of a workload that are placed together, and their assignments.

1. The gangs are those of the workload's top owner, as the leader reads them (see `owner_chain`).
2. Only pod sets count whose pods are gated and in a gang, with the annotations from their owners.
3. A gang with a user-chosen name starts with the minimum that an annotation sets, else one by one, because pods outside
   the workload may belong to it, too.

The gangs of a workload whose templates name PodGroups of Kubernetes itself: one for each PodGroup.

The PodGroup says what the gang requests and how many pods start together. Pods outside the workload may be in it, too;
they do not count here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from webhook.cli.offline.gang_members import running_members
from webhook.cli.offline.judgement import Domains, PodSet, domains_by_path
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.workload.common_fields import batch_min_member, with_minimum
from webhook.formats.workload.record import Replicas, Workload, WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import topology_request
from webhook.model.counted import counted
from webhook.placing.gang.workload_judgement import GangJudgement, judge_gangs
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_snapshot import ClusterSnapshot


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
            few = f"gang {name}: {there} of the {counted(asked, 'pod')} that must start together are there"
        request = topology_request((annotations, "metadata.annotations"))
        gangs.append(WorkloadGang(name, request, tuple(with_minimum(_named_apart(whole), asked))))
    return gangs, few


def _named_apart(pod_sets: Sequence[WorkloadPodSet]) -> list[WorkloadPodSet]:
    """With names that differ."""
    if len({pod_set.name for pod_set in pod_sets}) == len(pod_sets):
        return [*pod_sets]
    return [replace(pod_set, name=f"{pod_set.name}-{number}") for number, pod_set in enumerate(pod_sets)]


Members = Mapping[str, GatedPod]
"""Path of a template -> one of its pods, for templates with pods in a gang."""


@dataclass(frozen=True, slots=True)
class WorkloadGroup:
    """The answer for the members of a gang."""

    judgement: GangJudgement
    members: frozenset[str]
    """The paths of their templates."""
    domains: Mapping[str, Domains]
    """Path of a template -> the domains of its pods; empty if they are not placed."""
    workload: Workload
    """The gangs, with those pods only that are placed together, as they are stored."""


def judge_group(
    workload: Workload,
    owner_chain: OwnerChain,
    sets: Sequence[PodSet],
    cluster_snapshot: ClusterSnapshot,
    around: JudgementContext,
) -> WorkloadGroup | None:
    """The answer for the pods in a gang; None if there are none. Raises UserError."""
    members = {
        one.path: gated for one in sets if (gated := one.outcome.gated) is not None and gated.membership is not None
    }
    if not members or not owner_chain.gangs:
        return None
    annotations: Mapping[str, str] = {} if owner_chain.raw is None else owner_chain.raw["metadata"]["annotations"]
    top = replace(workload, kind=owner_chain.top.kind, name=owner_chain.top.name, annotations=annotations)
    is_top = (top.kind, top.name) == (workload.kind, workload.name)
    gangs = _changed(owner_chain.gangs, lambda gang: _of_members(gang, members)) if is_top else owner_chain.gangs
    in_pod_groups = {path: gated for path, gated in members.items() if gated.scheduling_group}
    few = ""
    if in_pod_groups:  # all of them or none: another gang of the workload would be placed beside these
        members = in_pod_groups
        gangs, few = gangs_of_pod_groups(_as_pods(workload.gangs, members), members)
    elif is_top and not all(gated.in_group_of_its_top for gated in members.values()):
        gangs = _changed(gangs, lambda gang: _one_by_one(gang, members))
    running = running_members(replace(top, gangs=owner_chain.gangs), around.running)
    top = replace(top, gangs=gangs)
    ours = {name: running[name] for name in _names(gangs) if name in running} if running else {}
    if few:
        return WorkloadGroup(GangJudgement(Verdict.WAIT, few), frozenset(members), {}, top)
    judgement = judge_gangs(top, cluster_snapshot, around.planner.trees, around.rules, ours)
    if judgement.verdict is Verdict.DENY:  # the workload itself was not denied, so its pods wait, with a reason
        judgement = replace(judgement, verdict=Verdict.WAIT)
    domains: Mapping[str, Domains] = {}
    if judgement.placement is not None and judgement.placement.assigned:
        domains = domains_by_path(gangs, judgement.placement.gangs)
    if not is_top and not in_pod_groups:  # the templates are the owner's, not the workload's
        everywhere = tuple(dict.fromkeys(domain for found in domains.values() for domain in found))
        domains = dict.fromkeys(members, everywhere)
    return WorkloadGroup(judgement, frozenset(members), domains, top)


def _as_pods(gangs: Iterable[WorkloadGang], members: Members) -> Iterator[WorkloadPodSet]:
    """The pod sets that are members, as they are stored."""
    for gang in gangs:
        for pod_set in gang.all_pod_sets():
            if pod_set.path in members:
                yield _as_stored(pod_set, members[pod_set.path])


def _changed(gangs: Sequence[WorkloadGang], change: Callable[[WorkloadGang], WorkloadGang]) -> Sequence[WorkloadGang]:
    return gangs.each(change) if isinstance(gangs, Replicas) else tuple(map(change, gangs))


def _of_members(gang: WorkloadGang, members: Members) -> WorkloadGang:
    """The pod sets that are members, with templates as pods that have the annotations from their owners."""
    pod_sets = tuple(_as_stored(pod_set, members[pod_set.path]) for pod_set in gang.pod_sets if pod_set.path in members)
    parts = (_of_members(part, members) for part in gang.gangs)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(part for part in parts if part.all_pod_sets()))


def _as_stored(pod_set: WorkloadPodSet, gated: GatedPod) -> WorkloadPodSet:
    metadata = {"annotations": gated.pod.annotations, "labels": gated.pod.labels}
    return replace(pod_set, template={"metadata": metadata, "spec": gated.raw["spec"]})


def _one_by_one(gang: WorkloadGang, members: Members) -> WorkloadGang:
    """With the requested minimum, else one pod."""
    asked = next(filter(None, (batch_min_member(gated.pod.annotations) for gated in members.values())), 1)
    minimums = iter([pod_set.minimum for pod_set in with_minimum(gang.all_pod_sets(), asked)])
    return _with_minimums(gang, minimums)


def _with_minimums(gang: WorkloadGang, minimums: Iterator[int]) -> WorkloadGang:
    """In the order of `all_pod_sets`."""
    pod_sets = tuple(replace(pod_set, minimum=next(minimums)) for pod_set in gang.pod_sets)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(_with_minimums(part, minimums) for part in gang.gangs))


def _names(gangs: Sequence[WorkloadGang]) -> Iterator[str]:
    for gang in gangs:
        for pod_set in gang.all_pod_sets():
            yield from pod_set.pods
