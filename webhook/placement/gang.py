"""A group of gated pods and where it goes: all that must start together at once, or none.

1. The group waits until as many members are there as must start together, those that have a place already included.
2. Equal members become a set each; small sets (leaders) come first when the minimum is shared out. What all ask
   together bounds all; a role that asks for a level itself is a part with that one.
3. The engine finds a domain, nodes and NUMA nodes; members that have a place hold the others to their domain.
4. Member by member, in order of rank, the node is asked anew for the exact amounts, and they are promised. Should one
   not get them after all, what was promised to the others is given back.
"""

import asyncio
import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from webhook.admission import placement_text
from webhook.admission.rules import Rules
from webhook.admission.world import World
from webhook.engine.decide import decide
from webhook.engine.group.place import place_group
from webhook.engine.group.result import GroupPlacement, Path
from webhook.engine.group.soonest import nodes_of, soonest
from webhook.engine.group.spec import Constraint, Member, PodGroup, PodSet, Segments
from webhook.engine.group.workload import NO_TOPOLOGY
from webhook.engine.reserve.grant import Grant
from webhook.engine.trees import TopologyTrees
from webhook.engine.view import View
from webhook.model.domain_label import labels_of_member
from webhook.model.errors import UserError
from webhook.model.hint import NUMAHint
from webhook.model.membership import Membership, Seated
from webhook.model.names import DOMAIN, KAI_PREFERRED_PLACEMENT, KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, RANK
from webhook.model.nearest import did_you_mean
from webhook.model.topology import Topology
from webhook.model.workload.topology import Levels, segment_request, topology_request
from webhook.placement.gated import GatedPod, seconds_waited
from webhook.placement.placed import NoPlace, Place, placed_on, without
from webhook.placement.writer import PlacementWriter

# A member's exact amounts take a millisecond or two; after so many reviews have their turn.
_TURN: Final = 8

_PATH: Final = "metadata.annotations"

_WHERE: Final = (KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)
_Wish = tuple[tuple[str, str], ...]
"""(annotation, value) of those that ask for a level."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The gated members of one group, in the order of their turn."""

    membership: Membership
    members: tuple[GatedPod, ...]

    @property
    def order(self) -> tuple[int, str, str]:
        """That of its first member."""
        return self.members[0].order


def units_of(pods: Iterable[GatedPod]) -> list[GatedPod | Gang]:
    """Single pods, and the members of groups together, in the order of their turn; `pods` are in order."""
    gangs: dict[str, list[GatedPod]] = {}
    memberships: dict[str, Membership] = {}
    units: list[GatedPod | Gang] = []
    for gated in pods:
        if gated.membership is None:
            units.append(gated)
        else:
            memberships.setdefault(gated.membership.group, gated.membership)
            gangs.setdefault(gated.membership.group, []).append(gated)
    units += [Gang(memberships[group], tuple(members)) for group, members in gangs.items()]
    return sorted(units, key=lambda unit: unit.order)


class GangWorld(Protocol):
    """What is needed of the cluster."""

    def view(self) -> World:
        """The cluster as it is now."""

    def seated(self, group: str) -> Mapping[str, Seated]:
        """The members of a group that have a place, by namespace/name."""

    def chosen_node(self, node: str, pod: str) -> View | None:
        """A node alone, as free as it is to the pod."""

    def withdraw(self, grant: Grant) -> None:
        """Give a promise back."""


Promised = tuple[GatedPod, Place, Grant]


class GangPlacer:
    """Finds places for groups and promises them."""

    def __init__(self, world: GangWorld, writer: PlacementWriter, rules: Rules, reserve_after: float) -> None:
        self._world = world
        self._reserve_after = reserve_after
        self._writer = writer
        self._rules = rules
        self._trees = TopologyTrees()

    async def place(
        self, gang: Gang, minimum: int, promised: Mapping[str, str], kept: Collection[str]
    ) -> list[Promised] | NoPlace:
        """Places for the members.

        promised: node by name of members whose place is on its way into them; kept: nodes that are kept for others.
        """
        seated = dict(self._world.seated(gang.membership.group))
        seated.update({key: Seated(node, None) for key, node in promised.items() if key not in seated})
        there = len(gang.members) + len(seated)
        if there < minimum and not seated:
            text = f"{_named(gang)}: {there} of the {minimum} pods that must start together are there"
            return NoPlace(frozenset({("members", there)}), placement_text.waiting(text))
        world = self._world.view()
        try:
            topology = _topology(gang.members[0], world.topologies)
            # Of a group that has begun nobody waits for those who are not there: they have ended, or will never come.
            group = _group(gang, topology, max(1, min(minimum - len(seated), len(gang.members))), seated)
        except UserError as error:
            return NoPlace(frozenset({"faulty"}), placement_text.waiting(" ".join(map(str, error.faults))))
        view = without(world.view, kept)
        tree = self._trees.tree(topology, view.snapshot)
        placement = place_group(view, tree, group, self._rules.engine.group_strategy)
        if not placement.placed:
            return self._waits(gang, group, placement, there)
        return await self._promise(gang, placement)

    def _waits(self, gang: Gang, group: PodGroup, placement: GroupPlacement, there: int) -> NoPlace:
        """What is missing, and what is kept for a group that has waited long."""
        why, tree = placement.why, placement.tree
        kind: frozenset[Hashable] = frozenset((short.level, short.resource) for short in why)
        text = f"{_named(gang)}, {there} pods: {'; '.join(map(str, why))}"
        has_waited = 0 < self._reserve_after <= max(seconds_waited(gated.raw) for gated in gang.members)
        domain = soonest(placement.view, tree, group) if has_waited else None
        if domain is None:
            return NoPlace(kind, placement_text.waiting(text))
        path, names = tree.path(domain), placement.view.snapshot.names
        keeps = frozenset(names[node] for node in nodes_of(tree, domain).nonzero()[0].tolist())
        return NoPlace(kind | {path}, placement_text.waiting(f"{text}; {_spoken(path)} is kept for it"), keeps=keeps)

    async def _promise(self, gang: Gang, placement: GroupPlacement) -> list[Promised] | NoPlace:
        by_name = {gated.pod.name: gated for gated in gang.members}
        domain = placement.tree.path(placement.domain) if placement.domain is not None else ()
        seats = sorted(placement.pods(), key=lambda pod: (pod.rank, pod.name))
        promised: list[Promised] = []
        for turn, seat in enumerate(seats, 1):
            gated = by_name[seat.name]
            hint = self._exact(gated, seat.node)
            if hint is None:
                for _, _, grant in promised:
                    self._world.withdraw(grant)
                text = f"{_named(gang)}: {seat.node} does not take {seat.name} beside the others"
                return NoPlace(frozenset({"beside"}), placement_text.waiting(text))
            text = f"{placed_on(hint)}; {_named(gang)}: {len(seats)} pods in {_spoken(domain)}"
            outputs = {RANK: str(seat.rank), **({DOMAIN: json.dumps(dict(seat.domain))} if seat.domain else {})}
            labels = labels_of_member(seat.rank, seat.domain, placement.tree.topology.node_labels)
            place = Place(hint, text, outputs, labels)
            promised.append((gated, place, self._writer.promise(gated, place)))
            if turn % _TURN == 0:
                await asyncio.sleep(0)
        return promised

    def _exact(self, gated: GatedPod, node: str) -> NUMAHint | None:
        """What the node gives the pod after what was promised so far; None when it does not take it."""
        view = self._world.chosen_node(node, gated.key)
        if view is None:
            return None
        decision = decide(view, gated.pod, gated.intent, self._rules.engine)
        return NUMAHint(node, decision.allocation(0)) if decision.fits[0] else None


def _topology(gated: GatedPod, topologies: Mapping[str, Topology]) -> Topology:
    name = gated.pod.annotations.get(KAI_TOPOLOGY)
    if not name:
        return NO_TOPOLOGY
    if name not in topologies:
        known = ", ".join(sorted(topologies)) or "none"
        hint = did_you_mean(name, topologies)
        raise UserError(
            f"{_PATH}[{KAI_TOPOLOGY}]", f'There is no topology "{name}". Those of this cluster: {known}.{hint}'
        )
    return topologies[name]


def _group(gang: Gang, topology: Topology, minimum: int, seated: Mapping[str, Seated]) -> PodGroup:
    """The group in the engine's words. Raises UserError."""
    ranks = _ranks(gang, seated)
    alike: dict[tuple[_Wish, str], list[GatedPod]] = {}
    for gated in sorted(gang.members, key=lambda gated: ranks[gated.key]):
        alike.setdefault((_wish(gated.pod.annotations), gated.shape), []).append(gated)
    whole = _wish_of_all(gang)
    running = tuple((one.rank or 0, one.node) for one in seated.values())
    own: list[PodSet] = []
    parts: dict[_Wish, list[PodSet]] = {}
    for (wish, _), members in sorted(alike.items(), key=lambda entry: len(entry[1])):
        here = min(len(members), minimum)
        minimum -= here
        made = _set(members, ranks, here, topology, running)
        running = ()
        (own if wish == whole else parts.setdefault(wish, [])).append(made)
    subgroups = tuple(
        PodGroup(sets[0].name, _constraint_of(wish, topology), tuple(sets)) for wish, sets in parts.items()
    )
    return PodGroup(gang.membership.name, _constraint_of(whole, topology), tuple(own), subgroups)


def _wish(annotations: Mapping[str, str]) -> _Wish:
    """What annotations ask of a topology."""
    return tuple((key, annotations[key]) for key in _WHERE if key in annotations)


def _wish_of_all(gang: Gang) -> _Wish:
    """What all members ask together: all that they ask if they do alike; else what the top asks, or all have."""
    wishes = [_wish(gated.pod.annotations) for gated in gang.members]
    if len(set(wishes)) == 1:
        return wishes[0]
    lineage = gang.members[0].lineage
    if lineage is not None and lineage.raw is not None:
        return _wish(lineage.raw["metadata"]["annotations"])
    return tuple(asked for asked in wishes[0] if all(asked in wish for wish in wishes))


def _constraint_of(wish: _Wish, topology: Topology) -> Constraint:
    request = topology_request((dict(wish), _PATH))
    return _constraint(request.resolve(topology)) if request.levels else Constraint()


def _set(
    members: Sequence[GatedPod],
    ranks: Mapping[str, int],
    minimum: int,
    topology: Topology,
    running: tuple[tuple[int, str], ...],
) -> PodSet:
    first = members[0]
    asked = segment_request((first.pod.annotations, _PATH))
    segments = None if asked is None else Segments(asked.size, _constraint(asked.resolve(topology)))
    named = tuple(Member(gated.pod.name, ranks[gated.key]) for gated in members)
    return PodSet(first.pod.name, first.pod, first.intent, named, minimum, segments, running)


def _ranks(gang: Gang, seated: Mapping[str, Seated]) -> dict[str, int]:
    """Each member's place in the order of the group: its own, or the next that is free, by name."""
    own = {gated.key: gated.membership.rank for gated in gang.members if gated.membership}
    ranks = {key: rank for key, rank in own.items() if rank is not None}
    taken = set(ranks.values()) | {one.rank for one in seated.values()}
    free = (rank for rank in range(len(own) + len(taken)) if rank not in taken)
    return ranks | {key: next(free) for key in sorted(own.keys() - ranks.keys())}


def _constraint(levels: Levels) -> Constraint:
    """Levels of a topology as levels of its tree, which has the root above them."""
    return Constraint(*(None if level is None else level + 1 for level in (levels.required, levels.preferred)))


def _named(gang: Gang) -> str:
    return f"group {gang.membership.name}"


def _spoken(domain: Path) -> str:
    """`rack rack-1`; the cluster as a whole has no name."""
    return f"{domain[-1][0].rpartition('/')[2]} {domain[-1][1]}" if domain else "the cluster"
