"""The pods that a preemptor may end, and the answer to it: which of them to evict, or that evicting pods does not help.

1. A candidate is bound, has a lower priority than the preemptor, and is not being deleted. Some of these are left out
   (see `placing.preemption.preemption_candidates`).
2. A gang that would fall below its minimum ends whole. If one of its members may not be ended, or the gang's own
   priority is not lower, it must not fall below its minimum.
3. A pod violates a budget if more of its pods end than it allows now, counted in the order of importance, as
   kube-scheduler does. Gangs and budgets make some candidates dearer than others (`Cost`).

Source: kubernetes pkg/scheduler/framework/plugins/defaultpreemption (filterPodsWithPDBViolation),
pkg/scheduler/util/utils.go (MoreImportantPod).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from webhook.engine.snapshot.node_sums import added
from webhook.model.resources import CPU, MEMORY, is_device


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be ended."""

    key: str
    """namespace/name."""
    node: str
    priority: int
    started: int
    """Seconds since the epoch."""
    workload: str
    """Equal for the pods of one workload."""
    requests: Mapping[str, int] = field(hash=False)
    gang: str = ""
    """Empty if it is in none."""
    budgets: tuple[int, ...] = ()
    """Numbers of the PodDisruptionBudgets that count it."""

    @property
    def importance(self) -> tuple[int, int, str]:
        """Sort key: the most important first."""
        return -self.priority, self.started, self.key


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang of which members run."""

    members: frozenset[str]
    """All that have a node and are not being deleted, by namespace/name."""
    minimum: int
    may_break: bool = True
    """Whether it may fall below its minimum, so that all its members end."""


class Cost(NamedTuple):
    """What a set of victims costs: of two sets, the smaller one is chosen.

    The first two are kube-scheduler's, in its order. Then it takes the sum of priorities, which is mostly the number of
    pods, too.
    """

    violations: int
    """Pods whose end violates a PodDisruptionBudget."""
    highest: int
    """The highest priority of a victim."""
    pods: int
    workloads: int
    devices: int
    cpu: int
    memory: int
    runtime: int
    """Minus the earliest start of the victims of the highest priority."""
    where: str
    """The node; empty for a gang."""
    names: tuple[str, ...]


@dataclass(frozen=True)
class Candidates:
    """All pods that one preemptor may end."""

    pods: Mapping[str, Candidate]
    """By namespace/name."""
    gangs: Mapping[str, RunningGang]
    allowed: Sequence[int]
    """For each PodDisruptionBudget, how many more pods may end."""
    ending: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """The requests of the pods that are being deleted, by node and by namespace/name."""

    @cached_property
    def by_node(self) -> Mapping[str, Sequence[Candidate]]:
        """The candidates of each node, the most important first."""
        nodes: dict[str, list[Candidate]] = {}
        for candidate in self.pods.values():
            nodes.setdefault(candidate.node, []).append(candidate)
        for pods in nodes.values():
            pods.sort(key=lambda pod: pod.importance)
        return nodes

    @cached_property
    def priorities(self) -> Sequence[int]:
        """The priorities of the candidates, ascending."""
        return sorted({pod.priority for pod in self.pods.values()})

    def sparing(self) -> "Candidates":
        """Without the pods whose end alone violates a budget."""
        return self._only(
            {key: pod for key, pod in self.pods.items() if all(self.allowed[number] > 0 for number in pod.budgets)}
        )

    def up_to(self, priority: int) -> "Candidates":
        """Without pods of a higher priority."""
        return self._only({key: pod for key, pod in self.pods.items() if pod.priority <= priority})

    def most(self, keys: Iterable[str]) -> frozenset[str]:
        """As many of these pods as may end together: the least important ones of gangs that must not break."""
        found = set()
        left = {name: len(gang.members) - gang.minimum for name, gang in self.gangs.items() if not gang.may_break}
        for pod in reversed(self.in_order(keys)):
            if pod.gang in left:
                if left[pod.gang] <= 0:
                    continue
                left[pod.gang] -= 1
            found.add(pod.key)
        return frozenset(found)

    def whole(self, keys: Iterable[str]) -> frozenset[str] | None:
        """These pods, and all members of gangs that fall below their minimum; None if one of these must not."""
        found = frozenset(keys)
        gangs = {gang for key in found if (gang := self.pods[key].gang)}
        for name in gangs:
            of = self.gangs[name]
            if len(of.members - found) < of.minimum:
                if not of.may_break:
                    return None
                found |= of.members
        return found

    def violating(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the pods whose end violates a budget."""
        left = list(self.allowed)
        found = set()
        for pod in self.in_order(keys):
            for number in pod.budgets:
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.key)
        return frozenset(found)

    def cost(self, keys: frozenset[str], where: str) -> Cost:
        """What these victims cost; there is at least one."""
        pods = self.in_order(keys)
        total = added(pod.requests for pod in pods)
        highest = pods[0].priority
        return Cost(
            violations=len(self.violating(keys)),
            highest=highest,
            pods=len(pods),
            workloads=len({pod.workload for pod in pods}),
            devices=sum(amount for name, amount in total.items() if is_device(name)),
            cpu=total.get(CPU, 0),
            memory=total.get(MEMORY, 0),
            runtime=-min(pod.started for pod in pods if pod.priority == highest),
            where=where,
            names=tuple(sorted(keys)),
        )

    def in_order(self, keys: Iterable[str]) -> list[Candidate]:
        """These pods, the most important first."""
        return sorted((self.pods[key] for key in keys), key=lambda pod: pod.importance)

    def _only(self, left: Mapping[str, Candidate]) -> "Candidates":
        """With these pods alone."""
        if len(left) == len(self.pods):
            return self
        return Candidates(left, self._gangs_of(left), self.allowed, self.ending)

    def _gangs_of(self, spared: Mapping[str, Candidate]) -> Mapping[str, RunningGang]:
        """The gangs; those of which a member is no longer a candidate must not break."""
        return {
            name: gang if gang.members <= spared.keys() else RunningGang(gang.members, gang.minimum, may_break=False)
            for name, gang in self.gangs.items()
        }


Places = tuple[tuple[str, str], ...]
"""(member, node), by name."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods whose end lets the preemptor fit."""

    nodes: tuple[str, ...]
    """Where it fits then, by name."""
    pods: tuple[str, ...]
    """By namespace/name, the most important first; empty if it fits once the pods that are being deleted have ended."""
    violations: int = 0
    """How many of them violate a PodDisruptionBudget."""
    highest: int | None = None
    """The highest priority among them."""
    violating: frozenset[str] = frozenset()
    """Those that violate a PodDisruptionBudget."""
    places: Places = ()
    """For a gang, where each member fits then."""

    @classmethod
    def of(cls, candidates: Candidates, cost: Cost, nodes: tuple[str, ...], places: Places = ()) -> "Victims":
        """The victims of a cost."""
        pods = tuple(pod.key for pod in candidates.in_order(cost.names))
        violating = candidates.violating(cost.names)
        return cls(nodes, pods, cost.violations, cost.highest, violating, places)

    @classmethod
    def among(cls, places: Places) -> "Victims":
        """No pods have to end for these places."""
        return cls(nodes_of_places(places), (), places=places)


@dataclass(frozen=True, slots=True)
class NoVictims:
    """No such set was found. certain: none exists of pods whose NUMA nodes are known."""

    certain: bool


def nodes_of_places(places: Places) -> tuple[str, ...]:
    """The nodes, by name."""
    return tuple(sorted({node for _, node in places}))
