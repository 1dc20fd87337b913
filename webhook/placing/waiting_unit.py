"""The units that wait behind our gate: single pods, and gangs with those members that are placed together.

1. A unit preempts up to its priority: the pod's, or for a gang the lowest of its waiting members and of its PodGroup. A
   tenant may use a high PriorityClass for one member, or for the PodGroup, alone.
2. `preemptionPolicy: Never` of any member is respected. The API server copies it from the PriorityClass.
3. A pod whose node only the scheduler can choose does not preempt here: it might not be able to use the freed place.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.formats.kubernetes.membership import AssignedMember, Membership
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod

Unit = GatedPod | GatedGang
"""As the leader's cycle collects it: a gang with all members that are ready."""

_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A single pod, or a gang with the members that are placed together."""

    unit: Unit
    minimum: int = 1
    """How many members must start together, with those that are assigned."""
    assigned: Mapping[str, AssignedMember] = field(default_factory=dict)
    """The members that have a node, by namespace/name."""
    reserved: frozenset[str] = frozenset()
    """Nodes that were reserved for gangs that have waited long when it did not fit."""

    @property
    def name(self) -> str:
        """Equal for versions of the same pod or gang only."""
        return name_of(self.unit)

    @property
    def kind(self) -> Hashable:
        """Equal for units with the same result: pods of one signature and priority."""
        if isinstance(self.unit, GatedGang):
            return self.name
        return self.unit.request_signature, priority_of(self.unit)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.members[0].pod.namespace

    @property
    def priority(self) -> int:
        """Only pods of a lower one may be preempted for it."""
        return priority_of(self.unit)

    @property
    def members(self) -> tuple[GatedPod, ...]:
        """Its waiting pods."""
        return members_of(self.unit)

    @property
    def text(self) -> str:
        """What it is, for messages in its own namespace."""
        return f"{self.kind_of_object} {self.shown_name}"

    @property
    def kind_of_object(self) -> str:
        """What it is, for people."""
        return "gang" if isinstance(self.unit, GatedGang) else "pod"

    @property
    def shown_name(self) -> str:
        """Its name in its namespace, for people."""
        return self.unit.membership.name if isinstance(self.unit, GatedGang) else self.unit.pod.name

    def unseen_from(self, key: str) -> str:
        """What it is, for the owner of the pod namespace/name. Other tenants do not see its name.

        Source: kubernetes pkg/scheduler/framework/preemption (the event "Preempted" has only the uid).
        """
        first = self.members[0].pod
        if key.partition("/")[0] == first.namespace:
            return f"{self.text} of priority {self.priority}"
        return f"pod {first.uid} of priority {self.priority}"

    @property
    def why_not(self) -> str | None:
        """Why it must not preempt; None if it may."""
        for member in self.members:
            if member.raw["spec"].get("preemptionPolicy") == _NEVER:
                return "its preemptionPolicy is Never"
            if (why := member.delegated_why) is not None:
                return f"only the scheduler can judge its {why}"
        return None


def units_of(pods: Iterable[GatedPod]) -> list[Unit]:
    """Single pods, and the members of each gang together, in order; `pods` are in order."""
    gangs: dict[str, list[GatedPod]] = {}
    memberships: dict[str, Membership] = {}
    units: list[Unit] = []
    for gated in pods:
        if gated.membership is None:
            units.append(gated)
        else:
            memberships.setdefault(gated.membership.group, gated.membership)
            gangs.setdefault(gated.membership.group, []).append(gated)
    units += [GatedGang(memberships[group], tuple(members)) for group, members in gangs.items()]
    return sorted(units, key=lambda unit: unit.order)


def name_of(unit: Unit) -> str:
    """The key of a pod or gang."""
    return f"gang {unit.membership.group}" if isinstance(unit, GatedGang) else f"pod {unit.pod.uid}"


def members_of(unit: Unit) -> tuple[GatedPod, ...]:
    """The waiting pods of a unit."""
    return unit.members if isinstance(unit, GatedGang) else (unit,)


def priority_of(unit: Unit) -> int:
    """The priority up to which it may preempt, and with which its place is held."""
    return min(min(member.pod.priority, -member.order[0]) for member in members_of(unit))
