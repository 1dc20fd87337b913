"""A gang's members in the engine's terms: sets of equal pods, subgroups with a level of their own, and who runs where.

1. Members that request the same level and segments and have the same signature are a set, whatever nodes each prefers.
   Small sets (leaders) come first when the minimum is shared out.
2. What all members request binds the whole gang. Members that request another level are a subgroup with that level;
   members of one segment are a subgroup with its level. A workload's pod set whose template requests a level is a
   subgroup, even if another one requests the same level: each has a domain of its own, as in
   `webhook.formats.workload.common_fields`.
3. A subgroup whose members name another topology than the gang is a part in that one.
4. Each subgroup, and each of its segments, continues where its members run (see `gang_anchor`).

Waiting members are in the order of their ranks (`ranks_of`), which also say in which pod set and segment of its
workload a member is (`WorkloadPodSets`).
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from webhook.engine.gang.gang_spec import Constraint, Gang, Member, OtherTopology, PodSet, Segments
from webhook.engine.gang.workload_gang import NO_TOPOLOGY, topology_named
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.formats.kubernetes.exclusions import likeness
from webhook.formats.kubernetes.membership import AssignedMember, Wishes
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import Topology
from webhook.formats.workload.common_fields import most_named
from webhook.formats.workload.record import WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import SegmentRequest, segment_request, topology_request
from webhook.model.errors import UserError
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
)
from webhook.placing.gang.gang_anchor import Anchors, Unknown
from webhook.placing.gang.other_topologies import NO_OTHERS, Others
from webhook.placing.pod.gated_pods import GatedPod


class Row(NamedTuple):
    """A pod set of a workload."""

    ranks: range
    """The ranks of its pods in the gang."""
    pod_set: WorkloadPodSet
    head: WorkloadGang | None
    """The segment that it shares with other pod sets; None = it has segments of its own, or none."""
    has_levels: bool = False
    """Whether it requests levels of its own, besides those of the workload."""


class WorkloadPodSets:
    """The pod sets of a gang's workload; empty if no owner defines them.

    Then each pod's annotations say its pod set and segment. Otherwise:
    1. Ranks continue from pod set to pod set of a workload. The segments of a pod set begin with its first rank.
    2. If the kind defines the segments itself (LeaderWorkerSet), a member's annotations define them only in part. There
       the first segment may span several pod sets.
    """

    def __init__(self, rows: Collection[Row] = ()) -> None:
        self._rows = tuple(rows)

    @classmethod
    def of(cls, gated: GatedPod) -> "WorkloadPodSets":
        """The pod sets of a member's workload. Raises UserError."""
        owner_chain = gated.owner_chain if gated.in_group_of_its_top else None
        gang = None if owner_chain is None else owner_chain.gang(gated.pod.labels)
        if gang is None:
            return cls()
        parts = {id(pod_set): part for part in gang.gangs for pod_set in part.all_pod_sets()}
        return cls([_row(ranks, pod_set, parts.get(id(pod_set))) for ranks, pod_set in gang.by_rank()])

    def at(self, rank: int | None) -> Row | None:
        """The pod set of a rank; None if no pod set has it."""
        return next((row for row in self._rows if rank is not None and rank in row.ranks), None)

    def with_levels(self, ranks: Iterable[int]) -> Sequence[Row]:
        """The pod sets of these ranks that request levels of their own; none if all ranks are in one pod set."""
        if not any(row.has_levels for row in self._rows):
            return ()
        roles = {row.ranks: row for rank in ranks if (row := self.at(rank)) is not None}
        return [row for row in roles.values() if row.has_levels] if len(roles) > 1 else ()

    def ranks_of(self, head: WorkloadGang) -> set[int]:
        """The ranks of a segment that spans several pod sets."""
        return {rank for row in self._rows if row.head is head for rank in row.ranks}

    def asked(self, gated: GatedPod, rank: int | None, path: str) -> SegmentRequest | None:
        """The segments that a member requests; path: the path of its annotations in the object. Raises UserError."""
        row = self.at(rank)
        if row is not None and row.pod_set.cut:
            return row.pod_set.segments
        if row is None and any(row.pod_set.cut for row in self._rows):
            return None
        return segment_request((gated.pod.annotations, path))


def _row(ranks: range, pod_set: WorkloadPodSet, part: WorkloadGang | None) -> Row:
    segment = part is not None and part.segment
    return Row(ranks, pod_set, part if segment else None, part is not None and not segment)


def preferring(members: Sequence[GatedPod]) -> tuple[tuple[Pod, int], ...]:
    """One member of each preference, and how many share it; () if the first stands for all."""
    by_preference: dict[str, list[GatedPod]] = {}
    for gated in members:
        by_preference.setdefault(gated.preferred, []).append(gated)
    return tuple((ones[0].pod, len(ones)) for ones in by_preference.values()) if len(by_preference) > 1 else ()


def told_apart(members: Sequence[GatedPod]) -> Mapping[str, Hashable]:
    """Key of a member -> equal for those that the gang's rules about pods on one node or in one domain treat alike."""
    pods = [(gated.pod.labels, gated.pod.exclusions) for gated in members]
    alike = likeness(pods)
    return {gated.key: alike(*pod) for gated, pod in zip(members, pods, strict=True)}


def ranks_of(members: Sequence[GatedPod], assigned_members: Sequence[AssignedMember]) -> dict[str, int]:
    """Each member's position in the order of the gang: its own rank, or the next free one, by name.

    A rank belongs to one member. Of two with the same rank, an assigned one keeps it, then the older one.
    """
    taken = {member.rank for member in assigned_members if member.rank is not None}
    ranks: dict[str, int] = {}
    for gated in sorted(members, key=lambda gated: (gated.pod.created, gated.key)):
        rank = gated.membership.rank if gated.membership else None
        if rank is not None and rank not in taken:
            ranks[gated.key] = rank
            taken.add(rank)
    free = (rank for rank in range(len(members) + len(taken)) if rank not in taken)
    return ranks | {key: next(free) for key in sorted({gated.key for gated in members} - ranks.keys())}


_PATH: Final = "metadata.annotations"
_LEVELS: Final = (KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A gang, and the domain in which all of it continues."""

    gang: Gang
    within: Domain | None
    """None: it has not begun, or nothing is required of all members."""


class _Asked(NamedTuple):
    """What the members of a set request."""

    wish: Wishes
    segments: Segments | None
    head: tuple[frozenset[int], Constraint] | None
    """The ranks and the level of their segment if it spans several pod sets; None = it does not."""
    role: range | None
    """The ranks of their pod set if its template requests levels; None if not, or if the gang has one pod set."""


_PartKey = tuple[Wishes, range | None] | None
"""What its members request, and their pod set if its template does; None = one segment of several pod sets."""


class Assembly:
    """Assembles one gang. Raises UserError."""

    def __init__(
        self,
        members: Sequence[GatedPod],
        topology: Topology,
        assigned_members: Mapping[str, AssignedMember],
        name: str = "",
        others: Others = NO_OTHERS,
    ) -> None:
        self._members = members
        self._topology = topology
        self._others = others
        self._assigned_members = tuple(assigned_members.values())
        self._name = name
        self._ranks = ranks_of(members, self._assigned_members)
        self._told_apart = told_apart(members)
        first = members[0]
        owner_chain = first.owner_chain if first.in_group_of_its_top else None
        top = owner_chain.raw if owner_chain is not None else None
        self._of_top = None if top is None else _only(top["metadata"]["annotations"], _LEVELS)
        self._pod_sets = WorkloadPodSets.of(first)
        there = [*self._ranks.values(), *(member.rank for member in self._assigned_members if member.rank is not None)]
        self._with_levels = {row.ranks for row in self._pod_sets.with_levels(there)}
        self._whole = self._wish_of_all()

    def run(
        self, minimum: int, snapshot: Snapshot, tree: TopologyTree, *, largest_first: bool = False
    ) -> Assembled | Unknown:
        """The gang, of which at least `minimum` members are assigned together or none; or why its domain is unknown."""
        anchors = Anchors(tree, snapshot.node_arrays)
        whole = self._constraint(self._whole)
        within = anchors.of(self._bound_as_a_whole(whole), whole.required) if whole.required else None
        if isinstance(within, Unknown):
            return within
        others = {name: Anchors(tree, snapshot.node_arrays) for name, tree in self._others.trees(snapshot).items()}
        own: list[PodSet] = []
        parts: dict[_PartKey, list[PodSet]] = {}
        constraints: dict[_PartKey, Constraint] = {}
        for asked, members, here in self._shared_out(minimum, largest_first=largest_first):
            part = (asked.wish, asked.role) if asked.head is None else None
            sets = own if part == (self._whole, None) else parts.setdefault(part, [])
            constraints[part] = self._constraint(asked.wish) if asked.head is None else asked.head[1]
            there = others.get(self._other(asked.wish) or "", anchors)
            running = self._running(asked, members, there) if not sets or asked.segments else ()
            if isinstance(running, Unknown):
                return running
            named = tuple(Member(gated.pod.name, self._ranks[gated.key]) for gated in members)
            first = members[0]
            preferred = preferring(members)
            sets.append(
                PodSet(first.pod.name, first.pod, first.intent, named, here, asked.segments, running, preferred)
            )
        subgroups: list[Gang] = []
        elsewhere: dict[str, list[Gang]] = {}
        for part, sets in parts.items():
            other = None if part is None else self._other(part[0])
            together = subgroups if other is None else elsewhere.setdefault(other, [])
            together.append(Gang(sets[0].name, constraints[part], tuple(sets)))
        strategy = most_named(gated.pod.annotations for gated in self._members)
        beside = tuple(OtherTopology.of(others[name].tree, some) for name, some in elsewhere.items())
        return Assembled(Gang(self._name, whole, tuple(own), tuple(subgroups), strategy, beside), within)

    def _shared_out(self, minimum: int, *, largest_first: bool) -> list[tuple["_Asked", list[GatedPod], int]]:
        """Step 1: what each set requests, its members, and its share of the minimum."""
        equal: dict[tuple[_Asked, Hashable], list[GatedPod]] = {}
        for gated in sorted(self._members, key=lambda gated: self._ranks[gated.key]):
            equal.setdefault((self._asked(gated), (gated.signature, self._told_apart[gated.key])), []).append(gated)
        made = []
        by_size = sorted(equal.items(), key=lambda entry: len(entry[1]), reverse=largest_first)
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
            constraint = Constraint.of(request.resolve(self._topology)) if request.levels else Constraint()
            return _Asked(wish, None, (frozenset(self._pod_sets.ranks_of(row.head)), constraint), None)
        role = None if row is None or row.ranks not in self._with_levels else row.ranks
        asked = self._pod_sets.asked(gated, rank, _PATH)
        if asked is None:
            return _Asked(wish, None, None, role)
        first = 0 if row is None else row.ranks.start
        return _Asked(wish, Segments.of(asked, self._topology_of(wish), first), None, role)

    def _wish_of_all(self) -> Wishes:
        """Step 2: the request that binds the whole gang.

        1. The members' request, if all have the same one, the top owner requires no level, and no pod set requests
           levels of its own.
        2. Else the top owner's request, if the owner is known.
        3. Else what the members' requests have in common.
        """
        wishes = [_only(gated.pod.annotations, _LEVELS) for gated in self._members]
        top_requires = self._of_top is not None and {KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT} <= dict(self._of_top).keys()
        if len(set(wishes)) == 1 and not top_requires and not self._with_levels:
            return wishes[0]
        if self._of_top is not None:
            return self._of_top
        return tuple(asked for asked in wishes[0] if all(asked in wish for wish in wishes))

    def _bound_as_a_whole(self, whole: Constraint) -> Sequence[AssignedMember]:
        """The assigned members that are bound by what all request.

        An owner's request binds all its pods. Otherwise an assigned pod set may request less, or may have requested
        another level before a change.
        """
        if self._of_top is not None and self._whole == self._of_top:
            return self._assigned_members
        levels = [(member, self._required_of(member, None)) for member in self._assigned_members]
        same_level = [member for member, level in levels if level == whole.required]
        return same_level or [member for member, level in levels if level is not None]

    def _running(
        self, asked: "_Asked", members: Sequence[GatedPod], anchors: Anchors
    ) -> tuple[tuple[int, str], ...] | Unknown:
        """Step 4: (rank, node) of a subgroup's running members; for nodes that are gone, another of their domain."""
        if asked.head is not None:
            ranks, constraint = asked.head
            assigned_members = [member for member in self._assigned_members if member.rank in ranks]
            return in_their_domain(assigned_members, constraint.required, anchors)
        required, other = self._constraint(asked.wish).required, self._other(asked.wish)
        assigned_members = [member for member in self._assigned_members if self._required_of(member, other) == required]
        if asked.role is not None:
            assigned_members = [member for member in assigned_members if member.rank in asked.role]
        if asked.segments is not None and asked.segments.constraint.required is not None:
            row = self._pod_sets.at(self._ranks[members[0].key])
            here = (
                assigned_members if row is None else [member for member in assigned_members if member.rank in row.ranks]
            )
            return self._running_by_segment(here, asked.segments, members, anchors)
        return in_their_domain(assigned_members, required, anchors)

    def _running_by_segment(
        self,
        assigned_members: Sequence[AssignedMember],
        segments: Segments,
        members: Sequence[GatedPod],
        anchors: Anchors,
    ) -> tuple[tuple[int, str], ...] | Unknown:
        """The same if each segment has its own domain: the finest ones, else those that they are in."""
        running: list[tuple[int, str]] = []
        left: Sequence[AssignedMember] = assigned_members
        for layer in reversed(segments.layers()):
            waiting = {layer.number_of(self._ranks[gated.key]) for gated in members}
            begun: dict[int, list[AssignedMember]] = {}
            for member in left:
                begun.setdefault(layer.number_of(member.rank or 0), []).append(member)
            left = []
            for number, others in begun.items():
                domain = anchors.of(others, layer.constraint.bound)
                if not isinstance(domain, Unknown):
                    running += _in(domain, others, anchors)
                elif number in waiting:
                    return domain
                else:
                    left += others
        return tuple(running)

    def _other(self, wish: Wishes) -> str | None:
        """The name of the topology that a request names, if it is another one than the gang's."""
        name = dict(wish).get(KAI_TOPOLOGY)
        return name if name in self._others.topologies else None

    def _topology_of(self, wish: Wishes) -> Topology:
        return self._others.topologies.get(self._other(wish) or "", self._topology)

    def _required_of(self, member: AssignedMember, other: str | None) -> int | None:
        """The level that an assigned member requires; None if it requires none of this topology.

        other: a topology besides the gang's; None: the gang's own.
        """
        wish = _only(dict(member.wishes), _LEVELS)
        try:
            return self._constraint(wish).required if self._other(wish) == other else None
        except UserError:
            return None

    def _constraint(self, wish: Wishes) -> Constraint:
        request = topology_request((dict(wish), _PATH))
        return Constraint.of(request.resolve(self._topology_of(wish))) if request.levels else Constraint()


def topology_of(annotations: Mapping[str, str], topologies: Mapping[str, Topology]) -> Topology:
    """The topology that the annotations name, or NO_TOPOLOGY. Raises UserError."""
    name = annotations.get(KAI_TOPOLOGY)
    return topology_named(name, topologies, _PATH) if name else NO_TOPOLOGY


def in_their_domain(
    assigned_members: Sequence[AssignedMember], level: int | None, anchors: Anchors
) -> tuple[tuple[int, str], ...] | Unknown:
    """(rank, node) of assigned members; for nodes that are gone, another one of their domain of this level."""
    domain = anchors.of(assigned_members, level) if level else None
    return domain if isinstance(domain, Unknown) else _in(domain, assigned_members, anchors)


def _in(
    domain: Domain | None, assigned_members: Sequence[AssignedMember], anchors: Anchors
) -> tuple[tuple[int, str], ...]:
    """(rank, node) of members, each in the domain; without a domain, each with its own node."""
    if domain is None:
        return tuple((member.rank or 0, member.node) for member in assigned_members)
    stand_in = anchors.first_node(domain)
    return tuple(
        (member.rank or 0, member.node if anchors.domain_of(member, domain.level) == domain.number else stand_in)
        for member in assigned_members
    )


def _only(annotations: Mapping[str, str], names: Sequence[str]) -> Wishes:
    return tuple((name, annotations[name]) for name in names if name in annotations)
