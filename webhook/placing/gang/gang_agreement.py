"""Decides which of the pods that name a gang are assigned together: its own members that agree. All others wait.

1. In a gang that owners define, the pods of those owners are its members. A pod of another owner that claims the gang
   by name is not.
2. What a member requests must be valid by itself: an existing topology, one of its levels, valid numbers.
3. The gang has one topology: the one that most members name. In a gang whose pod sets an owner defines, this is so for
   each pod set. Levels and segments may differ between members, as the pod sets of a workload do.
4. The gang has one minimum. If the workload's spec gives the number of its pods, it is the top owner's, bounded by that
   number, else what most members request. Otherwise it is what most members request, assigned ones included; a member
   without a minimum votes for none. On a tie the oldest member's value is used.
5. A PodGroup of Kubernetes itself defines its gang: any pod of its namespace may name it, and its topology and minimum
   are those of all members.
6. A member with another minimum keeps it: it waits until the gang has begun and that many members exist.

A gang whose PodGroup a user wrote, or whose PodGang Grove made, asks for what that says instead of steps 2 to 5 (see
`pod_group_members`).

Assigned members count by their own annotations, too. One that disagrees neither holds the gang to its domain nor counts
as begun.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from webhook.formats.kubernetes.membership import AssignedMember, Wishes, wishes_of
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import UserPodGroup, is_in_pod_gang, subgroup_label, subgroup_of
from webhook.formats.workload.common_fields import min_member, strategy_of
from webhook.formats.workload.topology_request import topology_request
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import KAI_BATCH_MIN_MEMBER, KAI_TOPOLOGY, MIN_MEMBER, POD_GROUP_NAME
from webhook.model.wording import counted
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.pod_group_members import faults_of
from webhook.placing.gang.pod_sets import WorkloadPodSets, topology_of
from webhook.placing.pod import placement_text
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.wait_reason import WaitReason

Value = TypeVar("Value", str, int)


def ranks_of_pod_set(gated: GatedPod) -> range | None:
    """The ranks of a member's pod set, if its owner defines it. Its request was found valid before."""
    rank = None if gated.membership is None else gated.membership.rank
    row = WorkloadPodSets.of(gated).at(rank)
    return None if row is None else row.ranks


def asked_minimum(annotations: Mapping[str, str]) -> int | None:
    """The minimum that annotations request, None if they request none. Raises UserError."""
    return min_member(annotations, KAI_BATCH_MIN_MEMBER)


def said_minimum(member: AssignedMember) -> int | None:
    """The minimum that an assigned member requests; None if it requests none or its value is invalid."""
    try:
        return asked_minimum(dict(member.wishes))
    except UserError:
        return None


def most_said(values: Sequence[Value | None] | Iterable[Value | None]) -> Value | None:
    """The most frequent value, where None counts as a value; on a tie one that is not None, then the first."""
    counts = Counter(values)
    if not counts:
        return None
    most = max(counts.values())
    said = [value for value, count in counts.items() if count == most]
    return next((value for value in said if value is not None), None)


_PATH: Final = "metadata.annotations"
# The names of gangs that owners define (webhook.formats.kubernetes.owner_chain): no user chooses such a name by chance.
_MADE_BY_OWNERS: Final = re.compile(r"pg-.+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-.+)?")


@dataclass(frozen=True, slots=True)
class Agreement:
    """A gang as its own members request it."""

    gang: GatedGang
    """The gang with the members that are assigned together; there may be none."""
    minimum: int
    assigned_members: Mapping[str, AssignedMember]
    """Its members that have an assignment, by namespace/name."""
    disagreeing: Mapping[str, NoAssignment]
    """Why other pods wait, by namespace/name."""


def agree(
    gang: GatedGang,
    assigned_members: Mapping[str, AssignedMember],
    topologies: Mapping[str, Topology],
    pod_groups: Mapping[str, UserPodGroup] = MappingProxyType({}),
) -> Agreement:
    """What the gated members and the assigned ones agree on, or what the PodGroup says that a user wrote for them."""
    return _Agreeing(gang, assigned_members, topologies, pod_groups).run()


def minimum_of(gated: GatedPod) -> int:
    """How many pods of its gang must be assigned before this one is. Raises UserError.

    The annotations of the pod or its owners say so; else the top owner's spec, by its kind; one for unknown kinds.
    Never more than the spec creates, without the pods of a Job that have succeeded.
    """
    asked = min_member(gated.pod.annotations, KAI_BATCH_MIN_MEMBER)
    if gated.owner_chain is None or not gated.in_group_of_its_top:
        return asked or 1
    return gated.owner_chain.minimum(gated.pod.labels, asked)


class _Agreeing:
    """The steps for one gang; each removes the members that do not agree."""

    def __init__(
        self,
        gang: GatedGang,
        assigned_members: Mapping[str, AssignedMember],
        topologies: Mapping[str, Topology],
        pod_groups: Mapping[str, UserPodGroup],
    ) -> None:
        self._gang = gang
        self._members = sorted(gang.members, key=lambda gated: (gated.pod.created, gated.key))
        self._assigned_members = dict(assigned_members)
        self._topologies = topologies
        self._pod_groups = pod_groups
        self._disagreeing: dict[str, NoAssignment] = {}

    def run(self) -> Agreement:
        """Steps 1 to 6."""
        self._leave_out_others()
        if (group := self._pod_group()) is not None:
            return self._by_pod_group(group)
        self._leave_out_without_group()
        self._leave_out_faulty()
        self._settle_topology()
        minimum = self._settle_minimum()
        left = {gated.key for gated in self._members}
        members = tuple(gated for gated in self._gang.members if gated.key in left)
        return Agreement(replace(self._gang, members=members), minimum, self._assigned_members, self._disagreeing)

    @property
    def _is_defined(self) -> bool:
        """Step 5: whether an object defines the gang, so that its members' earlier requests do not count."""
        return self._gang.membership.of_object

    def _leave_out_others(self) -> None:
        """Step 1: remove the pods of other owners."""
        if self._gang.membership.of_object:
            return
        own = [gated for gated in self._members if gated.in_group_of_its_top]
        if not own:
            self._leave_out_strangers()
            return
        owners = {gated.owner.uid for gated in own if gated.owner}
        top = own[0].owner_chain.top if own[0].owner_chain else None
        whose = f"{top.kind} {top.name}" if top else "other owners"
        for gated in self._members:
            if not gated.in_group_of_its_top:
                self._is_none_of(gated, whose)
        self._members = own
        self._assigned_members = {
            key: member for key, member in self._assigned_members.items() if member.assigned or member.owner in owners
        }

    def _pod_group(self) -> UserPodGroup | None:
        """The PodGroup or PodGang that defines the gang; None for a gang of owners, and if there is none."""
        if self._is_defined:
            return None
        first = next((gated for gated in self._members if not gated.in_group_of_its_top), None)
        name = None if first is None else first.pod.annotations.get(POD_GROUP_NAME)
        return self._pod_groups.get(f"{first.pod.namespace}/{name}") if first is not None and name else None

    def _by_pod_group(self, group: UserPodGroup) -> Agreement:
        """The members that the PodGroup places."""
        self._members = [gated.without_default for gated in self._members]
        for gated, text in faults_of(self._members, group, self._topologies):
            self._waits(gated, "PodGroup", text)
        members = tuple(
            gated for gated in (one.without_default for one in self._gang.members) if gated.key not in self._disagreeing
        )
        gang = replace(self._gang, members=members, pod_group=group)
        return Agreement(gang, group.whole.minimum, self._assigned_members, self._disagreeing)

    def _leave_out_without_group(self) -> None:
        """Remove the members that name a subgroup: their PodGroup does not exist yet, or no longer."""
        for gated in self._members:
            labels, asked = gated.pod.labels, gated.pod.annotations
            name = subgroup_of(labels, asked)
            of_group = gated.pod.annotations.get(POD_GROUP_NAME) and not gated.in_group_of_its_top
            if name and of_group and not self._is_defined:
                path = f"metadata.labels[{subgroup_label(labels, asked)}]"
                kind = "PodGang" if is_in_pod_gang(labels, asked) else "PodGroup"
                text = f'{path} is "{shortened(name)}", and the {kind} does not exist. Create it'
                self._waits(gated, "no PodGroup", text)
        self._members = [gated for gated in self._members if gated.key not in self._disagreeing]

    def _leave_out_strangers(self) -> None:
        """Step 1 if no pod of the gang's owners exists yet: other pods wait although the gang has no members.

        If one of them were assigned first, it would hold the members that come later to its domain.
        """
        name = self._gang.membership.name
        if not _MADE_BY_OWNERS.fullmatch(name):
            return
        for gated in self._members:
            uids = {gated.pod.uid, gated.owner.uid if gated.owner else ""} - {""}
            if not any(uid in name for uid in uids):
                self._is_none_of(gated, "other owners")
        self._members = [gated for gated in self._members if gated.key not in self._disagreeing]

    def _is_none_of(self, gated: GatedPod, whose: str) -> None:
        self._waits(
            gated,
            "stranger",
            f"{_PATH}[{POD_GROUP_NAME}] names the gang of the pods of {whose}, and this pod is not one of them. "
            "Name another gang",
        )

    def _leave_out_faulty(self) -> None:
        """Step 2: remove the members with an invalid request."""
        faults: dict[tuple[Wishes, int, str], str] = {}
        for gated in self._members:
            key = wishes_of(gated.pod.annotations), id(gated.owner_chain), gated.group_fault
            if key not in faults:
                faults[key] = self._fault(gated)
            if faults[key]:
                self._waits(gated, "faulty", faults[key])
        self._members = [gated for gated in self._members if gated.key not in self._disagreeing]

    def _fault(self, gated: GatedPod) -> str:
        if gated.group_fault:
            return gated.group_fault
        asked = gated.pod.annotations, _PATH
        try:
            topology = topology_of(gated.pod.annotations, self._topologies)
            rank = None if gated.membership is None else gated.membership.rank
            request, segments = topology_request(asked), WorkloadPodSets.of(gated).asked(gated, rank, _PATH)
            if request.levels:
                request.resolve(topology)
            if segments is not None:
                segments.resolve(topology)
            strategy_of(*asked)
            minimum_of(gated)
        except UserError as error:
            return " ".join(map(str, error.faults))
        return ""

    def _settle_topology(self) -> None:
        """Step 3: remove the members with another topology, pod set by pod set."""
        pod_sets: dict[range | None, list[GatedPod]] = {}
        for gated in self._members:
            pod_sets.setdefault(ranks_of_pod_set(gated), []).append(gated)
        for members in pod_sets.values():
            self._settle_topology_of(members)
        self._members = [gated for gated in self._members if gated.key not in self._disagreeing]

    def _settle_topology_of(self, members: Sequence[GatedPod]) -> None:
        said = [dict(member.wishes).get(KAI_TOPOLOGY) or None for member in self._assigned_members.values()]
        # Changes of owners apply while their pods wait: the annotations of assigned members may be an earlier request.
        of_owners = self._is_defined or any(gated.in_group_of_its_top for gated in members)
        own = [gated.pod.annotations.get(KAI_TOPOLOGY) or None for gated in members]
        named = [name for name in (own if of_owners else [*said, *own]) if name]
        if len(set(named)) < 2:
            return
        chosen = most_said(named)
        for gated in members:
            name = gated.pod.annotations.get(KAI_TOPOLOGY)
            if name and name != chosen:
                self._differs(gated, KAI_TOPOLOGY, name, chosen or "", "pods of one kind have one topology")

    def _settle_minimum(self) -> int:
        """Steps 4 and 6: return the minimum, and remove the members with another one that must wait."""
        members = self._members
        if not members:
            return 1
        owner_chain = members[0].owner_chain
        known = members[0].in_group_of_its_top and owner_chain is not None and owner_chain.gang(members[0].pod.labels)
        if known and owner_chain is not None and owner_chain.raw is not None:
            of_top = asked_minimum(owner_chain.raw["metadata"]["annotations"])
            if of_top is not None:
                return owner_chain.minimum(members[0].pod.labels, of_top)
            return most_said([minimum_of(gated) for gated in members]) or 1
        there = len(members) + len(self._assigned_members)
        of_owners = self._is_defined or members[0].in_group_of_its_top
        said = [] if of_owners else [said_minimum(member) for member in self._assigned_members.values()]
        chosen = most_said([*said, *(asked_minimum(gated.pod.annotations) for gated in members)])
        if not of_owners:
            self._assigned_members = {
                key: member for key, member in self._assigned_members.items() if said_minimum(member) in {None, chosen}
            }
        has_begun = chosen is None or bool(self._assigned_members)
        for gated in members:
            asked = asked_minimum(gated.pod.annotations)
            if asked not in {None, chosen} and not (has_begun and there >= (asked or 0)):
                key = MIN_MEMBER if gated.pod.annotations.get(MIN_MEMBER) else KAI_BATCH_MIN_MEMBER
                theirs = "not set" if chosen is None else str(chosen)
                self._differs(gated, key, str(asked), theirs, counted(there, "pod is there", "pods are there"))
        self._members = [gated for gated in members if gated.key not in self._disagreeing]
        return chosen or 1

    def _differs(self, gated: GatedPod, name: str, value: str, theirs: str, why: str) -> None:
        others = f'"{shortened(theirs)}"' if theirs != "not set" else theirs
        text = f'{_PATH}[{name}] is "{shortened(value)}" and that of the other members is {others}; {why}'
        self._waits(gated, f"differs in {name}", text)

    def _waits(self, gated: GatedPod, kind: str, text: str) -> None:
        waiting = placement_text.waiting(f"gang {self._gang.membership.name}: {text}")
        self._disagreeing[gated.key] = NoAssignment(
            frozenset({kind, text}), placement_text.shortened(waiting), WaitReason.GANG_INVALID
        )
