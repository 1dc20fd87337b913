"""Whether all present members of a gang, or as many as must start together, fit; nothing is assumed.

The leader searches before it assumes the members (see `gated_gang`), and `review` searches for bare pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember, Membership
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import UserPodGroup
from webhook.formats.workload.common_fields import at_most_topologies
from webhook.model.errors import UserError
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.wording import counted
from webhook.placing.gang.gang_anchor import Unknown
from webhook.placing.gang.other_topologies import Others
from webhook.placing.gang.pod_group_members import PodGroupAssembly, too_few_in
from webhook.placing.gang.pod_sets import Assembled, Assembly, topology_of
from webhook.placing.pod import placement_text
from webhook.placing.pod.assignment import NoAssignment, why_refused
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.wait_reason import WaitReason
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class GatedGang:
    """The gated members of one gang, in order."""

    membership: Membership
    members: tuple[GatedPod, ...]
    pod_group: UserPodGroup | None = None
    """The PodGroup that a user wrote for it, or its PodGang: it defines the gang, not the members' annotations."""

    @property
    def order(self) -> tuple[int, str, str]:
        """The order of its first member."""
        return self.members[0].order

    @property
    def namespace(self) -> str:
        """The namespace of its members."""
        return self.members[0].pod.namespace


@dataclass(frozen=True, slots=True)
class GangSearch:
    """A gang as it was assembled, and its placement, or what is missing."""

    assembled: Assembled
    placement: GangAssignment


def why_too_few(gang: GatedGang, minimum: int, assigned_members: Mapping[str, AssignedMember]) -> NoAssignment | None:
    """Why a gang that has not begun waits for more members; None if enough exist."""
    there = len(gang.members) + len(assigned_members)
    few = "" if gang.pod_group is None else too_few_in(gang.pod_group, gang.members)
    if assigned_members or (there >= minimum and not few):
        return None
    which = few + " pods" if few else f"{there} of the {counted(minimum, 'pod')}"
    text = f"{named(gang)}: {which} that must start together are there"
    return NoAssignment(frozenset({("members", there)}), placement_text.waiting(text), WaitReason.GANG_INCOMPLETE)


def search_gang(
    gang: GatedGang,
    minimum: int,
    assigned_members: Mapping[str, AssignedMember],
    cache: ClusterSnapshot,
    trees: TopologyTrees,
    rules: Rules,
) -> GangSearch | NoAssignment:
    """The placement of the members. assigned_members: those that have an assignment, by namespace/name."""
    snapshot = cache.nodes
    distinct = {gated.signature: gated for gated in gang.members}.values()
    if refusal := next(filter(None, (why_refused(snapshot, gated, rules) for gated in distinct)), None):
        return refusal
    # A gang that has begun does not wait for missing members: they have ended, or will never come.
    needed = max(1, min(minimum - len(assigned_members), len(gang.members)))
    try:
        topology = _topology_of(gang, cache.topologies)
        tree = trees.tree(topology, snapshot.node_arrays)
        others = Others(_others(gang, topology, cache.topologies), trees)
        assemble = _assembly(gang, topology, assigned_members, needed, others)
        assembled = assemble(snapshot, tree)
        if isinstance(assembled, Unknown):
            return NoAssignment(
                frozenset({"anchor"}),
                placement_text.waiting(f"{named(gang)}: {assembled.why}"),
                WaitReason.GANG_DOES_NOT_FIT,
            )
        placement = assign_within(snapshot, tree, assembled, rules)
        if not placement.assigned and needed < len(gang.members) and not gang.members[0].in_group_of_its_top:
            turned = assemble(snapshot, tree, largest_first=True)
            # Without sets to turn around, the search would be the same.
            if isinstance(turned, Assembled) and turned != assembled:
                other = assign_within(snapshot, tree, turned, rules)
                placement = other if other.assigned else placement
    except UserError as error:
        return NoAssignment(
            frozenset({"faulty"}), placement_text.waiting(" ".join(map(str, error.faults))), WaitReason.GANG_INVALID
        )
    return GangSearch(assembled, placement)


def assembled_gang(
    gang: GatedGang,
    minimum: int,
    assigned_members: Mapping[str, AssignedMember],
    cache: ClusterSnapshot,
    trees: TopologyTrees,
) -> tuple[Assembled, TopologyTree] | None:
    """The gang in the engine's terms, without a search; None if that cannot be made. Parameters as above."""
    needed = max(1, min(minimum - len(assigned_members), len(gang.members)))
    try:
        topology = _topology_of(gang, cache.topologies)
        tree = trees.tree(topology, cache.nodes.node_arrays)
        others = Others(_others(gang, topology, cache.topologies), trees)
        assembled = _assembly(gang, topology, assigned_members, needed, others)(cache.nodes, tree)
    except UserError:
        return None
    return None if isinstance(assembled, Unknown) else (assembled, tree)


def _topology_of(gang: GatedGang, topologies: Mapping[str, Topology]) -> Topology:
    """The topology of its PodGroup, else the one that a member names. Raises UserError."""
    if gang.pod_group is not None:
        return gang.pod_group.topology_in(topologies) or NO_TOPOLOGY
    first = gang.members[0]
    top = first.owner_chain.raw if first.owner_chain is not None and first.in_group_of_its_top else None
    if top is not None and top["metadata"]["annotations"].get(KAI_TOPOLOGY):
        return topology_of(top["metadata"]["annotations"], topologies)
    naming = next((gated for gated in gang.members if KAI_TOPOLOGY in gated.pod.annotations), first)
    return topology_of(naming.pod.annotations, topologies)


def _others(gang: GatedGang, own: Topology, topologies: Mapping[str, Topology]) -> dict[str, Topology]:
    """The topologies besides its own that its parts name. Raises UserError."""
    if gang.pod_group is not None:
        named = set(gang.pod_group.topologies)
    else:
        named = {name for gated in gang.members if (name := gated.pod.annotations.get(KAI_TOPOLOGY))}
    at_most_topologies(named | {own.name})
    return {name: topologies[name] for name in sorted(named - {own.name}) if name in topologies}


class _Assemble(Protocol):
    def __call__(
        self, snapshot: Snapshot, tree: TopologyTree, *, largest_first: bool = False
    ) -> Assembled | Unknown: ...


def _assembly(
    gang: GatedGang,
    topology: Topology,
    assigned_members: Mapping[str, AssignedMember],
    needed: int,
    others: Others,
) -> _Assemble:
    """How the gang is put into the engine's terms. Raises UserError."""
    if gang.pod_group is not None:
        return PodGroupAssembly(gang.members, topology, assigned_members, gang.pod_group, others).run
    return partial(Assembly(gang.members, topology, assigned_members, gang.membership.name, others).run, needed)


def named(gang: GatedGang) -> str:
    """The start of each text about the gang."""
    return f"gang {gang.membership.name}"


def assign_within(snapshot: Snapshot, tree: TopologyTree, assembled: Assembled, rules: Rules) -> GangAssignment:
    """The placement in the domain in which the gang has begun, or in any."""
    if assembled.within is not None:
        snapshot = snapshot.closed(~nodes_of(tree, assembled.within))
    return assign_gang(snapshot, tree, assembled.gang, rules.engine.gang_strategy)
