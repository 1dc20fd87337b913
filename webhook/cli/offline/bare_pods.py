"""What the service does with pods without a workload in a file, as if they were created in this order.

1. Each pod is judged by itself: see `outcome`.
2. Members of one gang are placed together, with members that wait in the cluster, by the same rules as in the
   leader.
   Running members keep their assignments.
3. Each pod is pinned to its own domain, or to the nodes that fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from webhook.cli.input.documents import Item
from webhook.cli.input.object_schema import POD
from webhook.cli.offline.judgement import Domains, Judgement, PodSet, held
from webhook.cli.offline.judgement_context import Judged, JudgementContext
from webhook.cli.offline.outcome import body_of, outcome_of
from webhook.cli.offline.workload import unknown_owner
from webhook.engine.gang.domains import domain_of_pod
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_above, owner_chain_of
from webhook.formats.kubernetes.pod import Pod
from webhook.model.errors import UserError
from webhook.model.limits import TooLarge
from webhook.model.raw import Raw
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GatedGang, search_gang, why_too_few
from webhook.placing.gang.workload_judgement import GangJudgement, WorkloadAssignment
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.native_request import group_basis
from webhook.placing.pod.placement_text import waiting
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE


def judge_pods(pods: Mapping[int, Judged], latest: ClusterSnapshot, around: JudgementContext) -> dict[int, Judgement]:
    """The judgements of pods by their positions in the input. Raises InputError.

    latest: the cluster with all objects of the input, in which the leader places them.
    """
    names: dict[str, int] = {}
    judgements: dict[int, Judgement] = {}
    groups: dict[str, dict[int, GatedPod]] = {}
    for position, (item, cluster_snapshot) in pods.items():
        judgement = _by_itself(item, _named(item, names), cluster_snapshot, around)
        judgements[position] = judgement
        gated = judgement.sets[0].outcome.gated if judgement.sets else None
        if gated is not None and gated.membership is not None:
            groups.setdefault(gated.membership.group, {})[position] = gated
    if groups:
        beside = waiting_beside(groups, latest, around)
        for group, members in groups.items():
            together = place_together(members, beside.get(group, ()), group, latest, around)
            for position, whole in together.items():
                judgements[position] = _in_group(judgements[position], whole, latest, around)
    return judgements


def _named(item: Item, names: dict[str, int]) -> Raw:
    """The pod with its own name and namespace; a name is generated as at its creation."""
    metadata = item.body["metadata"]
    name = str(metadata.get("name") or "")
    if not name:
        count = names[item.name] = names.get(item.name, -1) + 1
        name = f"{item.name}{count}"
    return {**item.body, "metadata": {**metadata, "name": name, "namespace": item.namespace or DEFAULT_NAMESPACE}}


def _by_itself(item: Item, pod: Raw, cluster_snapshot: ClusterSnapshot, around: JudgementContext) -> Judgement:
    """Step 1."""
    item.check(item.body, POD)
    try:
        Pod.from_object(item.body)
    except TooLarge:
        pass  # it is denied if it requests a placement
    except UserError as error:
        raise item.fault(error.faults[0].path, error.faults[0].message) from error
    owner_chain, warnings = owner_chain_in(pod, around)
    outcome = outcome_of(pod, cluster_snapshot, around.rules, owner_chain, latest=around.latest)
    found = outcome.verdict, outcome.message, body_of(item.body, outcome, cluster_snapshot)
    return Judgement(item, *found, (*outcome.warnings, *warnings), (PodSet("pods", "", 1, (), outcome),))


def owner_chain_in(pod: Raw, around: JudgementContext) -> tuple[OwnerChain | None, tuple[str, ...]]:
    """The owners of a pod, and a warning for those that are unknown."""
    owner = owner_above(pod)
    if owner is None:
        return None, ()
    chain, unknown = around.owners.above(pod)
    takes = may_be_in_group(pod["metadata"].get("annotations") or {})
    return owner_chain_of(owner, chain), (unknown_owner(unknown),) if unknown and takes else ()


def gated_in(raw: Raw, cluster_snapshot: ClusterSnapshot, around: JudgementContext) -> GatedPod:
    """A gated pod of the cluster, with what it takes from its owners and its PodGroup. Raises UserError."""
    owner_chain, _ = owner_chain_in(raw, around)
    basis = group_basis(raw, cluster_snapshot)
    gated = GatedPod.from_object(raw, owner_chain, basis, reads_kueue=around.rules.kueue_annotations)
    return gated.avoiding(cluster_snapshot.avoided)


def waiting_beside(
    groups: Mapping[str, object], cluster_snapshot: ClusterSnapshot, around: JudgementContext
) -> dict[str, list[GatedPod]]:
    """The members of these gangs that wait in the cluster."""
    found: dict[str, list[GatedPod]] = {}
    for raw in around.gated.values():
        try:
            gated = gated_in(raw, cluster_snapshot, around)
        except UserError:
            continue  # it waits alone, and its message says why
        if gated.membership is not None and gated.membership.group in groups:
            found.setdefault(gated.membership.group, []).append(gated)
    return found


def place_together(
    members: Mapping[int, GatedPod],
    beside: Sequence[GatedPod],
    group: str,
    cluster_snapshot: ClusterSnapshot,
    around: JudgementContext,
) -> dict[int, GangJudgement]:
    """Step 2: the judgements of the members of one gang."""
    assigned_members = around.assigned_members.get(group, {})
    running = {key.partition("/")[2]: member.node for key, member in assigned_members.items()}
    keys = {gated.key for gated in members.values()}
    new = {position: gated for position, gated in members.items() if gated.key not in assigned_members}
    together = sorted([*new.values(), *(one for one in beside if one.key not in keys)], key=lambda one: one.order)
    membership = next(iter(members.values())).membership
    if not new or membership is None:
        nothing = WorkloadAssignment(membership.name if membership else "", (), running)
        return dict.fromkeys(members, GangJudgement(Verdict.ALLOW, nothing.message, nothing))
    agreed = agree(
        GatedGang(membership, tuple(together)),
        assigned_members,
        cluster_snapshot.topologies,
        cluster_snapshot.kai_groups,
    )
    disagreeing = {
        position: _waits(agreed.disagreeing[gated.key])
        for position, gated in new.items()
        if gated.key in agreed.disagreeing
    }
    left = {position: gated for position, gated in new.items() if position not in disagreeing}
    if not left:
        return disagreeing
    found = why_too_few(agreed.gang, agreed.minimum, agreed.assigned_members) or search_gang(
        agreed.gang, agreed.minimum, agreed.assigned_members, cluster_snapshot, around.trees, around.rules
    )
    if isinstance(found, NoAssignment):
        return disagreeing | dict.fromkeys(left, _waits(found))
    placement = WorkloadAssignment(membership.name, (found.placement,), running)
    if not placement.assigned:
        strategy, assembled = around.rules.engine.gang_strategy, found.assembled
        place = found.placement.snapshot, found.placement.tree, assembled.gang, assembled.within, strategy
        placement = replace(placement, when_empty=(assign_when_empty(*place),))
    unplaced = set(placement.unplaced())
    return disagreeing | {
        position: GangJudgement(
            Verdict.ALLOW if placement.assigned and gated.pod.name not in unplaced else Verdict.WAIT,
            placement.message,
            placement,
        )
        for position, gated in left.items()
    }


def _waits(why: NoAssignment) -> GangJudgement:
    return GangJudgement(Verdict.WAIT, why.text.removeprefix(waiting("")))


def _in_group(
    alone: Judgement, judgement: GangJudgement, cluster_snapshot: ClusterSnapshot, around: JudgementContext
) -> Judgement:
    """Step 3."""
    (one,) = alone.sets
    gated, placement = one.outcome.gated, judgement.placement
    domains: Domains = ()
    if gated is not None and placement is not None and judgement.verdict is Verdict.ALLOW:
        parts = (part for gang in placement.gangs for part in gang.by_topology())
        found = ((part.tree, domain_of_pod(part, gated.pod.name)) for part in parts)
        domains = tuple((tree, domain) for tree, domain in found if domain is not None)
    whole = held(one, judgement, domains, cluster_snapshot, around.rules)
    return replace(
        alone,
        verdict=judgement.verdict,
        message=judgement.message,
        mutated=body_of(alone.item.body, whole.outcome, cluster_snapshot),
        sets=(replace(one, in_group=True),),
        group=placement,
    )
