"""Which pods of lower priority would have to end for a waiting pod or gang. Nothing is ended.

1. The preemptor's priority is the pod's; for a gang the lowest of its waiting members and of its PodGroup: a tenant
   may use a high PriorityClass for one member, or for the PodGroup, alone.
2. A gang is judged with its waiting members, by the same rules as in the leader, and only as a whole.
"""

from functools import partial
from typing import Final

from webhook.cli.bare_pods import waiting_beside
from webhook.cli.judgement_context import JudgementContext
from webhook.cli.offline_cluster import Cluster
from webhook.controllers.placement.gang_agreement import agree
from webhook.controllers.placement.gang_search import (
    GangSearch,
    GatedGang,
    assign_within,
    search_gang,
    why_too_few,
)
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.preemption.gang import victims_for_gang
from webhook.engine.preemption.single_pod import victims_for_pod
from webhook.model.rules import Rules
from webhook.views.freeing import Holdings
from webhook.views.preemption import PreemptionView, Preempts, candidates_below, preemption_view

_NEVER: Final = "Never"


def pods_to_end_for_pod(gated: GatedPod, cluster: Cluster, rules: Rules) -> PreemptionView:
    """The pods for a single pod, which does not fit now."""
    if _must_not(gated):
        return PreemptionView(Preempts.NEVER)
    candidates = candidates_below(cluster.cache, gated.pod.priority)
    if not candidates.pods and not candidates.ending:
        return PreemptionView(Preempts.NO_END)
    snapshot = cluster.cache.snapshot().nodes
    holdings = Holdings(cluster.cache)
    found = victims_for_pod(snapshot, gated.pod, gated.intent, rules.engine, candidates, holdings.on)
    return preemption_view(found, candidates)


def pods_to_end_for_gang(gated: GatedPod, cluster: Cluster, around: JudgementContext) -> PreemptionView:
    """The pods for the gang of a pod, which does not fit now."""
    assert gated.membership is not None  # noqa: S101 # the caller has checked it
    cluster_snapshot = cluster.cache.snapshot()
    group = gated.membership.group
    assigned = cluster.assigned_members.get(group, {})
    waiting = waiting_beside({group: None}, cluster_snapshot, around).get(group, ())
    members = tuple(sorted((one for one in waiting if one.key not in assigned), key=lambda one: one.order))
    waiting_gang = GatedGang(gated.membership, members)
    agreed = agree(waiting_gang, assigned, cluster_snapshot.topologies, cluster_snapshot.kai_groups)
    gang = agreed.gang
    if any(map(_must_not, gang.members)):
        return PreemptionView(Preempts.NEVER)
    if not gang.members or why_too_few(gang, agreed.minimum, agreed.assigned_members) is not None:
        return PreemptionView(Preempts.UNKNOWN)
    found = search_gang(gang, agreed.minimum, agreed.assigned_members, cluster_snapshot, around.trees, around.rules)
    if not isinstance(found, GangSearch) or found.placement.assigned:
        return PreemptionView(Preempts.UNKNOWN)
    candidates = candidates_below(cluster.cache, min(_priority(one) for one in gang.members))
    if not candidates.pods and not candidates.ending:
        return PreemptionView(Preempts.NO_END)
    tree = found.placement.tree
    victims = victims_for_gang(
        cluster_snapshot.nodes,
        found.assembled.gang,
        partial(assign_within, tree=tree, assembled=found.assembled, rules=around.rules),
        tree,
        candidates,
        Holdings(cluster.cache).on,
        found.assembled.within,
    )
    return preemption_view(victims, candidates)


def _must_not(gated: GatedPod) -> bool:
    return bool(gated.raw["spec"].get("preemptionPolicy") == _NEVER)


def _priority(gated: GatedPod) -> int:
    """The priority of a member."""
    return min(gated.pod.priority, -gated.order[0])
