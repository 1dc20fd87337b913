"""A waiting pod or gang as preemption sees it.

1. Its priority is the pod's; for a gang the lowest of its waiting members and of its PodGroup: a tenant may use a high
   PriorityClass for one member, or for the PodGroup, alone.
2. `preemptionPolicy: Never` of any member is respected. The API server copies it from the PriorityClass.
3. A pod whose node only the scheduler can choose does not preempt here: it might not be able to use the freed place.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.formats.kubernetes.membership import AssignedMember
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod

_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A single pod or a gang that fits nowhere now."""

    unit: GatedPod | GatedGang
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
        """Equal for preemptors with the same result: pods of one signature and priority."""
        if isinstance(self.unit, GatedGang):
            return self.name
        return self.unit.request_signature, priority_of(self.unit)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.members[0].pod.namespace

    @property
    def priority(self) -> int:
        """Only pods of a lower one may end for it."""
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
        return "group" if isinstance(self.unit, GatedGang) else "pod"

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


def name_of(unit: GatedPod | GatedGang) -> str:
    """The key of a pod or gang."""
    return f"group {unit.membership.group}" if isinstance(unit, GatedGang) else f"pod {unit.pod.uid}"


def members_of(unit: GatedPod | GatedGang) -> tuple[GatedPod, ...]:
    """The waiting pods of a unit."""
    return unit.members if isinstance(unit, GatedGang) else (unit,)


def priority_of(unit: GatedPod | GatedGang) -> int:
    """The priority up to which it may preempt, and with which its place is held."""
    return min(min(member.pod.priority, -member.order[0]) for member in members_of(unit))
