"""What a group of pods asks of a topology, in the tree's own terms: levels are numbers, nodes are positions."""

from dataclasses import dataclass
from typing import Final

from webhook.engine.topology.tree import ROOT
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Constraint:
    """How close pods must and should be. Levels of the tree; preferred, if both stand, is at least as fine."""

    required: int | None = None
    """One domain of this level holds all of them, or they are not placed."""
    preferred: int | None = None
    """One domain of this level should; else as few of them as can be."""

    @property
    def bound(self) -> int:
        """The level at which one domain has to hold all: the root if nothing is required."""
        return ROOT if self.required is None else self.required

    def within(self, level: int) -> "Constraint":
        """The same inside one domain of a level."""
        return Constraint(max(self.bound, level), self.preferred)

    def levels(self) -> range:
        """The levels to look for one domain at, in order: preferred first, then coarser up to the bound."""
        finest = self.bound if self.preferred is None else max(self.preferred, self.bound)
        return range(finest, self.bound - 1, -1)


ANYWHERE: Final = Constraint()
"""No wish: still kept together as far as that costs nothing."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Pods in order of rank, cut into segments of `size`; each segment within one domain. The last may be smaller."""

    size: int
    constraint: Constraint
    first: int = 0
    """The rank with which the first segment begins."""

    def number_of(self, rank: int) -> int:
        """The number of the segment that a rank belongs to."""
        return (rank - self.first) // self.size


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a set."""

    name: str
    rank: int
    """Its place in the order of the set: completion index, replica index, or place in the order of names."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template. All names are unique in the group."""

    name: str
    pod: Pod
    """What each of them asks for."""
    intent: NUMAIntent
    members: tuple[Member, ...]
    """The pods to place, in order of rank."""
    minimum: int
    """How many of them the group cannot do without; the rest is placed as far as it fits."""
    segments: Segments | None = None
    running: tuple[tuple[int, str], ...] = ()
    """(rank, node name) of members that run already."""
    preferring: tuple[tuple[Pod, int], ...] = ()
    """Where members prefer different nodes: one of each kind, and how many there are of it; () = all as `pod` does."""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that are placed together, or a part of them with a constraint of its own."""

    name: str
    constraint: Constraint = ANYWHERE
    sets: tuple[PodSet, ...] = ()
    subgroups: tuple["PodGroup", ...] = ()

    def all_sets(self) -> tuple[PodSet, ...]:
        """The sets of the group and of all groups below."""
        return self.sets + tuple(podset for subgroup in self.subgroups for podset in subgroup.all_sets())
