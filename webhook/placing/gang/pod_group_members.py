"""A gang that a PodGroup of a user or a PodGang of Grove defines: which pods it can place, how the engine sees them.

1. A PodGroup with a fault, or whose Topology does not exist, places none: all its pods wait with the reason.
2. A pod must be in a subgroup that exists and has none below it.
3. The PodGroup alone says what the gang asks for. An annotation of a pod or its owners that says otherwise is a fault;
   one that says the same is none.
4. The other pods become a gang with the PodGroup's subgroups (`PodGroupAssembly`).

The rules of the object itself are in `webhook.formats.kai` and `webhook.formats.grove`.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Gang, Member, OtherTopology, PodSet
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import SubGroup, UserPodGroup, subgroup_label, subgroup_of
from webhook.formats.workload.common_fields import most_named, strategy_of
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_BATCH_MIN_MEMBER,
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
)
from webhook.placing.gang.gang_anchor import Anchors, Unknown
from webhook.placing.gang.other_topologies import NO_OTHERS, Others
from webhook.placing.gang.pod_sets import Assembled, in_their_domain, preferring, ranks_of, told_apart
from webhook.placing.pod.gated_pods import GatedPod

_PATH: Final = "metadata.annotations"
_SEGMENTS: Final = (KAI_SEGMENT_SIZE, KAI_SEGMENT_REQUIRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT)


def faults_of(
    members: Iterable[GatedPod], group: UserPodGroup, topologies: Mapping[str, Topology]
) -> Iterator[tuple[GatedPod, str]]:
    """The members that the PodGroup does not place, each with the reason."""
    whole = " ".join(group.problems)
    try:
        group.topology_in(topologies)
    except UserError as error:
        whole = whole or " ".join(f"{group.shown}: {fault}" for fault in error.faults)
    for gated in members:
        if text := whole or _fault(gated, group):
            yield gated, text


def by_subgroup(members: Iterable[GatedPod]) -> dict[str, list[GatedPod]]:
    """The members by the name of their subgroup; "" for a PodGroup without subgroups."""
    found: dict[str, list[GatedPod]] = {}
    for gated in members:
        found.setdefault(subgroup_of(gated.pod.labels, gated.pod.annotations), []).append(gated)
    return found


def assigned_by_subgroup(assigned_members: Iterable[AssignedMember]) -> dict[str, list[AssignedMember]]:
    """The same for assigned members."""
    found: dict[str, list[AssignedMember]] = {}
    for member in assigned_members:
        found.setdefault(member.subgroup, []).append(member)
    return found


def too_few_in(group: UserPodGroup, members: Iterable[GatedPod]) -> str:
    """Which subgroups have fewer pods than must start together, in words; empty if all have enough."""
    there = {name: len(pods) for name, pods in by_subgroup(members).items()}
    leaves = [part for part in group.whole.all() if not part.parts]
    missing = [
        f"{there.get(part.name, 0)} of {part.minimum}" + (f" of subgroup {part.name}" if part.name else "")
        for part in leaves
        if there.get(part.name, 0) < part.minimum
    ]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return ", ".join(missing[:3]) + more


def _fault(gated: GatedPod, group: UserPodGroup) -> str:
    labels, asked = gated.pod.labels, gated.pod.annotations
    subgroup = subgroup_of(labels, asked)
    try:
        group.leaf(subgroup, f"metadata.labels[{subgroup_label(labels, asked)}]")
        strategy_of(asked, _PATH)
    except UserError as error:
        return " ".join(map(str, error.faults))
    said = {
        KAI_TOPOLOGY: group.topology_at(subgroup),
        KAI_REQUIRED_PLACEMENT: group.whole.required,
        KAI_PREFERRED_PLACEMENT: group.whole.preferred,
        **dict.fromkeys(_SEGMENTS, ""),
    }
    for key, value in said.items():
        if asked.get(key) and asked[key] != value:
            return _contradiction(key, asked[key], value, group)
    for key in (MIN_MEMBER, KAI_BATCH_MIN_MEMBER):
        if asked.get(key) and whole_number(asked[key]) != group.whole.minimum:
            return _contradiction(key, asked[key], str(group.whole.minimum), group)
    return ""


def _contradiction(key: str, text: str, value: str, group: UserPodGroup) -> str:
    says = f'says "{value}"' if value else "says nothing of it"
    return f'{_PATH}[{key}] is "{shortened(text)}", and {group.shown} {says}. Leave the annotation out'


class _UnknownError(Exception):
    """The domain of running members is unknown."""


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where a subgroup is."""

    above: Constraint
    """That of the subgroups above it, in the same topology."""
    anchors: Anchors
    topology: str


class PodGroupAssembly:
    """Assembles one gang in the engine's terms. Its members are in subgroups that exist. Raises UserError.

    1. Each subgroup without children is a subgroup of the engine: its waiting members as sets of equal pods, and its
       running ones, which hold the others to their domain.
    2. A subgroup with children is one around theirs. Running members below it hold it, too, even if none of them waits.
    3. A subgroup that names another Topology than the PodGroup is a part in that one, with those below it.
    4. If every subgroup has started, one further member is enough to go on.
    """

    def __init__(
        self,
        members: Sequence[GatedPod],
        topology: Topology,
        assigned_members: Mapping[str, AssignedMember],
        group: UserPodGroup,
        others: Others = NO_OTHERS,
    ) -> None:
        self._topology = topology
        self._others = others
        self._elsewhere: dict[str, list[Gang]] = {}
        self._there: dict[str, Anchors] = {}
        self._group = group
        self._members = by_subgroup(members)
        self._assigned = assigned_by_subgroup(assigned_members.values())
        self._any = members[0]
        self._ranks = ranks_of(members, tuple(assigned_members.values()))
        self._told_apart = told_apart(members)
        leaves = [part for part in group.whole.all() if not part.parts]
        self._needed = {part.name: self._still_needed(part) for part in leaves}

    def run(self, snapshot: Snapshot, tree: TopologyTree, *, largest_first: bool = False) -> Assembled | Unknown:
        """The gang, of which each subgroup has its minimum or none is assigned; or why its domain is unknown."""
        anchors = Anchors(tree, snapshot.node_arrays)
        trees = self._others.trees(snapshot)
        self._there = {name: Anchors(other, snapshot.node_arrays) for name, other in trees.items()}
        self._elsewhere = {}
        needed = dict(self._needed)
        if not any(needed.values()):
            waiting = sorted(self._members, key=lambda name: len(self._members[name]), reverse=largest_first)
            needed[waiting[0]] = 1  # step 4
        whole = self._constraint(self._group.whole)
        everyone = [member for members in self._assigned.values() for member in members]
        within = anchors.of(everyone, whole.required) if whole.required else None
        if isinstance(within, Unknown):
            return within
        try:
            inside = _Inside(ANYWHERE, anchors, self._topology.name)
            gang = self._gang(self._group.whole, inside, needed, largest_first=largest_first)
        except _UnknownError as error:
            return Unknown(str(error))
        strategy = most_named(gated.pod.annotations for members in self._members.values() for gated in members)
        beside = tuple(OtherTopology.of(trees[name], some) for name, some in self._elsewhere.items())
        return Assembled(replace(gang, strategy=strategy, elsewhere=beside), within)

    def _still_needed(self, part: SubGroup) -> int:
        """How many of a subgroup's waiting members must be assigned together."""
        missing = part.minimum - len(self._assigned.get(part.name, ()))
        return max(0, min(missing, len(self._members.get(part.name, ()))))

    def _gang(self, part: SubGroup, inside: "_Inside", needed: Mapping[str, int], *, largest_first: bool) -> Gang:
        own = self._constraint(part)
        bound = own.within(inside.above.bound)
        if part.parts:
            below: list[Gang] = []
            for each in part.parts:
                name = each.topology
                begins = name in self._there and name != inside.topology
                there = _Inside(ANYWHERE, self._there[name], name) if begins else replace(inside, above=bound)
                gang = self._gang(each, there, needed, largest_first=largest_first)
                if gang.own_sets():
                    (self._elsewhere.setdefault(name, []) if begins else below).append(gang)
            return Gang(part.name, own, (), tuple(below))
        running = in_their_domain(self._assigned.get(part.name, ()), bound.required or None, inside.anchors)
        if isinstance(running, Unknown):
            raise _UnknownError(running.why)
        return Gang(part.name, own, tuple(self._sets(part, running, needed[part.name], largest_first=largest_first)))

    def _sets(
        self, part: SubGroup, running: tuple[tuple[int, str], ...], minimum: int, *, largest_first: bool
    ) -> list[PodSet]:
        """Step 1: sets of equal pods; small ones count first, so that a leader is not left behind."""
        equal: dict[Hashable, list[GatedPod]] = {}
        for gated in sorted(self._members.get(part.name, ()), key=lambda gated: self._ranks[gated.key]):
            equal.setdefault((gated.signature, self._told_apart[gated.key]), []).append(gated)
        if not equal and running:
            return [PodSet(part.name, self._any.pod, self._any.intent, (), 0, None, running)]  # step 2
        sets: list[PodSet] = []
        for members in sorted(equal.values(), key=len, reverse=largest_first):
            here = min(len(members), minimum)
            minimum -= here
            first, named = members[0], tuple(Member(gated.pod.name, self._ranks[gated.key]) for gated in members)
            name = f"{part.name or self._group.name}" if len(equal) == 1 else first.pod.name
            held = () if sets else running
            sets.append(PodSet(name, first.pod, first.intent, named, here, None, held, preferring(members)))
        return sets

    def _constraint(self, part: SubGroup) -> Constraint:
        topology = self._others.topologies.get(part.topology, self._topology)
        levels = part.resolve(topology) if part.required or part.preferred else None
        return ANYWHERE if levels is None else Constraint.of(levels)
