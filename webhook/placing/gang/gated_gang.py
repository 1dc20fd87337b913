"""Assigns a gang of gated pods: all that must start together at once, or none.

1. The gang waits until as many members exist as must start together, including those that are assigned already. The
   members were agreed on before (see `gang_agreement`).
2. They are assembled into the engine's terms (see `pod_sets`). Assigned members hold the others to their domain; if
   that domain is unknown, the others wait.
3. The engine finds a domain, nodes and NUMA nodes. If it finds none with the small pod sets counted first, it is asked
   again with the large ones first: if these reach the minimum alone, one member that fits nowhere blocks no others. In
   a gang that owners define every pod set counts, so this is not tried.
4. Member by member, in order of rank, the node is asked for the exact amounts (`ExactAllocations`) and for devices near
   them (`claim_alignment`), and the member is assumed. If one of them does not fit after all, the others are forgotten.
   If only its devices are near other NUMA nodes, the gang is tried again without that node, `MOST_SEARCHES` at most.
5. If the gang waits for room and has waited long, a domain is reserved for it (see `kept_domain`).
"""

import json
from collections.abc import Awaitable, Callable, Collection, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from webhook.engine.dra.aligned_devices import Place
from webhook.engine.enforcement import not_enforced
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment, PodAssignment
from webhook.engine.gang.unmet_levels import missed_levels
from webhook.engine.koordinator import is_ours_to_place
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.avoided_node import rejections_text, used_again_text
from webhook.formats.kubernetes.domain_label import labels_of_member
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.user_pod_group import subgroup_of
from webhook.model.names import DOMAIN, KAI_TOPOLOGY, RANK
from webhook.model.options import GangStrategy
from webhook.model.wording import counted
from webhook.placing.gang.gang_devices import MOST_SEARCHES, devices_apart
from webhook.placing.gang.gang_search import GangSearch, GatedGang, named, search_gang, why_too_few
from webhook.placing.gang.gang_text import gang_domains_text, missed_text, never_held, not_found_text, spoken_path
from webhook.placing.gang.kept_domain import NOTHING, KeptDomains
from webhook.placing.pod import placement_text
from webhook.placing.pod.assignment import Assignment, NoAssignment, assigned_node, without
from webhook.placing.pod.claim_alignment import Aligned, Claimant, DevicesApart, align_there
from webhook.placing.pod.equal_pods import NodeDecisions
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.node_names import NodeNames
from webhook.placing.pod.not_aligned import NotAligned, not_aligned_on
from webhook.placing.pod.wait_reason import WaitReason
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class _Answer:
    tree: TopologyTree
    gang: Gang
    basis: Hashable
    text: str


class GangSchedulability:
    """Whether each waiting gang could ever fit, recomputed only after a change that matters.

    Pods that come and go do not matter: the answer is that of a cluster without them. It depends on the nodes, on their
    amounts of every resource that the gang requests, and on the gang.
    """

    def __init__(self, strategy: GangStrategy, assignment: Callable[..., GangAssignment] = assign_when_empty) -> None:
        self._strategy = strategy
        self._assign = assignment
        self._answers: dict[str, _Answer] = {}

    def keep(self, keys: Container[str]) -> None:
        """Forget all gangs but these, which still wait."""
        self._answers = {key: answer for key, answer in self._answers.items() if key in keys}

    def text(self, key: str, placement: GangAssignment, gang: Gang, within: Domain | None) -> str:
        """Says that the gang would not fit even if no other pod ran, and what it needs; empty if it would fit.

        key: the gang. placement: its failed placement now. within: the domain in which it has begun.
        """
        basis = _basis(placement, gang, within)
        known = self._answers.get(key)
        if known is None or known.tree is not placement.tree or known.basis != basis or known.gang != gang:
            when_empty = self._assign(placement.snapshot, placement.tree, gang, within, self._strategy)
            known = _Answer(placement.tree, gang, basis, never_held(when_empty))
            self._answers[key] = known
        return known.text


def _basis(placement: GangAssignment, gang: Gang, within: Domain | None) -> Hashable:
    """What the answer depends on besides the tree and the gang: the nodes' resources, policies and taints, as sums."""
    node_arrays = placement.snapshot.node_arrays
    rows = [node_arrays.resources.find(name) for podset in gang.all_sets() for name in named_resources(podset.pod)]
    amounts = [
        (int(node_arrays.allocatable[row].sum()), int(node_arrays.zone_allocatable[row].sum()))
        for row in {*rows}
        if row >= 0
    ]
    return within, node_arrays.n, tuple(amounts), int(node_arrays.kind.sum()), int(node_arrays.taint_set.sum())


Exact = tuple[NUMAAllocation, NotAligned | None]
"""The allocation, and what the kubelet does not align of the pod."""


class ExactAllocations:
    """The exact amounts of a gang's members on their nodes, each with the members before it subtracted."""

    def __init__(self, cache: ClusterCache, rules: Rules) -> None:
        self._decisions = NodeDecisions(cache, rules.engine)

    def of(self, gated: GatedPod, pod: PodAssignment) -> Exact | None:
        """The allocation of a member; None if its node does not take it beside the others.

        Where we choose the NUMA nodes, only those of the assignment are used: others may be another member's.
        """
        decision = self._decisions.of(gated, pod.node, tuple(pod.numa_nodes))
        if decision is None or not decision.fits[0]:
            return None
        allocation = NUMAAllocation(pod.node, decision.allocation(0), reviewed=False)
        return allocation, not_aligned_on(decision, 0, gated.intent)


# The exact amounts of a member take a millisecond or two; after this many members, reviews may run.
_TURN: Final = 8


Assumed = tuple[GatedPod, Assignment, AssumedPod]
Assume = Callable[[GatedPod, Assignment], AssumedPod]
Pause = Callable[[], Awaitable[None]]


class GangAssigner:
    """Finds the assignments of gangs and assumes their pods. assume: reserves what a member is assigned."""

    def __init__(self, cache: ClusterCache, assume: Assume, rules: Rules, kept: KeptDomains) -> None:
        self._cache = cache
        self._kept = kept
        self._assume_pod = assume
        self._rules = rules
        self._trees = TopologyTrees()
        self._schedulability = GangSchedulability(rules.engine.gang_strategy)

    def keep(self, groups: Container[str]) -> None:
        """Forget all gangs but these, which still wait."""
        self._schedulability.keep(groups)

    async def assign(
        self,
        gang: GatedGang,
        minimum: int,
        assigned_members: Mapping[str, AssignedMember],
        reserved_nodes: Collection[str],
        pause: Pause,
        *,
        may_reserve: bool = True,
    ) -> list[Assumed] | NoAssignment:
        """The assumed members with their assignments, or why they wait.

        assigned_members: members that have an assignment, by namespace/name; reserved_nodes: nodes that are reserved
        for other gangs; pause: lets other tasks run; may_reserve: whether its namespace has none reserved.
        """
        if too_few := why_too_few(gang, minimum, assigned_members):
            return too_few
        first: NoAssignment | None = None
        closed = set(reserved_nodes)
        for _ in range(MOST_SEARCHES):
            result = await self._attempt(gang, minimum, assigned_members, closed, pause, may_reserve=may_reserve)
            if not isinstance(result, NoAssignment):
                return result
            first = first or result
            if not result.apart_on:
                break
            closed.add(result.apart_on)
        assert first is not None  # noqa: S101 - there is at least one attempt
        return first

    async def _attempt(
        self,
        gang: GatedGang,
        minimum: int,
        assigned_members: Mapping[str, AssignedMember],
        closed: Collection[str],
        pause: Pause,
        *,
        may_reserve: bool,
    ) -> list[Assumed] | NoAssignment:
        cluster_snapshot = self._cache.snapshot()
        cluster_snapshot = replace(cluster_snapshot, nodes=without(cluster_snapshot.nodes, closed))
        found = search_gang(gang, minimum, assigned_members, cluster_snapshot, self._trees, self._rules)
        if isinstance(found, NoAssignment):
            return found
        if not found.placement.assigned:
            there = len(gang.members) + len(assigned_members)
            return self._waits(gang, found, there, may_reserve=may_reserve)
        assumed = await self._assume(gang, found.placement, pause)
        if isinstance(assumed, NoAssignment) and not assumed.apart_on:
            # Its nodes have changed meanwhile: what is left of them is reserved for it.
            kept = self._kept.of(gang, found, may_reserve=may_reserve)
            return replace(assumed, reserved_nodes=kept.nodes)
        return assumed

    def _waits(self, gang: GatedGang, found: GangSearch, there: int, *, may_reserve: bool) -> NoAssignment:
        """What is missing, and the nodes to reserve if the gang has waited long."""
        assembled, placement = found.assembled, found.placement
        why, tree, within = placement.why, placement.tree, assembled.within
        kind: frozenset[Hashable] = frozenset((short.level, short.resource) for short in why)
        begun = "" if within is None else f" its running pods limit it to {spoken_path(tree.path(within))};"
        policies = "".join(f", {policy}" for policy in _policies(gang))
        pods = counted(there, "pod")
        text = f"{named(gang)}, {pods}{policies}:{begun} {'; '.join(map(str, why))}{not_found_text(placement)}"
        if unused := _not_used(gang):
            text += f"; {unused}"
        if avoided := sorted({one for gated in gang.members for one in gated.pod.avoided}):
            kind |= {one.node for one in avoided}
            text += f"; avoided after a rejection: {rejections_text(avoided)}, {used_again_text(avoided)}"
        if never := self._schedulability.text(gang.membership.group, placement, assembled.gang, within):
            kind |= {"Never"}
            text += f"; {never}"
        kept = NOTHING if never else self._kept.of(gang, found, may_reserve=may_reserve)
        if kept.text:
            kind |= {kept.path or kept.text}
            text += f"; {kept.text}"
        return NoAssignment(kind, placement_text.waiting(text), WaitReason.GANG_DOES_NOT_FIT, reserved_nodes=kept.nodes)

    async def _assume(self, gang: GatedGang, placement: GangAssignment, pause: Pause) -> list[Assumed] | NoAssignment:
        """Assume all members, or none."""
        assumed: list[Assumed] = []
        try:
            refusal = await self._assume_each(gang, placement, pause, assumed)
        except BaseException:
            self._forget(assumed)
            raise
        if refusal is not None:
            self._forget(assumed)
        return refusal or assumed

    async def _assume_each(
        self, gang: GatedGang, placement: GangAssignment, pause: Pause, assumed: list[Assumed]
    ) -> NoAssignment | None:
        """Add members to `assumed` one by one; returns why that ended early, None if it did not."""
        by_name = {gated.pod.name: gated for gated in gang.members}
        where = gang_domains_text(placement)
        trees = {pod.name: part.tree for part in placement.by_topology() for pod in part.pods()}
        pods = sorted(placement.pods(), key=lambda pod: (pod.rank, pod.name))
        node_arrays = placement.snapshot.node_arrays
        names, exact_allocations = NodeNames(node_arrays), ExactAllocations(self._cache, self._rules)
        # Subgroups have names of pods here, which are not the names of the other members.
        missed = missed_text(replace(one, part="") for one in missed_levels(placement))
        missed = f"; {missed}" if missed else ""
        if unused := _not_used(gang):
            missed += f"; {unused}"
        for turn, pod in enumerate(pods, 1):
            gated = by_name[pod.name]
            exact = exact_allocations.of(gated, pod)
            if exact is None:
                text = f"{named(gang)}: {pod.node} does not take {pod.name} beside the others"
                return NoAssignment(frozenset({"beside"}), placement_text.waiting(text), WaitReason.GANG_DOES_NOT_FIT)
            allocation, unaligned = exact
            claimant = Claimant.of(gated)
            place = Place(pod.node, tuple(sorted(number for number, _ in allocation.numa_nodes)))
            alignment = None if claimant is None else align_there(claimant, place, node_arrays)
            if isinstance(alignment, DevicesApart):
                return devices_apart(named(gang), pod, alignment)
            placed = assigned_node(allocation, node_arrays)
            text = f"{placed}; {named(gang)}: {counted(len(pods), 'pod')} in {where}{missed}"
            extended = placement_text.served_by_slices(gated.pod, pod.node, node_arrays)
            notes = "" if alignment is None else alignment.text, extended
            text += "".join(f"; {note}" for note in notes if note)
            if gated.pod.avoided:
                text += f"; avoided after a rejection: {rejections_text(gated.pod.avoided)}"
            if gated.default.why_none:
                text += f"; {gated.default.why_none}"
            if gated.pod.unchecked:
                text += f"; {placement_text.unchecked(gated.pod)}"
            if unaligned is not None:
                text += f"; {unaligned.clause}"
            if gated.intent.policy is not None:
                request = PodRequest.of(gated.pod, gated.intent, node_arrays.resources)
                weak = not_enforced(node_arrays, request, node_arrays.index[pod.node])
                text += f"; {weak}" if weak else ""
            warns = unaligned is not None and unaligned.warns
            outputs = {RANK: str(pod.rank), **({DOMAIN: json.dumps(dict(pod.domain))} if pod.domain else {})}
            if named_there := _topology_of(gang, gated):
                outputs[KAI_TOPOLOGY] = named_there  # for those who read only the pod
            labels = labels_of_member(pod.rank, pod.domain, trees[pod.name].topology.node_labels)
            hostname = names.named(pod.node).hostname
            chosen = is_ours_to_place(node_arrays, node_arrays.index[pod.node])
            devices = alignment.devices if isinstance(alignment, Aligned) else ()
            assignment = Assignment(
                allocation, text, outputs, labels, hostname=hostname, not_aligned=warns, chosen=chosen, devices=devices
            )
            assumed.append((gated, assignment, self._assume_pod(gated, assignment)))
            if turn % _TURN == 0:
                await pause()
        return None

    def _forget(self, assumed: Iterable[Assumed]) -> None:
        for _, _, assumed_pod in assumed:
            self._cache.forget(assumed_pod)


def _topology_of(gang: GatedGang, gated: GatedPod) -> str:
    """The Topology that its PodGroup or PodGang names for a member; empty if it names none."""
    subgroup = subgroup_of(gated.pod.labels, gated.pod.annotations)
    return "" if gang.pod_group is None else gang.pod_group.topology_at(subgroup)


def _not_used(gang: GatedGang) -> str:
    """What its PodGang asks for without effect, in words; empty if there is nothing."""
    if gang.pod_group is None:
        return ""
    return gang.pod_group.not_used({str(one.raw["spec"].get("priorityClassName") or "") for one in gang.members})


def _policies(gang: GatedGang) -> list[str]:
    """The NUMA policies that its members request, or take from their owners."""
    return sorted({policy.koordinator for one in gang.members if (policy := one.intent.policy)})
