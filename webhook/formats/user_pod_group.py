"""A gang as an object of its users defines it: a PodGroup of KAI-Scheduler (`kai`), or a PodGang of Grove (`grove`).

    PodGroup train            rack of network
    ├─ pair                   spine
    │  ├─ leader              1 pod
    │  └─ worker              4 pods
    └─ loader                 2 pods

Each reader builds the same record, so that such gangs are placed, and explained, by the same rules. An object with a
fault is kept with the fault, so that its own pods can report it.

A pod names the object in the annotation `pod-group-name`, and its subgroup in a label (`subgroup_of`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.formats.topology import LABEL_TOPOLOGIES, Topology
from webhook.formats.workload.topology_request import Levels
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import GROVE_POD_CLIQUE, GROVE_POD_GANG, KAI_SUBGROUP, POD_GROUP_NAME
from webhook.model.wording import did_you_mean

MAX_SUBGROUPS: Final = 64
"""The most subgroups of one object. Each is placed by itself, which takes about a millisecond in a large cluster."""
LONGEST_NAME: Final = 63
"""Characters of a subgroup's name: it is the value of a label."""
LONGEST_OBJECT: Final = 253
"""Characters of a Topology's name: it is that of an object."""
_MOST_NAMED: Final = 10


def subgroup_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The subgroup that a pod names; empty if it names none."""
    return labels.get(subgroup_label(labels, annotations), "")


def subgroup_label(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The label in which a pod names its subgroup: KAI-Scheduler's, or Grove's for a pod whose gang is its PodGang."""
    return GROVE_POD_CLIQUE if is_in_pod_gang(labels, annotations) and KAI_SUBGROUP not in labels else KAI_SUBGROUP


def is_in_pod_gang(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod's gang is the PodGang that Grove made it for."""
    name = labels.get(GROVE_POD_GANG)
    return bool(name) and annotations.get(POD_GROUP_NAME) == name


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A subgroup, or the whole object, with its topology constraint."""

    name: str
    """Empty for the whole object."""
    minimum: int
    """How many of its pods start together: its own number, or the sum of the subgroups below."""
    path: str
    """The path of its topology constraint, for messages."""
    topology: str = ""
    required: str = ""
    preferred: str = ""
    parts: tuple["SubGroup", ...] = ()
    fields: tuple[str, str] = ("requiredTopologyLevel", "preferredTopologyLevel")
    """The fields of its constraint that name the two levels, for messages."""

    def resolve(self, topology: Topology) -> Levels:
        """Its levels in the topology. Raises UserError."""
        required, preferred = (
            topology.level(level, f"{self.path}.{key}") if level else None
            for level, key in zip((self.required, self.preferred), self.fields, strict=True)
        )
        if required is not None and preferred is not None and preferred < required:
            raise UserError(
                f"{self.path}.{self.fields[1]}",
                f'"{self.preferred}" is coarser than the required level "{self.required}". Prefer a finer one.',
            )
        return Levels(required, preferred)

    def all(self) -> Iterator["SubGroup"]:
        """Itself and all below."""
        yield self
        for part in self.parts:
            yield from part.all()


def check_topologies(part: SubGroup, above: str) -> None:
    """Raise UserError for a subgroup with another topology than one above it, the whole object left out."""
    if above and part.topology not in {"", above}:
        raise UserError(
            f"{part.path}.topology",
            f'"{shortened(part.topology)}" is another topology than "{shortened(above)}" of a subgroup above. Name the '
            "same, or take the subgroup out of that one.",
        )
    for each in part.parts:
        check_topologies(each, part.topology or above)


def topology_below(part: SubGroup, name: str, above: str) -> str | None:
    """The topology of the subgroup of this name, at or below a subgroup; None if it is not there."""
    here = part.topology or above
    if part.name == name and not part.parts:
        return here
    found = (topology_below(each, name, here) for each in part.parts)
    return next((one for one in found if one is not None), None)


@dataclass(frozen=True, slots=True)
class UserPodGroup:
    """One PodGroup or PodGang."""

    namespace: str
    name: str
    whole: SubGroup
    problems: tuple[str, ...] = ()
    """Its faults, as sentences; its pods wait for their correction."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    kind: str = "PodGroup"
    topology_path: str = ""
    """Where it names its only Topology; empty if each constraint does."""
    priority_class: str = ""
    """The priority class that it names beside its pods' own, which count; empty if it names none."""
    unused: tuple[str, ...] = ()
    """What else it asks for that has no effect here, as the placement of its pods says."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def shown(self) -> str:
        """What it is, for people: PodGroup train."""
        return f"{self.kind} {self.name}"

    def not_used(self, priority_classes: Iterable[str]) -> str:
        """A clause about what it asks for without effect; empty if there is nothing. priority_classes: its pods'."""
        unused = list(self.unused)
        if self.priority_class and any(own != self.priority_class for own in priority_classes):
            unused.append(f'its priority class "{shortened(self.priority_class)}" (that of each pod counts)')
        return f"not used of {self.shown}: {', '.join(unused)}" if unused else ""

    @property
    def topology(self) -> str:
        """The name of its Topology, the first if its subgroups name several; empty if no constraint names one."""
        return next(iter(self.topologies), "")

    @property
    def topologies(self) -> tuple[str, ...]:
        """The names of the Topologies of its constraints, that of the whole first."""
        return tuple(dict.fromkeys(part.topology for part in self.whole.all() if part.topology))

    def topology_at(self, subgroup: str) -> str:
        """The name of the Topology of a subgroup's pods: its own, that of the nearest one above, or the whole's."""
        return topology_below(self.whole, subgroup, self.topology) or self.topology

    def topology_in(self, topologies: Mapping[str, Topology]) -> Topology | None:
        """Its Topology; None if it names none. Raises UserError if that or one of its levels does not exist."""
        if not self.topology:
            return None
        # All names first: the levels of a part may be those of a Topology that another part names.
        for part in self.whole.all():
            if part.topology and part.topology not in topologies:
                known = ", ".join(sorted(topologies.keys() - LABEL_TOPOLOGIES)[:_MOST_NAMED]) or "none"
                raise UserError(
                    self.topology_path or f"{part.path}.topology",
                    f'There is no topology "{shortened(part.topology)}". Those of this cluster: {known}.'
                    f"{did_you_mean(part.topology, topologies)}",
                )
        for part in self.whole.all():
            part.resolve(topologies[part.topology or self.topology])
        return topologies[self.topology]

    def leaf(self, named: str, path: str) -> str:
        """The subgroup of a pod that names this one; empty if there are no subgroups. Raises UserError.

        path: that of the label which names it.
        """
        leaves = [part.name for part in self.whole.all() if not part.parts and part.name]
        if not leaves and named:
            raise UserError(path, f'"{shortened(named)}" is no subgroup: {self.shown} has none. Remove the label.')
        if named in leaves:
            return named
        if not leaves:
            return ""
        listed = f"{', '.join(leaves[:_MOST_NAMED])}{', …' if len(leaves) > _MOST_NAMED else ''}"
        if not named:
            raise UserError(path, f"This is missing. {self.shown} has the subgroups {listed}. Name one of them.")
        inner = any(part.name == named for part in self.whole.all())
        why = "has subgroups itself" if inner else f"is no subgroup of {self.shown}"
        meant = "" if inner else did_you_mean(named, leaves)
        raise UserError(path, f'"{shortened(named)}" {why}. Pods may be in: {listed}.{meant}')
