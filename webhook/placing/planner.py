"""The planner: what would be placed where, and what keeps the rest waiting.

One planner answers for the leader and for the commands. A command asks it about a cluster as it is. The leader also
lets it attempt: what fits is assumed at once, so that the next attempt sees it.

A cycle is one pass over all that waits:
1. `begin` it, and `collected`: the units that wait now, single pods and gangs, in order (see `units_of`).
2. `known`: a unit that failed before has the same result as long as nothing has changed. In one cycle that goes for all
   pods of its signature, because free resources never grow within one.
3. `attempt_pod`: decide with assumed pods and reserved nodes subtracted (see `assignment`). Nodes that are held for
   preemptors of the same or a higher priority are closed. An equal pod shares the decision on the last one (see
   `equal_pods`).
4. `attempt_gang`: the members agree on a topology and a minimum (see `gang_agreement`). If they name a PodGroup that
   does not exist, a new gang waits a moment for it. The others are placed and assumed together, all that must start at
   once or none (see `gated_gang`).
   Where kube-scheduler gates a group as a whole, the members without room are released to its domain (see `_released`).
5. What lacks room may preempt (see `waiting_preemptors`), or an autoscaler is asked for it (see `lacking_room`). If a
   gang has waited long, a domain is reserved for it: later units get nothing there (see `kept_domain`).
6. `why` puts a result into words, when it is news.

Pure: clocks and pauses are given, and what is decided is written and reported by the caller.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webhook.engine.decide import Decision, decide
from webhook.engine.freeing import NoSet, SmallestSet, smallest_set
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment
from webhook.engine.preemption.freed_cluster import FreedCluster
from webhook.engine.request import named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.membership import AssignedMember, controllers_group, native_group, wishes_of
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.kubernetes.pod import PreferredTerm
from webhook.formats.kubernetes.pod_resources import PodAmounts
from webhook.formats.user_pod_group import subgroup_of
from webhook.model.names import POD_GROUP_NAME
from webhook.model.raw import Raw
from webhook.placing.autoscaling.answers import ScaleUpAnswers
from webhook.placing.autoscaling.lacking_room import LackingRoom, ScaleUp
from webhook.placing.autoscaling.provisioning_pod_sets import pod_sets_of, request_text, whole_gang, why_no_request
from webhook.placing.fair_order import FailedAttempts, result_name
from webhook.placing.gang.gang_agreement import Agreement, agree
from webhook.placing.gang.gang_devices import GangDevices, gang_devices, with_devices
from webhook.placing.gang.gang_search import GangSearch, GatedGang, assembled_gang, named, search_gang, why_too_few
from webhook.placing.gang.gated_gang import Assumed, GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.gang.release import Release
from webhook.placing.gang.shard_room import ACROSS_SHARDS, needs_several_shards, shard_with_room
from webhook.placing.gang.workload_judgement import WorkloadAssignment
from webhook.placing.move_plan import MovePlan, plan_moves
from webhook.placing.node_holdings import Holdings
from webhook.placing.pod.assignment import (
    Assignment,
    NoAssignment,
    find_assignment,
    why_awaited,
    why_unassigned,
    without,
)
from webhook.placing.pod.claim_alignment import Claimant
from webhook.placing.pod.default_level import DefaultLevels
from webhook.placing.pod.equal_pods import EqualPods
from webhook.placing.pod.gated_pods import GatedPod, group_basis
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.preemption.beside import has_room_beside
from webhook.placing.preemption.holds import PAUSED
from webhook.placing.preemption.search import Found, PreemptionSearch
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import Unit, WaitingUnit, name_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import TENTATIVE_SECONDS
from webhook.state.kubelet_admission import allocation_certainty, of_pod
from webhook.state.rules import Asking, Rules
from webhook.state.shards import shard_text
from webhook.steps import result_of

# The highest weight of a preferred term. Source: kubernetes pkg/apis/core/validation.
_MOST_WEIGHT: Final = 100
# A ComputeDomain is in one clique if that has room, and each term costs a comparison.
_CLIQUES: Final = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on time and concurrency. The defaults are those of a command, which writes nothing."""

    assume_ttl: float = 0.0
    """Seconds after which a write that was not seen never will be."""
    concurrency: int = 1
    """Concurrent writes to pods."""
    ungate_after: float = 0.0
    """Seconds after which a pod is ungated without an assignment; 0: never."""
    reserve_after: float = 0.0
    """Seconds after which a domain is reserved for a waiting gang; 0: never."""
    preempts: bool = False
    """Whether lower-priority pods may be preempted for those that wait."""
    asking: Asking = field(default_factory=Asking)
    """How a cluster autoscaler is asked for nodes for those that wait for room."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where the time comes from. The defaults are those of a command: no time passes."""

    monotonic: Callable[[], float] = float
    """Seconds, monotonic."""
    now: Callable[[], float] = float
    """Seconds since the epoch."""


@dataclass(slots=True)
class Cycle:
    """What one cycle remembers. The next one starts with nothing but the failed attempts (see `fair_order`)."""

    version: Hashable
    """The version of the nodes' snapshot when the cycle began."""
    changes: int
    """The number of changes in the cluster until the cycle began."""
    reserved_nodes: frozenset[str] = frozenset()
    """Nodes reserved for gangs that have waited long: later units get nothing there."""
    reserving: dict[str, str] = field(default_factory=dict)
    """Namespace -> its gang that has nodes reserved. One of each: a tenant cannot close the cluster to the others by
    creating gangs (and EASY backfilling, too, reserves for the first of a queue alone).
    """
    unassigned: dict[Hashable, Decision | NoAssignment] = field(default_factory=dict)
    """Request signature -> why no pod of it was assigned: no other one is tried."""

    def basis_of(self, unit: Unit) -> Hashable:
        """What the result depends on. For gangs and claims that is more than nodes and assumed pods: all changes."""
        if isinstance(unit, GatedGang) or unit.claims is not None:
            return self.changes
        return self.version, self.reserved_nodes

    def may_reserve(self, gang: GatedGang) -> bool:
        """Whether no other gang of its namespace has nodes reserved."""
        return self.reserving.get(gang.namespace, gang.membership.group) == gang.membership.group

    def reserve(self, gang: GatedGang, nodes: Iterable[str]) -> None:
        """Keep later units off the nodes that are reserved for a gang."""
        nodes = frozenset(nodes)
        if nodes and self.may_reserve(gang):
            self.reserving[gang.namespace] = gang.membership.group
            self.reserved_nodes |= nodes


@dataclass(frozen=True, slots=True)
class Waits:
    """A pod that gets no node now."""

    pod: GatedPod
    result: Decision | NoAssignment
    of_gang: bool = False
    """Whether the result is that of its whole gang."""
    released: Release | None = None
    """Where it waits without our gate; None: it stays gated."""

    @property
    def kind(self) -> frozenset[Hashable]:
        """The kinds of reasons. While they stay the same, there is nothing new to report."""
        return self.result.kind if isinstance(self.result, NoAssignment) else frozenset(self.result.excluded)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of an attempt to place a pod or a gang. The default: it was not tried, and nothing changes."""

    assumed: tuple[Assumed, ...] = ()
    """The pods that were assumed, with their assignments, which are to be written."""
    waits: tuple[Waits, ...] = ()
    """The pods that get no node now."""
    is_decided: bool = False
    """Whether it cost a decision."""
    examined: GatedGang | None = None
    """The gang, if it was examined."""
    why: str = ""
    """Why its members wait; empty if they do not."""


def _never(_: object) -> bool:
    return False


class Planner:
    """Plans for one cluster. wake_in: called with the seconds after which a plan changes by itself."""

    def __init__(
        self,
        state: ClusterCache,
        rules: Rules,
        limits: Limits = Limits(),
        clocks: Clocks = Clocks(),
        wake_in: Callable[[float], object] = float,
    ) -> None:
        self.state: Final = state
        self.rules: Final = rules
        self.trees: Final = TopologyTrees()
        self.preemptors = WaitingPreemptors(state, clocks.monotonic, is_enabled=limits.preempts)
        """The pods and gangs that may preempt, and the places that are held for some of them."""
        self.lacking_room = LackingRoom(self.preemptors, asks=limits.asking.is_enabled)
        """The pods and gangs that fit nowhere now, and what a cluster autoscaler is asked for them."""
        self.preemption = PreemptionSearch(state, rules, self.trees, self.preemptors.unshown)
        """Whose end lets a unit start."""
        self.scale_up = ScaleUpAnswers(state, rules, limits.asking, state.current_time)
        """Whether new nodes would help a unit."""
        self._asking = limits.asking
        self._assume_ttl = limits.assume_ttl
        self._clocks = clocks
        self._held: tuple[Hashable, Holdings] | None = None
        self._failed = FailedAttempts()
        self._changes = 0
        self._in_domains: dict[str, dict[str, str]] = {}
        """ComputeDomain -> its assumed pods by namespace/name, with their nodes."""
        kept = KeptDomains(state, limits.reserve_after, wake_in, clocks.monotonic, clocks.now)
        self._equal_pods = EqualPods(state, rules.engine)
        self._gangs = GangAssigner(state, self._assume, rules, kept)

    # The leader's cycles.

    def began_term(self) -> None:
        """We lead now: what failed is tried again."""
        self.lacking_room.ended_term()  # a cycle of the last term may have filled it again
        self._failed.begin(())

    def ended_term(self) -> None:
        """We no longer lead."""
        self.lacking_room.ended_term()

    def changed(self) -> None:
        """Something changed, so that what failed may fit."""
        self._changes += 1
        self.preemptors.changed()

    def begin(self) -> Cycle:
        """Begin a cycle with the cluster as it is."""
        self._equal_pods.begin()
        return Cycle(self.state.snapshot().nodes.version, self._changes)

    def collected(self, units: Iterable[Unit]) -> None:
        """These units wait in this cycle: forget all others."""
        units = tuple(units)
        self._gangs.keep({unit.membership.group for unit in units if isinstance(unit, GatedGang)})
        self.lacking_room.collected(units, self._clocks.monotonic())
        self._failed.begin(units)
        still = (
            (domain, {key: node for key, node in pods.items() if self.state.assumed_node(key) == node})
            for domain, pods in self._in_domains.items()
        )
        self._in_domains = {domain: pods for domain, pods in still if pods}

    def by_namespace(self, units: list[Unit]) -> list[Unit]:
        """Units that this cycle has had no time for, in the order in which their namespaces take turns."""
        return self._failed.by_namespace(units)

    def known(self, gated: GatedPod, cycle: Cycle) -> Decision | NoAssignment | None:
        """The result for pods of this signature in this cycle; None if an attempt would cost a decision.

        One of an earlier cycle has no text (its reason is PENDING): it counts only if it was reported of this pod.
        """
        known = cycle.unassigned.get(self._result_key(gated))
        if known is not None:
            return known
        failed = self._failed.of(gated)
        if failed is None or failed.basis != (cycle.basis_of(gated), self.preemptors.closed_to(gated)):
            return None
        return NoAssignment(failed.kind, "", WaitReason.PENDING)

    def attempt_pod(self, gated: GatedPod, cycle: Cycle, known: Decision | NoAssignment | None = None) -> Attempt:
        """Assume the pod where it fits best. known: its result, if there is nothing to decide."""
        if known is not None:
            self._note(gated, known, cycle)
            return Attempt(waits=(Waits(gated, known),))
        if self.state.gated_pods().get(gated.key) is not gated.raw:
            return Attempt()  # its change leads to another cycle
        closed = self.preemptors.closed_to(gated)
        # Claims depend on more than the nodes.
        key = None if gated.claims else (result_name(gated), gated.preferred, closed)
        if key and (shared := self._equal_pods.decision(gated, key, self._basis(cycle))) is not None:
            found = find_assignment(shared.snapshot, gated, self.rules, self.state.assigned, self._is_certain, shared)
            if isinstance(found, Assignment):
                return self._placed(gated, found, shared, key, cycle)
        # Not the basis at the cycle's start: reservations of this cycle may end before the next one, which would then
        # see the same version.
        snapshot = self.state.snapshot().nodes
        now = (snapshot.version, cycle.reserved_nodes) if gated.claims is None else cycle.basis_of(gated)
        basis = now, closed
        closed_to_it = cycle.reserved_nodes | closed
        decision, found = self._find(without(snapshot, closed_to_it), gated)
        if not isinstance(found, Assignment) and (others := self.state.shards.closed()):
            # What it waits for is what all shards lack.
            found = self._elsewhere(self._find(without(snapshot, closed_to_it - others), gated)[1])
        if isinstance(found, Assignment):
            return self._placed(gated, found, decision, key, cycle)
        cycle.unassigned[self._result_key(gated)] = found
        self._note(gated, found, cycle)
        failed = Waits(gated, found)
        if isinstance(found, NoAssignment) and (found.awaits_node or found.fits_in is not None):
            self.lacking_room.forget(name_of(gated))  # if it cannot be ungated now, the next cycle checks it again
        else:
            self._failed.record(gated, basis, failed.kind)
        return Attempt(waits=(failed,), is_decided=True)

    def _placed(self, gated: GatedPod, found: Assignment, decision: Decision, key: Hashable, cycle: Cycle) -> Attempt:
        """Assume the pod. key: equal for equal pods."""
        self.lacking_room.forget(name_of(gated))
        self.preemptors.placed(gated, (found.allocation.node,))
        assumed_pod = self._assume(gated, found)
        self._equal_pods.assumed(key, self._basis(cycle), decision, found.allocation.node)
        return Attempt(((gated, found, assumed_pod),), is_decided=True)

    def _basis(self, cycle: Cycle) -> Hashable:
        """What the decisions on equal pods depend on."""
        return self._changes, self.state.reservations_version, cycle.reserved_nodes

    def _find(self, nodes: Snapshot, gated: GatedPod) -> tuple[Decision, Assignment | Decision | NoAssignment]:
        decision = decide(nodes, gated.pod, gated.intent, self.rules.engine)
        return decision, find_assignment(nodes, gated, self.rules, self.state.assigned, self._is_certain, decision)

    def _elsewhere(self, found: Decision | Assignment | NoAssignment) -> Decision | NoAssignment:
        """The result of a pod that gets no node of ours. found: where it would go with the nodes of other leaders."""
        if not isinstance(found, Assignment):
            return found
        shard = self.state.shards.of(found.allocation.node)
        if shard in self.state.shards.worked_on:
            text = f"it fits on {found.allocation.node}, whose shard has changed: what was placed there must show first"
            return NoAssignment(frozenset({WaitReason.SHARD}), waits(text), WaitReason.SHARD)
        text = f"there is room in {shard_text(shard)} only, where it is placed next"
        return NoAssignment(frozenset({WaitReason.SHARD, shard}), waits(text), WaitReason.SHARD, fits_in=shard)

    def _shard_with_room(
        self, gang: GatedGang, agreed: Agreement, closed: frozenset[str], found: NoAssignment
    ) -> NoAssignment:
        """The result of a gang that does not fit in our shards, with the shard of another leader that holds it."""
        shards, fits = self.state.shards, self._fits(gang, agreed.minimum, agreed.assigned_members)
        nodes = without(self.state.snapshot().nodes, closed - shards.closed())
        if not fits(nodes):
            return found
        shard = shard_with_room(shards, nodes, name_of(gang), fits, but=shards.worked_on)
        if shard is not None:
            text = f"there is room in {shard_text(shard)} only, where the gang is placed next"
            return NoAssignment(frozenset({WaitReason.SHARD, shard}), waits(text), WaitReason.SHARD, fits_in=shard)
        text = f"{found.text.removeprefix(waits(''))}; {ACROSS_SHARDS}"
        return replace(found, kind=found.kind | {WaitReason.SHARD}, text=waits(text), reason=WaitReason.SHARD)

    def _fits(
        self, gang: GatedGang, minimum: int, assigned_members: Mapping[str, AssignedMember]
    ) -> Callable[[Snapshot], bool]:
        cluster = self.state.snapshot()

        def fits(nodes: Snapshot) -> bool:
            there = replace(cluster, nodes=nodes)
            found = search_gang(gang, minimum, assigned_members, there, self.trees, self.rules)
            return isinstance(found, GangSearch) and found.placement.assigned

        return fits

    def _is_certain(self, gated: GatedPod, node: str, numa_nodes: NUMANodeAmounts) -> bool:
        """Whether the node's kubelet certainly chooses these NUMA nodes for the pod."""
        admission = self.state.kubelet_admission(node, gated.key)
        if admission is None:
            return False
        pod = replace(gated.pod, requests=gated.requests_beside_claims)
        exact = self.rules.engine.fidelity == "Kubelet"
        return allocation_certainty(admission, of_pod(pod, gated.intent), numa_nodes, exact=exact).sure

    def _note(self, gated: GatedPod, found: Decision | NoAssignment, cycle: Cycle) -> None:
        """Let the pod preempt, or an autoscaler be asked, if it lacks room."""
        if isinstance(found, Decision) or found.of_one:
            self.lacking_room.unfit(WaitingUnit(gated, reserved=cycle.reserved_nodes))
        elif found.reason != WaitReason.PENDING:
            self.lacking_room.forget(name_of(gated))
            if found.fits_on:
                self.preemptors.fits_on(gated, found.fits_on)

    def _result_key(self, gated: GatedPod) -> Hashable:
        """Equal for pods with the same result in one cycle."""
        closed, name = self.preemptors.closed_to(gated), result_name(gated)
        return (name, closed) if closed else name

    def gang_is_known(self, gang: GatedGang, cycle: Cycle) -> bool:
        """Whether an attempt would cost no decision. What is reserved for a gang that has to wait stays reserved."""
        failed = self._failed.of(gang)
        if failed is not None:
            cycle.reserve(gang, failed.reserved_nodes)
        return failed is not None and failed.basis == cycle.basis_of(gang)

    async def attempt_gang(
        self,
        gang: GatedGang,
        waiting: Collection[GatedPod],
        cycle: Cycle,
        pause: Callable[[], Awaitable[None]],
        looks_elsewhere: Callable[[GatedGang], bool] = _never,
    ) -> Attempt:
        """Assume the gang's members that are waiting, or none of them. pause: lets other tasks run.

        looks_elsewhere: whether the shards of other leaders are searched if it does not fit in ours.
        """
        failed, gated = self._failed.of(gang), self.state.gated_pods()
        has_changed = any(gated.get(one.key) is not one.raw for one in waiting)
        if failed is not None and (has_changed or failed.basis == cycle.basis_of(gang)):
            cycle.reserve(gang, failed.reserved_nodes)
            return Attempt()
        if has_changed:
            return Attempt()  # which leads to another cycle
        agreed = self.agreed(gang)
        apart = tuple(Waits(one, why) for one in waiting if (why := agreed.disagreeing.get(one.key)) is not None)
        keys = {one.key for one in waiting}
        together = replace(agreed.gang, members=tuple(one for one in agreed.gang.members if one.key in keys))
        if not together.members:
            self.lacking_room.forget(name_of(gang))
            apart = self._released(apart, gang, agreed)
            if gang.membership.of_object and agreed.disagreeing:
                # Its status reports this; other gangs have none but their pods'.
                return Attempt(waits=apart, examined=gang, why=next(iter(agreed.disagreeing.values())).text)
            return Attempt(waits=apart)
        if self._may_get_a_pod_group(together):
            return Attempt(waits=apart)
        reserved = cycle.reserved_nodes
        found = await self._gangs.assign(
            self._joining(together),
            agreed.minimum,
            agreed.assigned_members,
            reserved | self.preemptors.closed_to(gang),
            pause,
            may_reserve=cycle.may_reserve(gang),
        )
        if not isinstance(found, NoAssignment):
            self.lacking_room.forget(name_of(gang))
            self.preemptors.placed(together, (assignment.allocation.node for _, assignment, _ in found))
            return Attempt(tuple(found), apart, is_decided=True, examined=together)
        if found.reason == WaitReason.GANG_DOES_NOT_FIT and self.state.shards.closed() and looks_elsewhere(gang):
            found = self._shard_with_room(together, agreed, reserved | self.preemptors.closed_to(gang), found)
        left = tuple(Waits(one, found, of_gang=True) for one in together.members)
        released = self._released((*apart, *left), gang, agreed)
        if any(one.released is not None for one in released):
            self.lacking_room.forget(name_of(gang))
            return Attempt(waits=released, is_decided=True, examined=together)
        if found.fits_in is None:
            self._failed.record(together, cycle.basis_of(together), found.kind, found.reserved_nodes)
        cycle.reserve(together, found.reserved_nodes)
        if found.reason == WaitReason.GANG_DOES_NOT_FIT:
            self.lacking_room.unfit(WaitingUnit(together, agreed.minimum, agreed.assigned_members, reserved))
        else:
            self.lacking_room.forget(name_of(gang))
        told = self.preempting(together.members[0].key) or found
        return Attempt(waits=apart + left, is_decided=True, examined=together, why=told.text)

    def _released(self, waits: tuple[Waits, ...], gang: GatedGang, agreed: Agreement) -> tuple[Waits, ...]:
        """The members that get no node, released if they would hold up others: these are ungated and not bound.

        The scheduler tries all of them together, and the binding guard refuses the nodes that cannot take them.
        """
        if not waits or not self.state.is_gated_as_a_whole(gang.membership):
            return waits
        placed = [
            (node, one.pod.requests) for one in gang.members if (node := self.state.assumed_node(one.key)) is not None
        ]
        ungated = self._ungated_members(gang)
        if not placed and not ungated:
            return waits
        for key, raw in ungated.items():
            if (member := self.state.gangs.member(key)) is not None:
                placed.append((member.node, PodAmounts.of(raw["spec"], raw.get("status") or {}).requests))
        members = agreed.gang.members or tuple(one.by_its_group for one in gang.members)
        whole = replace(gang, members=members)
        found = assembled_gang(whole, agreed.minimum, agreed.assigned_members, self.state.snapshot(), self.trees)
        within = None if found is None else found[0].within
        domain = {} if found is None or within is None else dict(found[1].path(within))
        return tuple(replace(one, released=Release.of(one.pod.pod.requests, domain, placed)) for one in waits)

    def _ungated_members(self, gang: GatedGang) -> Mapping[str, Raw]:
        """The members without a gate and without a node, by namespace/name."""
        namespace, group = f"{gang.namespace}/", gang.membership.group
        return {
            key: raw
            for key, raw in self.state.ungated_pods().items()
            if key.startswith(namespace) and native_group(gang.namespace, scheduling_group_of(raw)) == group
        }

    def keep_reserved(self, gang: GatedGang, cycle: Cycle) -> None:
        """Keep what was reserved for a gang that is not tried now, unless all its waiting members are assumed."""
        failed = self._failed.of(gang)
        if failed is not None and any(self.state.assumed_node(one.key) is None for one in gang.members):
            cycle.reserve(gang, failed.reserved_nodes)

    def _may_get_a_pod_group(self, gang: GatedGang) -> bool:
        """Whether the gang is so new that the PodGroup which its pods name may be on its way."""
        first = gang.members[0]
        defined = gang.membership.of_object or first.in_group_of_its_top
        name = None if defined else first.pod.annotations.get(POD_GROUP_NAME)
        return bool(name) and gang.pod_group is None and self.state.kai_groups.may_come(f"{first.pod.namespace}/{name}")

    def _assume(self, gated: GatedPod, assignment: Assignment) -> AssumedPod:
        """Reserve the assignment for the pod."""
        lasts = self._assume_ttl if assignment.nodes is None else min(self._assume_ttl, TENTATIVE_SECONDS)
        assumed_pod = assignment.assume(gated, self._clocks.monotonic() + lasts)
        self.state.assume(assumed_pod)
        if domain := gated.default.compute_domain:
            self._in_domains.setdefault(domain, {})[gated.key] = assumed_pod.node
        if assignment.devices:
            allocations = {one.claim.key: one.assumed for one in assignment.devices}
            self.state.devices.assume_claims(gated.pod.uid, allocations)
        return assumed_pod

    def has_room_beside(self, preemptor: WaitingUnit) -> bool:
        """Whether it will have room beside others once their victims are gone; notes that in their hold."""
        return has_room_beside(preemptor, self.state, self.preemptors, self.rules)

    # What is reported of a pod that waits.

    def preempting(self, key: str) -> NoAssignment | None:
        """What the pod namespace/name waits for while nodes are reserved for it, or would be; None if none is."""
        holds = self.preemptors.holds
        hold = holds.of_member(key)
        if hold is None and (room := holds.beside(key)) is not None:
            text = f"lower-priority pods on node {room.node} are preempted for another pod, which makes room for both"
            return NoAssignment(
                frozenset({WaitReason.PREEMPTING, "beside", room.node}), waits(text), WaitReason.PREEMPTING
            )
        if hold is None:
            if not self.preemptors.is_paused(key):
                return None
            return NoAssignment(frozenset({WaitReason.PREEMPTING, "paused"}), waits(PAUSED), WaitReason.PREEMPTING)
        return NoAssignment(
            frozenset({WaitReason.PREEMPTING, hold.phase, len(hold.victims)}), waits(hold.text), WaitReason.PREEMPTING
        )

    def kind(self, key: str, kind: frozenset[Hashable]) -> frozenset[Hashable]:
        """The kinds of reasons of the pod namespace/name, with what is done about it since."""
        preempting = self.preempting(key)
        return self.lacking_room.kind(key, kind if preempting is None else preempting.kind)

    def why(self, waiting: Waits, cycle: Cycle) -> NoAssignment:
        """The result in words, with what is done about it; made once for all pods of a signature."""
        gated = waiting.pod
        why = self.preempting(gated.key) or waiting.result
        if isinstance(why, Decision):
            why = why_unassigned(why, gated, self.rules, len(cycle.reserved_nodes))
            cycle.unassigned[self._result_key(gated)] = why
        return self.lacking_room.told(gated.key, why)

    # Questions about a cluster as it is: nothing is assumed, and what the leader holds for others is not known.

    def read(self, raw: Mapping[str, Any], owner_chain: OwnerChain | None) -> GatedPod:
        """A gated pod with what it takes from its owners and its PodGroup. Raises UserError."""
        snapshot = self.state.snapshot()
        basis = group_basis(raw, snapshot)
        kueue, defaults = self.rules.kueue_annotations, DefaultLevels.of(snapshot)
        gated = GatedPod.from_object(raw, owner_chain, basis, reads_kueue=kueue, defaults=defaults)
        return gated.avoiding(snapshot.avoided).claiming(snapshot.devices)

    def place(self, gated: GatedPod, nodes: Snapshot | None = None) -> Assignment | NoAssignment:
        """Where the pod would go by itself, or why it would wait.

        nodes: others than those of now; no pod waits to be bound there.
        """
        if gated.awaited_claim:
            return why_awaited(gated)
        if nodes is None:
            now, assigned = self.state.snapshot().nodes, self.state.assigned
            found = find_assignment(now, gated, self.rules, assigned, self._is_certain)
        else:
            found = find_assignment(nodes, gated, self.rules, lambda _: ())
        return why_unassigned(found, gated, self.rules, 0) if isinstance(found, Decision) else found

    def unit(self, unit: Unit) -> WaitingUnit | None:
        """The pod, or the gang with those members that are placed together; None if there are none."""
        if isinstance(unit, GatedPod):
            return WaitingUnit(unit)
        agreed = self.agreed(unit)
        return WaitingUnit(agreed.gang, agreed.minimum, agreed.assigned_members) if agreed.gang.members else None

    def search(self, gang: WaitingUnit, closed: Collection[str] = ()) -> GangSearch | NoAssignment:
        """Where the gang's members would go together, or what is missing. gang: one whose members agree.

        closed: nodes to leave out.
        """
        assert isinstance(gang.unit, GatedGang)  # noqa: S101
        if too_few := self.too_few(gang):
            return too_few
        snapshot, joining = self.state.snapshot(), self._joining(gang.unit)
        snapshot = replace(snapshot, nodes=without(snapshot.nodes, closed))
        return search_gang(joining, gang.minimum, gang.assigned, snapshot, self.trees, self.rules)

    def _joining(self, gang: GatedGang) -> GatedGang:
        """The gang, whose members prefer the NVLink cliques in which other pods of their ComputeDomains are."""
        domains = {domain for one in gang.members if (domain := one.default.compute_domain)}
        label = self.state.snapshot().clique_label if domains else ""
        if not label:
            return gang
        cliques = {domain: self._cliques(domain, label) for domain in domains}
        return replace(
            gang, members=tuple(one.preferring(cliques.get(one.default.compute_domain, ())) for one in gang.members)
        )

    def _cliques(self, domain: str, label: str) -> tuple[PreferredTerm, ...]:
        """A preferred term for each of the cliques with most pods of a ComputeDomain, weighed by their number."""
        shown = {key: member.node for key, member in self.state.gangs.with_template(domain).items()}
        nodes = {**self._in_domains.get(domain, {}), **shown}.values()
        found = (self.state.state.nodes.get(node) for node in nodes)
        counts = Counter(value for node in found if node is not None and (value := node.labels.get(label)))
        most = max(counts.values(), default=0)
        # In order of name if equal: the order of events says nothing.
        first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_CLIQUES]
        return tuple(
            PreferredTerm(
                max(1, _MOST_WEIGHT * count // most),
                {"matchExpressions": ({"key": label, "operator": "In", "values": (value,)},)},
            )
            for value, count in first
        )

    def placement(self, gang: WaitingUnit, running: Mapping[str, str]) -> WorkloadAssignment | NoAssignment:
        """The same in the words of `review`; if the members do not fit, also whether they ever could.

        running: pod name -> node, of the members that have one.
        """
        assert isinstance(gang.unit, GatedGang)  # noqa: S101
        unit, claimants = gang.unit, {one.pod.name: Claimant.of(one) for one in gang.unit.members}
        if awaiting := next((one for one in unit.members if one.awaited_claim), None):
            return why_awaited(awaiting)

        def search(closed: frozenset[str]) -> tuple[GangSearch | NoAssignment, GangDevices | None]:
            found = self.search(gang, closed)
            if isinstance(found, NoAssignment) or not found.placement.assigned:
                return found, None
            pods = sorted(found.placement.pods(), key=lambda pod: (pod.rank, pod.name))
            members = [(pod, claimants[pod.name]) for pod in pods]
            return found, gang_devices(named(unit), members, found.placement.snapshot.node_arrays)

        found, devices = with_devices(search)
        if isinstance(found, NoAssignment):
            return found
        name = gang.shown_name
        if devices is not None:
            shards, nodes = self.state.shards, self.state.snapshot().nodes
            fits = self._fits(unit, gang.minimum, gang.assigned)
            is_too_large = needs_several_shards(shards, nodes, found.placement, fits)
            return devices.apart or WorkloadAssignment(
                name, (found.placement,), running, devices=devices.note, needs_several_shards=is_too_large
            )
        strategy, assembled = self.rules.engine.gang_strategy, found.assembled
        place = found.placement.snapshot, found.placement.tree, assembled.gang, assembled.within, strategy
        return WorkloadAssignment(name, (found.placement,), running, when_empty=(assign_when_empty(*place),))

    def lacks_room_in_its_domain(self, gang: GatedGang) -> bool:
        """Whether a gang that has begun waits because there is no room beside its running members."""
        unit = self.unit(gang)
        if unit is None or not unit.assigned:
            return False
        found = self.search(unit)
        if not isinstance(found, GangSearch) or found.placement.assigned:
            return False
        return found.assembled.within is not None

    def place_whole(self, gang: GatedGang, running: Mapping[str, str]) -> GangAssignment | None:
        """Where the gang's members would all go together once those that run have ended; None if no domain holds them.

        gang: with the members that run; running: their nodes, by namespace/name.
        """
        snapshot = self.state.snapshot()
        agreed = agree(gang, {}, snapshot.topologies, snapshot.user_groups)
        if len(agreed.gang.members) < len(gang.members):
            return None
        names = [name for one in gang.members for name in named_resources(one.pod)]
        ended: dict[str, list[str]] = {}
        for key, node in running.items():
            ended.setdefault(node, []).append(key)
        nodes = FreedCluster(snapshot.nodes, names, Holdings(self.state).on).without(ended)
        freed, size = replace(snapshot, nodes=nodes), len(gang.members)
        found = search_gang(agreed.gang, size, {}, freed, self.trees, self.rules)
        if not isinstance(found, GangSearch) or not found.placement.assigned:
            return None
        return found.placement if len(list(found.placement.pods())) == size else None

    def too_few(self, unit: WaitingUnit) -> NoAssignment | None:
        """Why a gang waits for more members; None if enough exist, and for a pod."""
        return why_too_few(unit.unit, unit.minimum, unit.assigned) if isinstance(unit.unit, GatedGang) else None

    def frees(self, gated: GatedPod) -> SmallestSet | NoSet:
        """The fewest pods whose end would let the pod run, whatever their priority."""
        nodes, holdings = self.state.snapshot().nodes, self._holdings()
        options = self.rules.engine
        return smallest_set(nodes, gated.pod, gated.intent, options, holdings.on, holdings.requests_on)

    def victims(self, unit: WaitingUnit) -> Found | None:
        """The lower-priority pods that would be preempted for it; None if its gang lacks members."""
        return None if self.too_few(unit) else result_of(self.preemption.run(unit))

    def asked_for(self, unit: WaitingUnit) -> ScaleUp | None:
        """What an autoscaler would be asked for it; None if none is, or if its gang lacks members."""
        if not self._asking.is_enabled or self.too_few(unit):
            return None
        now = self._clocks.monotonic()
        self.scale_up.refresh(now)
        found = result_of(self.scale_up.find(unit, now))
        gang, class_name = whole_gang(unit), self._asking.provisioning_class
        if gang is None or not class_name or not found.is_asked:
            return found
        pod_sets = result_of(pod_sets_of(gang, unit.minimum, class_name))
        if why := why_no_request(gang, pod_sets):
            return ScaleUp(is_asked=False, text=why)
        return ScaleUp(is_asked=True, text=request_text(class_name, found.text, pod_sets.count))

    def moves(self, raws: Iterable[Mapping[str, Any]], units: Sequence[WaitingUnit]) -> MovePlan:
        """The fewest running pods to move for each unit. raws: the objects of the pods with a node."""
        return plan_moves(self.state, self.rules, raws, units, self.search)

    def _holdings(self) -> Holdings:
        """What the pods of each node hold, read once for all questions about one snapshot."""
        version = self.state.snapshot().nodes.version
        if self._held is None or self._held[0] != version:
            self._held = version, Holdings(self.state)
        return self._held[1]

    # Gangs.

    def agreed(self, gang: GatedGang) -> Agreement:
        """What the gang's members agree on; those that are assigned already count, but are not placed again."""
        left = replace(gang, members=tuple(one for one in gang.members if not self.state.assumed_node(one.key)))
        snapshot = self.state.snapshot()
        return agree(left, self.assigned_members(gang), snapshot.topologies, snapshot.user_groups)

    def assigned_members(self, gang: GatedGang) -> Mapping[str, AssignedMember]:
        """The members that are assigned or assumed, by namespace/name.

        Those that were released hold the others to their domain, so they are among them, without a node.
        """
        released: Mapping[str, AssignedMember] = {}
        if self.state.is_gated_as_a_whole(gang.membership):
            released = {
                key: AssignedMember.of(raw, "", gang.membership) for key, raw in self._ungated_members(gang).items()
            }
        assumed = {
            one.key: AssignedMember(
                node,
                None,
                wishes_of(one.pod.annotations),
                assigned=True,
                subgroup=subgroup_of(one.pod.labels, one.pod.annotations),
            )
            for one in gang.members
            if (node := self.state.assumed_node(one.key)) is not None
        }
        # A pod that was bound while no replica answered counts with the request that the others take from the same
        # owner.
        of_owners = {one.owner.uid: one for one in gang.members if one.owner is not None and one.in_group_of_its_top}
        unasked = {
            key: replace(member, wishes=wishes_of(one.pod.annotations))
            for uid, one in of_owners.items()
            for key, member in self.state.gangs.unasked(controllers_group(one.pod.namespace, uid)).items()
        }
        return {**released, **unasked, **assumed, **self.state.gangs.assigned(gang.membership.group)}
