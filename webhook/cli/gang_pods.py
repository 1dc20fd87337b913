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
from webhook.cache.cluster_snapshot import World
from webhook.cli.gang_members import running_members
from webhook.cli.judgement import PodSet
from webhook.cli.judgement_context import Surroundings
from webhook.cli.unpinned_gang import Domains, domains_by_path
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.model.owner_chain import Lineage
from webhook.model.workload.common_fields import batch_min_member, with_minimum
from webhook.model.workload.record import Gang, Replicas, Role, Workload

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
    workload: Workload, lineage: Lineage, sets: Sequence[PodSet], world: World, around: Surroundings
) -> WorkloadGroup | None:
    """The answer for the pods that are in a group; None where none is. Raises UserError."""
    members = {
        one.path: gated for one in sets if (gated := one.outcome.gated) is not None and gated.membership is not None
    }
    if not members or not lineage.gangs:
        return None
    annotations: Mapping[str, str] = {} if lineage.raw is None else lineage.raw["metadata"]["annotations"]
    top = replace(workload, kind=lineage.top.kind, name=lineage.top.name, annotations=annotations)
    is_top = (top.kind, top.name) == (workload.kind, workload.name)
    gangs = _changed(lineage.gangs, lambda gang: _of_members(gang, members)) if is_top else lineage.gangs
    if is_top and not all(gated.in_group_of_its_top for gated in members.values()):
        gangs = _changed(gangs, lambda gang: _one_by_one(gang, members))
    running = running_members(replace(top, gangs=lineage.gangs), around.running)
    top = replace(top, gangs=gangs)
    ours = {name: running[name] for name in _names(gangs) if name in running} if running else {}
    judgement = judge_gangs(top, world, around.trees, around.rules, ours)
    if judgement.verdict is Verdict.DENY:  # what would deny the workload was judged before: its pods wait, and say why
        judgement = replace(judgement, verdict=Verdict.WAIT)
    domains: Mapping[str, Domains] = {}
    if judgement.placement is not None and judgement.placement.placed:
        domains = domains_by_path(gangs, judgement.placement.gangs)
    if not is_top:  # the templates are those of the owner's, not the workload's own
        everywhere = tuple(dict.fromkeys(domain for found in domains.values() for domain in found))
        domains = dict.fromkeys(members, everywhere)
    return WorkloadGroup(judgement, frozenset(members), domains)


def _changed(gangs: Sequence[Gang], change: Callable[[Gang], Gang]) -> Sequence[Gang]:
    return gangs.each(change) if isinstance(gangs, Replicas) else tuple(map(change, gangs))


def _of_members(gang: Gang, members: Members) -> Gang:
    """The roles that are members, their templates as pods with what they take from their owners."""
    roles = tuple(_as_stored(role, members[role.path]) for role in gang.roles if role.path in members)
    parts = (_of_members(part, members) for part in gang.gangs)
    return replace(gang, roles=roles, gangs=tuple(part for part in parts if part.all_roles()))


def _as_stored(role: Role, gated: GatedPod) -> Role:
    metadata = {"annotations": gated.pod.annotations, "labels": gated.pod.labels}
    return replace(role, template={"metadata": metadata, "spec": gated.raw["spec"]})


def _one_by_one(gang: Gang, members: Members) -> Gang:
    """With the minimum that is asked for, else of one pod."""
    asked = next(filter(None, (batch_min_member(gated.pod.annotations) for gated in members.values())), 1)
    minimums = iter([role.minimum for role in with_minimum(gang.all_roles(), asked)])
    return _with_minimums(gang, minimums)


def _with_minimums(gang: Gang, minimums: Iterator[int]) -> Gang:
    """In the order of `all_roles`."""
    roles = tuple(replace(role, minimum=next(minimums)) for role in gang.roles)
    return replace(gang, roles=roles, gangs=tuple(_with_minimums(part, minimums) for part in gang.gangs))


def _names(gangs: Sequence[Gang]) -> Iterator[str]:
    for gang in gangs:
        for role in gang.all_roles():
            yield from role.pods
