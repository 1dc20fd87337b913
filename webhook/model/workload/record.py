"""A workload as groups of pods: who belongs together, how many, in what order, and what they ask of a topology.

Read from the specs of the kinds that KAI-Scheduler's pod grouper knows, with its minimum per kind; one module for each
family of kinds, beside this one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from webhook.model.workload.topology_request import NO_REQUEST, SegmentRequest, TopologyRequest

_REMEMBERED: Final = 128

Annotations = tuple[Mapping[str, str], str]
"""Annotations, and their place in the object."""


@dataclass(frozen=True, slots=True)
class WorkloadPodSet:
    """Pods of one template, in order of rank: the launcher, the workers, a replicated job."""

    name: str
    pods: Sequence[str]
    """Names by rank, as the controller makes them; where it adds a random suffix, without it."""
    minimum: int
    """Without so many of them none starts."""
    template: Mapping[str, Any]
    """The pod template."""
    path: str
    """The template's place in the object, for messages."""
    segments: SegmentRequest | None = None
    between: tuple[Annotations, ...] = ()
    """Those that stand between the template and the workload: on a CronJob's template of Jobs."""
    late: int = 0
    """Of the pods, those that are only made when others run: nothing can wait for them."""
    at_once_by: str = ""
    """What makes them at once when it stands in the object, for messages."""
    order: int = 0
    """Its place among the roles of the gang: ranks go on from role to role."""
    cut: bool = False
    """Whether its kind says which pods are a segment: what stands on a pod says so in part only."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together, or a part of them with a request of its own."""

    name: str
    request: TopologyRequest = NO_REQUEST
    pod_sets: tuple[WorkloadPodSet, ...] = ()
    gangs: tuple["Gang", ...] = ()
    """Parts with a request of their own."""
    segment: bool = False
    """Whether it is one segment, of several roles."""

    @property
    def size(self) -> int:
        """Pods in the gang and its parts."""
        return sum(len(pod_set.pods) for pod_set in self.pod_sets) + sum(gang.size for gang in self.gangs)

    @property
    def minimum(self) -> int:
        """Pods without which none starts."""
        return sum(pod_set.minimum for pod_set in self.pod_sets) + sum(gang.minimum for gang in self.gangs)

    @property
    def at_once(self) -> int:
        """Pods that are made without any of them running."""
        return sum(len(pod_set.pods) - pod_set.late for pod_set in self.all_pod_sets())

    def all_pod_sets(self) -> tuple[WorkloadPodSet, ...]:
        """The roles of the gang and its parts."""
        return self.pod_sets + tuple(pod_set for gang in self.gangs for pod_set in gang.all_pod_sets())

    def by_rank(self) -> Iterator[tuple[range, WorkloadPodSet]]:
        """The roles in order, each with the ranks of its pods in the gang."""
        start = 0
        for pod_set in sorted(self.all_pod_sets(), key=lambda pod_set: pod_set.order):
            yield range(start, start + len(pod_set.pods)), pod_set
            start += len(pod_set.pods)


class Replicas(Sequence[Gang]):
    """Gangs that are equal but for their names, each made when it is asked for."""

    __slots__ = ("_count", "_gang", "_made")

    def __init__(self, count: int, gang: Callable[[int], Gang]) -> None:
        """gang: makes one by its index."""
        self._count = count
        self._gang = gang
        self._made: dict[int, Gang] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Gang: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Gang]: ...
    def __getitem__(self, index: int | slice) -> Gang | Sequence[Gang]:
        chosen = range(self._count)[index]
        return self._one(chosen) if isinstance(chosen, int) else tuple(map(self._gang, chosen))

    def _one(self, index: int) -> Gang:
        gang = self._made.get(index)
        if gang is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            gang = self._made[index] = self._gang(index)
        return gang

    def each(self, change: Callable[[Gang], Gang]) -> "Replicas":
        """The same, each changed."""
        return Replicas(self._count, lambda index: change(self._gang(index)))


@dataclass(frozen=True, slots=True)
class Workload:
    """One object that makes pods."""

    kind: str
    namespace: str
    name: str
    uid: str
    gangs: Sequence[Gang]
    """Groups that start independently of each other: each replica of a LeaderWorkerSet is one."""
    annotations: Mapping[str, str]
    """Of the object itself; those of a pod template go before them."""

    @property
    def distinct(self) -> Sequence[Gang]:
        """The gangs without those that are equal to the first but for their names."""
        return self.gangs[:1] if isinstance(self.gangs, Replicas) else self.gangs
