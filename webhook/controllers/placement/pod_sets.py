"""A group's members in the engine's terms: sets of equal pods, parts with a level of their own, and who runs where.

1. Members that ask for the same level, of the same shape and with the same segments (see `segments`) are a set,
   whatever nodes each prefers; small sets (leaders) come first when the minimum is shared out.
2. What all ask together bounds all. Those that ask for another level are a part with that one, those that are one
   segment are a part with its level. A role whose template asks for a level is a part, even if another asks for the
   same level: each has a domain of its own, as in `webhook.model.workload.common_fields`.
3. Each part, and each segment of it, goes on where its members run (see `gang_anchor`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from webhook.controllers.placement.gang_anchor import Anchors, Unknown
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.placement.segments import WorkloadPodSets
from webhook.engine.gang.gang_spec import Constraint, Member, PodGroup, PodSet, Segments
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.membership import AssignedMember, Wishes
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
)
from webhook.model.nearest import did_you_mean
from webhook.model.pod import Pod
from webhook.model.topology import Topology
from webhook.model.workload.topology_request import Levels, topology_request

_PATH: Final = "metadata.annotations"
_LEVELS: Final = (KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A group, and the domain in which all of it goes on."""

    group: PodGroup
    within: Domain | None
    """None: it has not begun, or nothing is required of all."""


class _Asked(NamedTuple):
    """What the members of a set ask for."""

    wish: Wishes
    segments: Segments | None
    head: tuple[frozenset[int], Constraint] | None
    """The ranks and the level of a segment of several roles, to which they belong; None = to none."""
    role: range | None
    """The ranks of their role if its template asks for levels; None if it does not, or if the gang has one role."""


_PartKey = tuple[Wishes, range | None] | None
"""What its members ask for, and their role if its template asks; None = one segment of several roles."""


class Assembly:
    """Puts one group together. Raises UserError."""

    def __init__(
        self,
        members: Sequence[GatedPod],
        topology: Topology,
        assigned_members: Mapping[str, AssignedMember],
        name: str = "",
    ) -> None:
        self._members = members
        self._topology = topology
        self._seats = tuple(assigned_members.values())
        self._name = name
        self._ranks = ranks_of(members, self._seats)
        first = members[0]
        owner_chain = first.owner_chain if first.in_group_of_its_top else None
        top = owner_chain.raw if owner_chain is not None else None
        self._of_top = None if top is None else _only(top["metadata"]["annotations"], _LEVELS)
        self._pod_sets = WorkloadPodSets.of(first)
        there = [*self._ranks.values(), *(seat.rank for seat in self._seats if seat.rank is not None)]
        self._with_levels = {row.ranks for row in self._pod_sets.with_levels(there)}
        self._whole = self._wish_of_all()

    def run(
        self, minimum: int, snapshot: Snapshot, tree: TopologyTree, *, largest_first: bool = False
    ) -> Assembled | Unknown:
        """The group, of which so many go together or none; or why it is not known where it goes on."""
        anchors = Anchors(tree, snapshot.node_arrays)
        whole = self._constraint(self._whole)
        within = anchors.of(self._bound_as_a_whole(whole), whole.required) if whole.required else None
        if isinstance(within, Unknown):
            return within
        own: list[PodSet] = []
        parts: dict[_PartKey, list[PodSet]] = {}
        constraints: dict[_PartKey, Constraint] = {}
        for asked, members, here in self._shared_out(minimum, largest_first=largest_first):
            part = (asked.wish, asked.role) if asked.head is None else None
            sets = own if part == (self._whole, None) else parts.setdefault(part, [])
            constraints[part] = self._constraint(asked.wish) if asked.head is None else asked.head[1]
            running = self._running(asked, members, anchors) if not sets or asked.segments else ()
            if isinstance(running, Unknown):
                return running
            named = tuple(Member(gated.pod.name, self._ranks[gated.key]) for gated in members)
            first = members[0]
            preferring = _preferring(members)
            sets.append(
                PodSet(first.pod.name, first.pod, first.intent, named, here, asked.segments, running, preferring)
            )
        subgroups = tuple(PodGroup(sets[0].name, constraints[part], tuple(sets)) for part, sets in parts.items())
        return Assembled(PodGroup(self._name, whole, tuple(own), subgroups), within)

    def _shared_out(self, minimum: int, *, largest_first: bool) -> list[tuple["_Asked", list[GatedPod], int]]:
        """Step 1: what the members of each set ask for, these members, and how many of them cannot be done without."""
        alike: dict[tuple[_Asked, str], list[GatedPod]] = {}
        for gated in sorted(self._members, key=lambda gated: self._ranks[gated.key]):
            alike.setdefault((self._asked(gated), gated.signature), []).append(gated)
        made = []
        by_size = sorted(alike.items(), key=lambda entry: len(entry[1]), reverse=largest_first)
        for (asked, _), members in by_size:
            here = min(len(members), minimum)
            minimum -= here
            made.append((asked, members, here))
        return made if largest_first else sorted(made, key=lambda entry: self._ranks[entry[1][0].key])

    def _asked(self, gated: GatedPod) -> "_Asked":
        rank = self._ranks[gated.key]
        row = self._pod_sets.at(rank)
        wish = _only(gated.pod.annotations, _LEVELS)
        if row is not None and row.head is not None:
            request = row.head.request
            constraint = _constraint(request.resolve(self._topology)) if request.levels else Constraint()
            return _Asked(wish, None, (frozenset(self._pod_sets.ranks_of(row.head)), constraint), None)
        role = None if row is None or row.ranks not in self._with_levels else row.ranks
        asked = self._pod_sets.asked(gated, rank, _PATH)
        if asked is None:
            return _Asked(wish, None, None, role)
        first = 0 if row is None else row.ranks.start
        return _Asked(wish, Segments(asked.size, _constraint(asked.resolve(self._topology)), first), None, role)

    def _wish_of_all(self) -> Wishes:
        """Step 2: what the top asks, or all have; all that they ask if they do alike, and no level stands elsewhere."""
        wishes = [_only(gated.pod.annotations, _LEVELS) for gated in self._members]
        top_requires = self._of_top is not None and {KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT} <= dict(self._of_top).keys()
        if len(set(wishes)) == 1 and not top_requires and not self._with_levels:
            return wishes[0]
        if self._of_top is not None:
            return self._of_top
        return tuple(asked for asked in wishes[0] if all(asked in wish for wish in wishes))

    def _bound_as_a_whole(self, whole: Constraint) -> Sequence[AssignedMember]:
        """The members with a place that are bound by what all ask.

        What owners ask binds all of theirs. Else a role that has a place may ask for less, or has asked for another
        level before that was changed.
        """
        if self._of_top is not None and self._whole == self._of_top:
            return self._seats
        levels = [(seat, self._required_of(seat)) for seat in self._seats]
        alike = [seat for seat, level in levels if level == whole.required]
        return alike or [seat for seat, level in levels if level is not None]

    def _running(
        self, asked: "_Asked", members: Sequence[GatedPod], anchors: Anchors
    ) -> tuple[tuple[int, str], ...] | Unknown:
        """Step 3: (rank, node) of the members of a part that run; a node of their domain for those that are gone."""
        if asked.head is not None:
            ranks, constraint = asked.head
            seats = [seat for seat in self._seats if seat.rank in ranks]
            return _in_their_domain(seats, constraint.required, anchors)
        required = self._constraint(asked.wish).required
        seats = [seat for seat in self._seats if self._required_of(seat) == required]
        if asked.role is not None:
            seats = [seat for seat in seats if seat.rank in asked.role]
        if asked.segments is not None and asked.segments.constraint.required is not None:
            row = self._pod_sets.at(self._ranks[members[0].key])
            here = seats if row is None else [seat for seat in seats if seat.rank in row.ranks]
            return self._running_by_segment(here, asked.segments, members, anchors)
        return _in_their_domain(seats, required, anchors)

    def _running_by_segment(
        self, seats: Sequence[AssignedMember], segments: Segments, members: Sequence[GatedPod], anchors: Anchors
    ) -> tuple[tuple[int, str], ...] | Unknown:
        """The same where each segment has a domain of its own."""
        waiting = {segments.number_of(self._ranks[gated.key]) for gated in members}
        begun: dict[int, list[AssignedMember]] = {}
        for seat in seats:
            begun.setdefault(segments.number_of(seat.rank or 0), []).append(seat)
        running: list[tuple[int, str]] = []
        for number, others in begun.items():
            domain = anchors.of(others, segments.constraint.bound)
            if not isinstance(domain, Unknown):
                running += _in(domain, others, anchors)
            elif number in waiting:
                return domain
        return tuple(running)

    def _required_of(self, seat: AssignedMember) -> int | None:
        """The level that a member with a place requires; what is no level of the topology requires none."""
        try:
            return self._constraint(_only(dict(seat.wishes), _LEVELS)).required
        except UserError:
            return None

    def _constraint(self, wish: Wishes) -> Constraint:
        request = topology_request((dict(wish), _PATH))
        return _constraint(request.resolve(self._topology)) if request.levels else Constraint()


def _preferring(members: Sequence[GatedPod]) -> tuple[tuple[Pod, int], ...]:
    """One member of each preference, and how many prefer the same; () where the first stands for all."""
    alike: dict[str, list[GatedPod]] = {}
    for gated in members:
        alike.setdefault(gated.preferred, []).append(gated)
    return tuple((ones[0].pod, len(ones)) for ones in alike.values()) if len(alike) > 1 else ()


def ranks_of(members: Sequence[GatedPod], seats: Sequence[AssignedMember]) -> dict[str, int]:
    """Each member's place in the order of the group: its own, or the next that is free, by name.

    A rank is one member's. Of two with the same, the one that has a place keeps it, then the older one.
    """
    taken = {seat.rank for seat in seats if seat.rank is not None}
    ranks: dict[str, int] = {}
    for gated in sorted(members, key=lambda gated: (gated.pod.created, gated.key)):
        rank = gated.membership.rank if gated.membership else None
        if rank is not None and rank not in taken:
            ranks[gated.key] = rank
            taken.add(rank)
    free = (rank for rank in range(len(members) + len(taken)) if rank not in taken)
    return ranks | {key: next(free) for key in sorted({gated.key for gated in members} - ranks.keys())}


def topology_of(annotations: Mapping[str, str], topologies: Mapping[str, Topology]) -> Topology:
    """The topology that annotations name, or none at all. Raises UserError."""
    name = annotations.get(KAI_TOPOLOGY)
    if not name:
        return NO_TOPOLOGY
    if name not in topologies:
        known = ", ".join(sorted(topologies)) or "none"
        hint = did_you_mean(name, topologies)
        text = f'There is no topology "{shortened(name)}". Those of this cluster: {known}.{hint}'
        raise UserError(f"{_PATH}[{KAI_TOPOLOGY}]", text)
    return topologies[name]


def _in_their_domain(
    seats: Sequence[AssignedMember], level: int | None, anchors: Anchors
) -> tuple[tuple[int, str], ...] | Unknown:
    domain = anchors.of(seats, level) if level else None
    return domain if isinstance(domain, Unknown) else _in(domain, seats, anchors)


def _in(domain: Domain | None, seats: Sequence[AssignedMember], anchors: Anchors) -> tuple[tuple[int, str], ...]:
    """(rank, node) of members, each in the domain; where there is none, of those whose node is known."""
    if domain is None:
        return tuple((seat.rank or 0, seat.node) for seat in seats)
    stand_in = anchors.first_node(domain)
    return tuple(
        (seat.rank or 0, seat.node if anchors.domain_of(seat, domain.level) == domain.number else stand_in)
        for seat in seats
    )


def _only(annotations: Mapping[str, str], names: Sequence[str]) -> Wishes:
    return tuple((name, annotations[name]) for name in names if name in annotations)


def _constraint(levels: Levels) -> Constraint:
    """Levels of a topology as levels of its tree, which has the root above them."""
    return Constraint(*(None if level is None else level + 1 for level in (levels.required, levels.preferred)))
