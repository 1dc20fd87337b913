"""A gang divided into slices that are placed one by one: pods of one class under the same constraints.

1. Pod sets whose pods have the same request are of one class.
2. Members of a segment that already runs in part are a slice of their own: they belong beside its running members. If
   it consists of smaller segments, the same holds for each of these.
3. The rest of the pod set is another slice. A minimum that ends inside a segment includes the whole segment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Gang, PodSet, Segments
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.request import cpu_bind
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, eq=False)
class PodSlice:
    """Pods of one class, placed as one."""

    podset: PodSet
    pod_class: PodClass
    members: Amounts
    """int64 [n]: indexes of the pod set's members, in order of rank."""
    minimum: int
    constraint: Constraint
    """For a slice of a segment, the segment's constraint."""
    segments: Segments | None
    running: Amounts | None
    """int64 [position]: members that already run and hold or attract these; None = none."""


@dataclass(frozen=True, slots=True, eq=False)
class SlicedGang:
    """A gang or subgroup as slices."""

    constraint: Constraint
    pod_slices: tuple[PodSlice, ...]
    subgroups: tuple["SlicedGang", ...]
    running: Amounts | None
    """int64 [position]: running members of the subgroup."""

    def all_slices(self) -> tuple[PodSlice, ...]:
        """The slices of the subgroup and of all below."""
        return self.pod_slices + tuple(pod_slice for subgroup in self.subgroups for pod_slice in subgroup.all_slices())


def pods_by_class(pod_slices: Iterable[PodSlice], pods: Callable[[PodSlice], int]) -> list[tuple[PodClass, int]]:
    """The classes of these slices, each with its number of pods. pods: how many of a slice count."""
    found: dict[int, tuple[PodClass, int]] = {}
    for pod_slice in pod_slices:
        _, before = found.get(id(pod_slice.pod_class), (pod_slice.pod_class, 0))
        found[id(pod_slice.pod_class)] = pod_slice.pod_class, before + pods(pod_slice)
    return list(found.values())


def slice_gang(snapshot: Snapshot, tree: TopologyTree, gang: Gang) -> SlicedGang:
    """Divide the gang into slices."""
    return _sliced(gang, _Cutter(snapshot, tree))


class _Cutter:
    def __init__(self, snapshot: Snapshot, tree: TopologyTree) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._pod_classes: list[tuple[PodSet, PodClass]] = []

    def pod_class(self, podset: PodSet) -> PodClass:
        """The class of a pod set's pods, shared with pod sets of the same request."""
        for other, pod_class in self._pod_classes:
            if _asks_the_same(podset, other):
                return pod_class
        pod_class = PodClass.of(self._snapshot, podset.pod, podset.intent)
        self._pod_classes.append((podset, pod_class))
        return pod_class

    def running(self, nodes: Sequence[str]) -> Amounts | None:
        """int64 [position]: how many of these node names are at each position; None = none of them is known."""
        index = self._snapshot.node_arrays.index
        known = [index[name] for name in nodes if name in index]
        return np.bincount(self._tree.positions()[known], minlength=self._tree.n) if known else None


def _sliced(gang: Gang, cutter: _Cutter) -> SlicedGang:
    names = [name for podset in gang.all_sets() for _, name in podset.running]
    return SlicedGang(
        gang.constraint,
        tuple(pod_slice for podset in gang.sets for pod_slice in _pod_slices(podset, cutter)),
        tuple(_sliced(subgroup, cutter) for subgroup in gang.subgroups),
        cutter.running(names),
    )


def _pod_slices(podset: PodSet, cutter: _Cutter) -> list[PodSlice]:
    pod_class = cutter.pod_class(podset)
    everyone = np.arange(len(podset.members))
    if podset.segments is None or not podset.running:
        running = cutter.running([name for _, name in podset.running])
        return [PodSlice(podset, pod_class, everyone, _in_whole_segments(podset), ANYWHERE, podset.segments, running)]
    pod_slices = []
    minimum = podset.minimum
    for part in _parts(podset, _Part(everyone.tolist(), ANYWHERE, podset.segments, podset.running)):
        needed = min(len(part.members), minimum)
        minimum -= needed
        running = cutter.running([name for _, name in part.running])
        members = np.array(part.members, dtype=np.int64)
        pod_slices.append(PodSlice(podset, pod_class, members, needed, part.constraint, part.segments, running))
    return pod_slices


def _in_whole_segments(podset: PodSet) -> int:
    """The minimum of a pod set of which no pod runs. One that ends inside a segment includes the whole segment."""
    size = 1 if podset.segments is None else podset.segments.size
    return min(-(-podset.minimum // size) * size, len(podset.members))


class _Part(NamedTuple):
    """Members of a pod set under one constraint."""

    members: list[int]
    constraint: Constraint
    segments: Segments | None
    running: Sequence[tuple[int, str]]


def _parts(podset: PodSet, part: _Part) -> Iterator[_Part]:
    """Steps 2 and 3 for the members of a part: those of segments that run in part first."""
    segments = part.segments
    if segments is None:
        yield part
        return
    begun: dict[int, list[tuple[int, str]]] = {}
    for rank, name in part.running:
        begun.setdefault(segments.number_of(rank), []).append((rank, name))
    waiting: dict[int, list[int]] = {}
    for index in part.members:
        waiting.setdefault(segments.number_of(podset.members[index].rank), []).append(index)
    for number, running in sorted(begun.items()):
        if members := waiting.get(number):
            yield from _parts(podset, _Part(members, segments.constraint, segments.inner, running))
    if rest := [index for number, members in waiting.items() if number not in begun for index in members]:
        yield part._replace(members=rest)


def _asks_the_same(one: PodSet, other: PodSet) -> bool:
    left, right = one.pod, other.pod
    return (
        one.intent == other.intent
        and cpu_bind(left, one.intent) == cpu_bind(right, other.intent)
        and [(c.kind, c.requests, c.limits) for c in left.containers]
        == [(c.kind, c.requests, c.limits) for c in right.containers]
        and (left.overhead, left.pod_level, left.qos, left.requests)
        == (right.overhead, right.pod_level, right.qos, right.requests)
        and (left.node_selector, left.required_terms, left.tolerations)
        == (right.node_selector, right.required_terms, right.tolerations)
    )
