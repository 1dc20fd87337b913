"""A workload as gangs of pods: which pods belong together, their number and order, and the topology they request.

Read from the specs of the kinds that KAI-Scheduler's pod grouper knows, with its minimum per kind. Each family of
kinds has a module in this package. The order of pods is that of their ranks (`rank_of`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from re import compile as pattern
from typing import Any, Final, overload

from webhook.formats.workload.topology_request import NO_REQUEST, SegmentRequest, TopologyRequest
from webhook.model.fields import whole_number
from webhook.model.names import (
    GROVE_POD_INDEX,
    JOB_COMPLETION_INDEX,
    KAI_POD_INDEX_LABEL,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    RAY_NODE_TYPE,
    STATEFUL_SET_POD_INDEX,
)
from webhook.model.resources import NO_RESOURCES

RANK_KEYS: Final = (
    JOB_COMPLETION_INDEX,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    STATEFUL_SET_POD_INDEX,
    GROVE_POD_INDEX,
)
"""The labels and annotations with the index that a controller sets, the first one of a pod counts."""
# The API server appends five characters to a generated name; all of them may be digits.
_LAST_NUMBER: Final = pattern(r"-(\d{1,4})$")


def rank_of(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> int | None:
    """The rank of a pod in its workload, from what its controller wrote on it; None if it has none.

    1. The label that the user names in kai.scheduler/pod-index-label.
    2. The index that its controller sets: completion index, replica index, worker index, StatefulSet ordinal, PodClique
       index. Ray's head is the first.
    3. The number at the end of its name.

    Pods without a rank come after the others, sorted by name.
    """
    chosen = annotations.get(KAI_POD_INDEX_LABEL)
    for key in (chosen, *RANK_KEYS) if chosen else RANK_KEYS:
        text = labels.get(key) or annotations.get(key) or ""
        if (rank := whole_number(text)) is not None:
            return rank
    if labels.get(RAY_NODE_TYPE) == "head":
        return 0
    ending = _LAST_NUMBER.search(name)
    return int(ending.group(1)) if ending else None


class PodNames(Sequence[str]):
    """Names of pods by rank, each created on demand: `prefix-index`, or `prefix-job-pod` for jobs of several pods each.

    A line of YAML can request 150,000 pods. As strings their names take 10 MiB, even if only their number is needed.
    """

    __slots__ = ("_each", "_indexes", "_prefix")

    def __init__(self, prefix: str, indexes: range, each: int | None = None) -> None:
        """indexes: of the pods, ascending without gaps; each: pods of a job."""
        self._prefix = prefix
        self._indexes = indexes
        self._each = each

    @property
    def prefix(self) -> str:
        """The prefix of all names, up to the last common dash."""
        return self._prefix

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[str]:
        return map(self._name, self._indexes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "PodNames": ...
    def __getitem__(self, index: int | slice) -> "str | PodNames":
        if isinstance(index, slice):
            return PodNames(self._prefix, self._indexes[index], self._each)
        return self._name(self._indexes[index])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.rank(name) is not None

    def rank(self, name: str) -> int | None:
        """The index of a name, or None if it is not one of them. Constant time."""
        if not name.startswith(f"{self._prefix}-"):
            return None
        numbers = [whole_number(text) for text in name[len(self._prefix) + 1 :].split("-", 2)]
        if self._each is None:
            index = numbers[0] if len(numbers) == 1 else None
        else:
            job, pod = numbers if len(numbers) == 2 else (None, None)
            index = None if job is None or pod is None or pod >= self._each else job * self._each + pod
        # Numbers with leading zeros are other names.
        if index is None or index not in self._indexes or self._name(index) != name:
            return None
        return self._indexes.index(index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))

    def __hash__(self) -> int:
        return hash((self._prefix, self._indexes, self._each))

    def __repr__(self) -> str:
        return f"PodNames({self._prefix!r}, {self._indexes!r}, {self._each!r})"

    def _name(self, index: int) -> str:
        if self._each is None:
            return f"{self._prefix}-{index}"
        job, pod = divmod(index, self._each)
        return f"{self._prefix}-{job}-{pod}"


_REMEMBERED: Final = 128

Annotations = tuple[Mapping[str, str], str]
"""Annotations and their path in the object."""


@dataclass(frozen=True, slots=True)
class WorkloadPodSet:
    """Pods of one template, in order of rank: the launcher, the workers, a replicated job."""

    name: str
    pods: Sequence[str]
    """Names by rank, as the controller creates them, without a random suffix."""
    minimum: int
    """None of the pods starts with fewer than this."""
    template: Mapping[str, Any]
    """The pod template."""
    path: str
    """The template's path in the object, for messages."""
    segments: SegmentRequest | None = None
    between: tuple[Annotations, ...] = ()
    """Annotations between the template and the workload: those on a CronJob's Job template."""
    late: int = 0
    """The number of pods that are created only after others run; no pod can wait for them."""
    at_once_by: str = ""
    """The setting in the object that would create them at once, for messages."""
    order: int = 0
    """Its position among the pod sets of the gang: ranks continue from pod set to pod set."""
    cut: bool = False
    """Whether the kind defines the segments; a pod's annotations do so only in part."""
    claimed: Mapping[str, int] = field(default_factory=lambda: NO_RESOURCES)
    """What the claims of one of its pods request of a node, where devices are counted."""


@dataclass(frozen=True, slots=True)
class WorkloadGang:
    """Pods that start together, or a subgroup of them with its own request."""

    name: str
    request: TopologyRequest = NO_REQUEST
    pod_sets: tuple[WorkloadPodSet, ...] = ()
    gangs: tuple["WorkloadGang", ...] = ()
    """Subgroups with their own request."""
    segment: bool = False
    """Whether it is one segment of several pod sets."""

    @property
    def size(self) -> int:
        """Pods in the gang and its subgroups."""
        return sum(len(pod_set.pods) for pod_set in self.pod_sets) + sum(gang.size for gang in self.gangs)

    @property
    def minimum(self) -> int:
        """The minimum number of pods: with fewer, none starts."""
        return sum(pod_set.minimum for pod_set in self.pod_sets) + sum(gang.minimum for gang in self.gangs)

    @property
    def at_once(self) -> int:
        """Pods that are created before any of them runs."""
        return sum(len(pod_set.pods) - pod_set.late for pod_set in self.all_pod_sets())

    def all_pod_sets(self) -> tuple[WorkloadPodSet, ...]:
        """The pod sets of the gang and its subgroups."""
        return self.pod_sets + tuple(pod_set for gang in self.gangs for pod_set in gang.all_pod_sets())

    def by_rank(self) -> Iterator[tuple[range, WorkloadPodSet]]:
        """The pod sets in order, each with its pods' ranks in the gang."""
        start = 0
        for pod_set in sorted(self.all_pod_sets(), key=lambda pod_set: pod_set.order):
            yield range(start, start + len(pod_set.pods)), pod_set
            start += len(pod_set.pods)


class Replicas(Sequence[WorkloadGang]):
    """Gangs that differ only in their names, each created on demand."""

    __slots__ = ("_count", "_gang", "_made")

    def __init__(self, count: int, gang: Callable[[int], WorkloadGang]) -> None:
        """gang: creates the gang with an index."""
        self._count = count
        self._gang = gang
        self._made: dict[int, WorkloadGang] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> WorkloadGang: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[WorkloadGang]: ...
    def __getitem__(self, index: int | slice) -> WorkloadGang | Sequence[WorkloadGang]:
        chosen = range(self._count)[index]
        return self._one(chosen) if isinstance(chosen, int) else tuple(map(self._gang, chosen))

    def _one(self, index: int) -> WorkloadGang:
        gang = self._made.get(index)
        if gang is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            gang = self._made[index] = self._gang(index)
        return gang

    def each(self, change: Callable[[WorkloadGang], WorkloadGang]) -> "Replicas":
        """The same gangs, each changed by a function."""
        return Replicas(self._count, lambda index: change(self._gang(index)))


@dataclass(frozen=True, slots=True)
class Workload:
    """One object that creates pods."""

    kind: str
    namespace: str
    name: str
    uid: str
    gangs: Sequence[WorkloadGang]
    """Gangs that start independently of each other: each replica of a LeaderWorkerSet is one."""
    annotations: Mapping[str, str]
    """The object's own annotations; those of a pod template override them."""

    @property
    def distinct(self) -> Sequence[WorkloadGang]:
        """One gang of each kind: gangs that differ from the first only in their names are left out."""
        return self.gangs[:1] if isinstance(self.gangs, Replicas) else self.gangs
