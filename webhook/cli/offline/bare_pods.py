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
from webhook.engine.gang.unmet_levels import domain_of_pod
from webhook.formats.kubernetes.pod import Pod
from webhook.model.errors import UserError
from webhook.model.limits import TooLarge
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.workload_judgement import GangJudgement, WorkloadAssignment
from webhook.placing.planner import Planner
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.placement_text import waiting
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE


def judge_pods(pods: Mapping[int, Judged], around: JudgementContext) -> dict[int, Judgement]:
    """The judgements of pods by their positions in the input. Raises InputError."""
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
        beside = around.waiting_members(groups)
        for group, members in groups.items():
            for position, whole in _place_together(members, beside.get(group, ()), around.planner).items():
                judgements[position] = _in_group(judgements[position], whole, around)
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
    owner_chain, warnings = around.owner_chain(pod)
    outcome = outcome_of(pod, cluster_snapshot, around.planner, owner_chain)
    found = outcome.verdict, outcome.message, body_of(item.body, outcome, cluster_snapshot)
    return Judgement(item, *found, (*outcome.warnings, *warnings), (PodSet("pods", "", 1, (), outcome),))


def judge_waiting(gated: GatedPod, around: JudgementContext) -> GangJudgement:
    """The judgement of a member of a gang in the cluster, with the other members that wait."""
    assert gated.membership is not None  # noqa: S101 # the caller has checked it
    group = gated.membership.group
    return _place_together({0: gated}, around.waiting_members({group}).get(group, ()), around.planner)[0]


def _place_together(
    members: Mapping[int, GatedPod], beside: Sequence[GatedPod], planner: Planner
) -> dict[int, GangJudgement]:
    """Step 2: the judgements of the members of one gang."""
    membership = next(iter(members.values())).membership
    assert membership is not None  # noqa: S101 # these are grouped by it
    keys = {gated.key for gated in members.values()}
    everyone = (*members.values(), *(one for one in beside if one.key not in keys))
    assigned_members = planner.assigned_members(GatedGang(membership, everyone))
    running = {key.partition("/")[2]: member.node for key, member in assigned_members.items()}
    new = {position: gated for position, gated in members.items() if gated.key not in assigned_members}
    if not new:
        nothing = WorkloadAssignment(membership.name, (), running)
        return dict.fromkeys(members, GangJudgement(Verdict.ALLOW, nothing.message, nothing))
    together = sorted((one for one in everyone if one.key not in assigned_members), key=lambda one: one.order)
    agreed = planner.agreed(GatedGang(membership, tuple(together)))
    disagreeing = {
        position: _waits(agreed.disagreeing[gated.key])
        for position, gated in new.items()
        if gated.key in agreed.disagreeing
    }
    left = {position: gated for position, gated in new.items() if position not in disagreeing}
    if not left:
        return disagreeing
    placement = planner.placement(WaitingUnit(agreed.gang, agreed.minimum, agreed.assigned_members), running)
    if isinstance(placement, NoAssignment):
        return disagreeing | dict.fromkeys(left, _waits(placement))
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


def _in_group(alone: Judgement, judgement: GangJudgement, around: JudgementContext) -> Judgement:
    """Step 3."""
    (one,), cluster_snapshot = alone.sets, around.planner.state.snapshot()
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
