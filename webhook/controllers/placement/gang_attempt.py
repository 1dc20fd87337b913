"""An attempt to assign a gang: all members that must start together at once, or none.

1. Skip members that are pending (see `pending_pods`). If the gang failed before and nothing has changed since, or if a
   member has changed since the cycle began, it is not tried; the domain reserved for it stays reserved.
2. The members agree on a topology and a minimum (see `gang_agreement`). Those that do not agree report why. If they
   name a PodGroup that does not exist, a new gang waits a moment for it.
3. The others are placed and assumed together (see `gated_gang`).
4. They fit: write their assignments in the background.
   Else: all report why. If the gang has waited long, a domain is reserved for it. If it lacks room, it may preempt.
"""

from collections.abc import Container
from dataclasses import replace

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.placement.cycle import Cycle
from webhook.controllers.placement.failure_handler import FailureHandler
from webhook.controllers.placement.pending_pods import PendingPods
from webhook.formats.kubernetes.membership import AssignedMember, controllers_group, wishes_of
from webhook.model.names import KAI_SUBGROUP, POD_GROUP_NAME
from webhook.placing.fair_order import FailedAttempts
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.preemption.preemptor import Preemptor, name_of
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache


class GangAttempts:
    """Attempts to assign gangs."""

    def __init__(
        self,
        cache: ClusterCache,
        assigner: GangAssigner,
        pending: PendingPods,
        failed: FailedAttempts,
        failures: FailureHandler,
        examined: Signal[[GatedGang, str]],
        metrics: ControllerMetrics,
    ) -> None:
        self._cache = cache
        self._assigner = assigner
        self._pending = pending
        self._failed = failed
        self._failures = failures
        self._examined = examined
        self._metrics = metrics
        self._preemptors = failures.preemptors
        self._lacking_room = failures.lacking_room

    def keep(self, groups: Container[str]) -> None:
        """Forget all gangs but these, which still wait."""
        self._assigner.keep(groups)

    def needs_decision(self, gang: GatedGang, cycle: Cycle) -> bool:
        """Whether an attempt would cost a decision. The nodes reserved for a postponed gang stay reserved."""
        failed = self._failed.of(gang)
        if failed is not None:
            cycle.reserve(gang, failed.reserved_nodes)
        return failed is None or failed.basis != cycle.basis_of(gang)

    async def attempt(self, gang: GatedGang, cycle: Cycle) -> int:
        """Assign the waiting members of the gang; returns how many were assigned."""
        waiting = tuple(one for one in gang.members if not self._pending.has(one.key, one.pod.uid))
        if not waiting or self._failures.is_delayed(gang):
            self.keep_reserved(gang, cycle)
            return 0
        failed, gated = self._failed.of(gang), self._cache.gated_pods()
        has_changed = any(gated.get(one.key) is not one.raw for one in waiting)
        if failed is not None and (has_changed or failed.basis == cycle.basis_of(gang)):
            cycle.reserve(gang, failed.reserved_nodes)
            return 0
        if has_changed:
            return 0  # which triggers another cycle
        began = cycle.work.seconds()
        snapshot = self._cache.snapshot()
        agreed = agree(
            self._without_assumed(gang), self._assigned_members(gang), snapshot.topologies, snapshot.kai_groups
        )
        for one in waiting:
            if (why := agreed.disagreeing.get(one.key)) is not None:
                self._failures.unassigned(one, why, cycle)
        keys = {one.key for one in waiting}
        together = replace(agreed.gang, members=tuple(one for one in agreed.gang.members if one.key in keys))
        if not together.members:
            self._lacking_room.forget(name_of(gang))
            if gang.membership.of_object and agreed.disagreeing:
                # Its status reports this; other gangs have none but their pods'.
                self._examined.emit(gang, next(iter(agreed.disagreeing.values())).text)
            return 0
        if self._may_get_a_pod_group(together):
            return 0
        reserved = cycle.reserved_nodes
        found = await self._assigner.assign(
            together,
            agreed.minimum,
            agreed.assigned_members,
            reserved | self._preemptors.closed_to(gang),
            cycle.work.pause,
            may_reserve=cycle.may_reserve(gang),
        )
        self._failures.no_error(gang)
        self._metrics.decided("gang", cycle.work.seconds() - began)
        if isinstance(found, NoAssignment):
            preempting = self._failures.preempting(together.members[0].key)
            self._examined.emit(together, (preempting or found).text)
            self._unassigned(together, found, cycle)
            if found.reason == WaitReason.GANG_DOES_NOT_FIT:
                preemptor = Preemptor(together, agreed.minimum, agreed.assigned_members, reserved)
                self._lacking_room.unfit(preemptor)
            else:
                self._lacking_room.forget(name_of(gang))
            return 0
        self._examined.emit(together, "")
        self._lacking_room.forget(name_of(gang))
        self._preemptors.placed(together, (assignment.hint.node for _, assignment, _ in found))
        for one, assignment, assumed_pod in found:
            self._pending.assign(one, assignment, assumed_pod)
        return len(found)

    def keep_reserved(self, gang: GatedGang, cycle: Cycle) -> None:
        """Keep what was reserved for a gang that is not tried now, unless all its waiting members are assumed."""
        failed = self._failed.of(gang)
        if failed is not None and any(self._cache.assumed_node(one.key) is None for one in gang.members):
            cycle.reserve(gang, failed.reserved_nodes)

    def _may_get_a_pod_group(self, gang: GatedGang) -> bool:
        """Whether the gang is so new that the PodGroup which its pods name may be on its way."""
        first = gang.members[0]
        defined = gang.membership.of_object or first.in_group_of_its_top
        name = None if defined else first.pod.annotations.get(POD_GROUP_NAME)
        return (
            bool(name) and gang.pod_group is None and self._cache.kai_groups.may_come(f"{first.pod.namespace}/{name}")
        )

    def _unassigned(self, gang: GatedGang, found: NoAssignment, cycle: Cycle) -> None:
        """Record the failure, reserve nodes if that is due, and report the reason of every member."""
        self._failed.record(gang, cycle.basis_of(gang), found.kind, found.reserved_nodes)
        cycle.reserve(gang, found.reserved_nodes)
        for one in gang.members:
            self._failures.unassigned(one, found, cycle, of_gang=True)

    def _without_assumed(self, gang: GatedGang) -> GatedGang:
        """The gang without members that are assumed: their assignment is being written."""
        return replace(gang, members=tuple(one for one in gang.members if not self._cache.assumed_node(one.key)))

    def _assigned_members(self, gang: GatedGang) -> dict[str, AssignedMember]:
        """The members that are assigned or assumed, by namespace/name."""
        assumed = {
            one.key: AssignedMember(
                node, None, wishes_of(one.pod.annotations), assigned=True, subgroup=one.pod.labels.get(KAI_SUBGROUP, "")
            )
            for one in gang.members
            if (node := self._cache.assumed_node(one.key)) is not None
        }
        # A pod that was bound while no replica answered counts with the request that the others take from the same
        # owner.
        of_owners = {one.owner.uid: one for one in gang.members if one.owner is not None and one.in_group_of_its_top}
        unasked = {
            key: replace(member, wishes=wishes_of(one.pod.annotations))
            for uid, one in of_owners.items()
            for key, member in self._cache.gangs.unasked(controllers_group(one.pod.namespace, uid)).items()
        }
        return unasked | assumed | dict(self._cache.gangs.assigned(gang.membership.group))
