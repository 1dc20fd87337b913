"""The unit that a waiting pod belongs to, as the leader's preemption and autoscaling see it: the pod, or its gang."""

from webhook.cli.bare_pods import waiting_beside
from webhook.cli.judgement_context import JudgementContext
from webhook.cli.offline_cluster import Cluster
from webhook.controllers.placement.gang_agreement import agree
from webhook.controllers.placement.gang_search import GatedGang, why_too_few
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.preemption.preemptor import Preemptor


def waiting_unit(gated: GatedPod, cluster: Cluster, around: JudgementContext) -> Preemptor | None:
    """The pod, or its gang with the members that wait; None if none of the gang's members can be read."""
    if gated.membership is None:
        return Preemptor(gated)
    cluster_snapshot = cluster.cache.snapshot()
    group = gated.membership.group
    assigned = cluster.assigned_members.get(group, {})
    waiting = waiting_beside({group: None}, cluster_snapshot, around).get(group, ())
    members = tuple(sorted((one for one in waiting if one.key not in assigned), key=lambda one: one.order))
    waiting_gang = GatedGang(gated.membership, members)
    agreed = agree(waiting_gang, assigned, cluster_snapshot.topologies, cluster_snapshot.kai_groups)
    if not agreed.gang.members:
        return None
    return Preemptor(agreed.gang, agreed.minimum, agreed.assigned_members)


def lacks_members(unit: Preemptor) -> bool:
    """Whether the unit is a gang of which too few members exist to start together."""
    gang = unit.unit
    return isinstance(gang, GatedGang) and why_too_few(gang, unit.minimum, unit.assigned) is not None
