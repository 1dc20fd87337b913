"""Which pods of lower priority would have to end for a waiting pod or gang. Nothing is ended.

The rules are the leader's (see `controllers.preemption`). A gang is judged with its waiting members, and only as a
whole.
"""

from webhook.cli.bare_pods import waiting_beside
from webhook.cli.judgement_context import JudgementContext
from webhook.cli.offline_cluster import Cluster
from webhook.controllers.placement.gang_agreement import agree
from webhook.controllers.placement.gang_search import GatedGang, why_too_few
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.controllers.preemption.search import PreemptionSearch
from webhook.engine.preemption.steps import result_of
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.rules import Rules
from webhook.views.preemption import PreemptionView, Preempts, preemption_view


def pods_to_end_for_pod(gated: GatedPod, cluster: Cluster, rules: Rules) -> PreemptionView:
    """The pods for a single pod, which does not fit now."""
    return _view(Preemptor(gated), cluster, rules)


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
    if not gang.members:
        return PreemptionView(Preempts.UNKNOWN)
    preemptor = Preemptor(gang, agreed.minimum, agreed.assigned_members)
    if preemptor.why_not is None and why_too_few(gang, agreed.minimum, agreed.assigned_members) is not None:
        return PreemptionView(Preempts.UNKNOWN)
    return _view(preemptor, cluster, around.rules, around.trees)


def _view(preemptor: Preemptor, cluster: Cluster, rules: Rules, trees: TopologyTrees | None = None) -> PreemptionView:
    if (why := preemptor.why_not) is not None:
        return PreemptionView(Preempts.NEVER, why=why)
    found = result_of(PreemptionSearch(cluster.cache, rules, trees).run(preemptor))
    if found.victims is None:
        return PreemptionView(Preempts.UNKNOWN)
    return preemption_view(found.victims, found.candidates)
