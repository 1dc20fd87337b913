"""The pods and gangs of a cluster that wait behind the service's gate, in the order in which the leader places them.

The unit that a waiting pod belongs to, as the leader's preemption and autoscaling see it: the pod, or its gang.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.bare_pods import gated_in, waiting_beside
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.model.errors import UserError
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GangSearch, GatedGang, search_gang, why_too_few
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.preemptor import Preemptor, members_of, priority_of
from webhook.state.unmanaged import why_not_scheduled_by_ours


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


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A single pod, or a gang with those members that are placed together."""

    unit: GatedPod | GatedGang
    minimum: int = 1
    assigned: Mapping[str, AssignedMember] = field(default_factory=dict)
    """The members that have a node, by namespace/name."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return members_of(self.unit)[0].pod.namespace

    @property
    def name(self) -> str:
        """The pod's, or the gang's."""
        return self.unit.membership.name if isinstance(self.unit, GatedGang) else self.unit.pod.name

    @property
    def priority(self) -> int:
        """The lowest of its members."""
        return priority_of(self.unit)

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"{'group' if isinstance(self.unit, GatedGang) else 'pod'} {self.namespace}/{self.name}"


def waiting_units(cluster: Cluster, around: JudgementContext) -> list[WaitingUnit]:
    """All of them in order. A pod that cannot be read, or that does not agree with its gang, is left out."""
    snapshot = cluster.cache.snapshot()
    singles: list[GatedPod] = []
    gangs: dict[str, list[GatedPod]] = {}
    for raw in cluster.gated.values():
        if not waits_for_us_alone(raw) or "deletionTimestamp" in raw["metadata"]:
            continue
        try:
            gated = gated_in(raw, snapshot, around)
        except UserError:
            continue  # its own text says why it waits
        if not gated.asks or why_not_scheduled_by_ours(raw, around.rules):
            continue
        if gated.membership is None:
            singles.append(gated)
        elif gated.key not in cluster.assigned_members.get(gated.membership.group, {}):
            gangs.setdefault(gated.membership.group, []).append(gated)
    units = [WaitingUnit(one) for one in singles]
    for group, members in gangs.items():
        membership = members[0].membership
        assert membership is not None  # noqa: S101 # these are grouped by it
        gang = GatedGang(membership, tuple(sorted(members, key=lambda one: one.order)))
        agreed = agree(gang, cluster.assigned_members.get(group, {}), snapshot.topologies, snapshot.kai_groups)
        if agreed.gang.members:
            units.append(WaitingUnit(agreed.gang, agreed.minimum, agreed.assigned_members))
    return sorted(units, key=lambda one: one.unit.order)


def why_not_judged(one: WaitingUnit) -> str:
    """Why no move of other pods can be judged for it; empty if it can."""
    for member in members_of(one.unit):
        if (why := member.delegated_why) is not None:
            return f"only the scheduler can judge its {why}"
    if isinstance(one.unit, GatedGang) and (few := why_too_few(one.unit, one.minimum, one.assigned)) is not None:
        return few.text
    return ""


def searched(one: WaitingUnit, gang: GatedGang, cluster: Cluster, around: JudgementContext) -> GangSearch | str:
    """The gang in the engine's terms, or why it cannot be placed."""
    snapshot = cluster.cache.snapshot()
    found = search_gang(gang, one.minimum, one.assigned, snapshot, around.trees, around.rules)
    return found.text if isinstance(found, NoAssignment) else found
