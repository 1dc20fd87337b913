"""Whether all members of a group that are there, or as many as must start together, have a place; nothing is promised.

The leader asks this before it promises the members their places (see `gated_gang`), and `review` asks it of bare pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.admission.pod import placement_text
from webhook.cache.cluster_snapshot import World
from webhook.controllers.placement.assignment import NoPlace, why_refused
from webhook.controllers.placement.gang_anchor import Unknown
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.placement.pod_sets import Assembled, Assembly, topology_of
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_assignment import place_group
from webhook.engine.gang.result import GroupPlacement
from webhook.engine.snapshot.snapshot import View
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.errors import UserError
from webhook.model.membership import Membership, Seated
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.rules import Rules


@dataclass(frozen=True, slots=True)
class Gang:
    """The gated members of one group, in the order of their turn."""

    membership: Membership
    members: tuple[GatedPod, ...]

    @property
    def order(self) -> tuple[int, str, str]:
        """That of its first member."""
        return self.members[0].order


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """A group as it was put together, and its place, or what is missing."""

    assembled: Assembled
    placement: GroupPlacement


def why_too_few(gang: Gang, minimum: int, seated: Mapping[str, Seated]) -> NoPlace | None:
    """Why a group that has not begun waits for more members; None when enough are there."""
    there = len(gang.members) + len(seated)
    if there >= minimum or seated:
        return None
    text = f"{named(gang)}: {there} of the {minimum} pods that must start together are there"
    return NoPlace(frozenset({("members", there)}), placement_text.waiting(text))


def search_group(
    gang: Gang, minimum: int, seated: Mapping[str, Seated], world: World, trees: TopologyTrees, rules: Rules
) -> GroupSearch | NoPlace:
    """The place of the members. seated: those that have one, by namespace/name."""
    view = world.view
    shapes = {gated.shape: gated for gated in gang.members}.values()
    if refusal := next(filter(None, (why_refused(view, gated, rules) for gated in shapes)), None):
        return refusal
    # A group that has begun does not wait for missing members: they have ended, or will never come.
    needed = max(1, min(minimum - len(seated), len(gang.members)))
    try:
        naming = next((gated for gated in gang.members if KAI_TOPOLOGY in gated.pod.annotations), gang.members[0])
        topology = topology_of(naming.pod.annotations, world.topologies)
        tree = trees.tree(topology, view.snapshot)
        assembly = Assembly(gang.members, topology, seated, gang.membership.name)
        assembled = assembly.run(needed, view, tree)
        if isinstance(assembled, Unknown):
            return NoPlace(frozenset({"anchor"}), placement_text.waiting(f"{named(gang)}: {assembled.why}"))
        placement = _place_within(view, tree, assembled, rules)
        if not placement.placed and needed < len(gang.members) and not gang.members[0].in_group_of_its_top:
            turned = assembly.run(needed, view, tree, largest_first=True)
            if isinstance(turned, Assembled) and (other := _place_within(view, tree, turned, rules)).placed:
                placement = other
    except UserError as error:
        return NoPlace(frozenset({"faulty"}), placement_text.waiting(" ".join(map(str, error.faults))))
    return GroupSearch(assembled, placement)


def named(gang: Gang) -> str:
    """How texts begin."""
    return f"group {gang.membership.name}"


def _place_within(view: View, tree: TopologyTree, assembled: Assembled, rules: Rules) -> GroupPlacement:
    """The placement in the domain in which the group goes on, or in any."""
    if assembled.within is not None:
        view = view.closed(~nodes_of(tree, assembled.within))
    return place_group(view, tree, assembled.group, rules.engine.group_strategy)
