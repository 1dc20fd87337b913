"""The pods that a plan may move, and the answer to one waiting pod or gang."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from webhook.engine.preemption.candidates import Candidate, Candidates
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import added
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.resources import CPU, MEMORY, is_device


@dataclass(frozen=True, slots=True, eq=False)
class Placeable:
    """A pod that needs a place: one that waits, or one that moves, as its controller would recreate it."""

    key: str
    """namespace/name."""
    pod: Pod
    intent: NUMAIntent


@dataclass(frozen=True, slots=True, eq=False)
class Movable:
    """A running pod that may be moved."""

    candidate: Candidate
    pod: Placeable
    alike: object
    """Equal for pods of one workload that hold the same on the same node: one is as good as the other."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.candidate.key

    @property
    def node(self) -> str:
        """Where it runs."""
        return self.candidate.node


@dataclass(frozen=True)
class Movables:
    """The pods that may move for one waiting pod or gang."""

    pods: Mapping[str, Movable]
    """By namespace/name."""
    allowed: Sequence[int]
    """For each PodDisruptionBudget, how many more pods may be evicted."""
    by_node: Mapping[str, Sequence[Movable]] = field(default_factory=dict)
    """By name."""

    @classmethod
    def of(cls, pods: Iterable[Movable], allowed: Sequence[int]) -> "Movables":
        """These pods, without those that a budget protects already."""
        spared = {one.key: one for one in pods if all(allowed[number] > 0 for number in one.candidate.budgets)}
        nodes: dict[str, list[Movable]] = {}
        for key in sorted(spared):
            nodes.setdefault(spared[key].node, []).append(spared[key])
        return cls(spared, allowed, nodes)

    def respects_budgets(self, moved: Iterable[Movable]) -> bool:
        """Whether all of these may be evicted."""
        left = list(self.allowed)
        for one in moved:
            for number in one.candidate.budgets:
                left[number] -= 1
                if left[number] < 0:
                    return False
        return True

    def as_candidates(
        self, names: Collection[str], ending: Mapping[str, Mapping[str, Mapping[str, int]]]
    ) -> Candidates:
        """Those on these nodes for a search by preemption, where all are worth the same."""
        pods = {key: replace(one.candidate, priority=0) for key, one in self.pods.items() if one.node in names}
        return Candidates(pods, {}, self.allowed, ending)


@dataclass(frozen=True, slots=True)
class Moves:
    """Pods whose move lets the waiting pod or gang start. There may be none: it fits without."""

    starts: tuple[Reservation, ...]
    """Where each waiting pod would start."""
    moved: tuple[tuple[str, Reservation], ...]
    """(the pod's node now, where it could go)."""
    at_least: int
    """No smaller set exists; as many as `moved` if it is certainly the fewest."""


@dataclass(frozen=True, slots=True)
class NoMoves:
    """No such set was found. certain: none exists."""

    certain: bool


def size_of(pods: Iterable[Movable]) -> tuple[int, int, int]:
    """Devices, CPU, memory."""
    total = added(one.candidate.requests for one in pods)
    devices = sum(amount for name, amount in total.items() if is_device(name))
    return devices, total.get(CPU, 0), total.get(MEMORY, 0)


def cheapness(moved: Sequence[Movable]) -> tuple[int, tuple[int, int, int], tuple[str, ...]]:
    """Sort key of a set: the fewest pods, then the smallest, then by name."""
    return len(moved), size_of(moved), tuple(sorted(one.key for one in moved))
