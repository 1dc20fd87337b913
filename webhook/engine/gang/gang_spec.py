"""A gang's request in the terms of a tree: levels are numbers, nodes are positions.

A `Gang` has two sources, because they know different things:
- The templates of a workload (`workload_gang`), for `review` and the validation of workloads: all pods are known by
  name, and each pod set has its own minimum.
- The gated pods of the cluster (`placing.gang.pod_sets`): only existing pods are known, some members already
  have a node or a segment, and the minimum is that of the whole gang.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from webhook.engine.topology.tree import ROOT, TopologyTree
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import Topology
from webhook.formats.workload.topology_request import Levels, SegmentRequest
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True)
class Constraint:
    """How close pods must and should be, as levels of the tree. If both are set, preferred is at least as fine."""

    required: int | None = None
    """One domain of this level must hold all of them."""
    preferred: int | None = None
    """One domain of this level should hold all of them; else as few as possible."""

    @classmethod
    def of(cls, levels: Levels) -> "Constraint":
        """The constraint by levels of a topology, whose tree has the root above them."""
        return cls(*(None if level is None else level + 1 for level in (levels.required, levels.preferred)))

    @property
    def bound(self) -> int:
        """The level at which one domain must hold all pods: the root if nothing is required."""
        return ROOT if self.required is None else self.required

    def within(self, level: int) -> "Constraint":
        """The same constraint inside one domain of a level."""
        return Constraint(max(self.bound, level), self.preferred)

    def levels(self) -> range:
        """The levels to try in order: preferred first, then coarser up to the bound."""
        finest = self.bound if self.preferred is None else max(self.preferred, self.bound)
        return range(finest, self.bound - 1, -1)


ANYWHERE: Final = Constraint()
"""No request: still kept together if that costs nothing."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments of `size` pods in order of rank, each within one domain. The last may be smaller."""

    size: int
    constraint: Constraint
    first: int = 0
    """The first rank of the first segment."""
    inner: "Segments | None" = None
    """Smaller segments in each of these, with a finer required level, whose size divides this one."""

    @classmethod
    def of(cls, request: SegmentRequest, topology: Topology, first: int = 0) -> "Segments":
        """The requested segments in a topology, whose tree has the root above its levels. Raises UserError."""
        inner = None if request.inner is None else cls.of(request.inner, topology, first)
        return cls(request.size, Constraint.of(request.resolve(topology)), first, inner)

    def layers(self) -> "tuple[Segments, ...]":
        """These, and those inside them, from coarse to fine."""
        return (self, *(() if self.inner is None else self.inner.layers()))

    @property
    def finest(self) -> "Segments":
        """The smallest of them."""
        return self.layers()[-1]

    def number_of(self, rank: int) -> int:
        """The number of a rank's segment."""
        return (rank - self.first) // self.size


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a pod set."""

    name: str
    rank: int
    """Its position in the gang, over all pod sets; by completion index, replica index, or name."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template. All names are unique in the gang."""

    name: str
    pod: Pod
    """A pod with the request of each of them."""
    intent: NUMAIntent
    members: tuple[Member, ...]
    """The pods to place, in order of rank."""
    minimum: int
    """The minimum of these pods; the others are placed if they fit."""
    segments: Segments | None = None
    running: tuple[tuple[int, str], ...] = ()
    """(rank, node name) of members that already run."""
    preferring: tuple[tuple[Pod, int], ...] = ()
    """If members prefer different nodes: one pod of each kind, and their number; () = all as `pod` does."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed together, or a subgroup of them with its own constraint."""

    name: str
    constraint: Constraint = ANYWHERE
    sets: tuple[PodSet, ...] = ()
    subgroups: tuple["Gang", ...] = ()
    strategy: GangStrategy | None = None
    """The strategy that it names itself; None: the service's. A subgroup has none of its own."""
    elsewhere: "tuple[OtherTopology, ...]" = ()
    """Its parts in other topologies, one for each of them; a subgroup has none."""

    def own_sets(self) -> tuple[PodSet, ...]:
        """The pod sets of the gang and all its subgroups, without those in other topologies."""
        return self.sets + tuple(podset for subgroup in self.subgroups for podset in subgroup.own_sets())

    def all_sets(self) -> tuple[PodSet, ...]:
        """The pod sets of the gang, all its subgroups and its parts in other topologies."""
        return self.own_sets() + tuple(podset for part in self.elsewhere for podset in part.gang.own_sets())


@dataclass(frozen=True, slots=True)
class OtherTopology:
    """The subgroups of a gang that are in another topology than the gang."""

    tree: TopologyTree
    gang: Gang
    """These subgroups; a single one stands for itself."""

    @classmethod
    def of(cls, tree: TopologyTree, subgroups: Sequence[Gang]) -> "OtherTopology":
        """The part of these subgroups."""
        if len(subgroups) == 1:
            return cls(tree, subgroups[0])
        return cls(tree, Gang(", ".join(subgroup.name for subgroup in subgroups), subgroups=tuple(subgroups)))
