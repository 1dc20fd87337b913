"""The pods that a preemptor may end, read from the cluster cache, and those that it would end, for people."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.cache.cluster_cache import ClusterCache
from webhook.engine.preemption.candidates import Candidate, Candidates, RunningGang
from webhook.engine.preemption.victims import NoVictims, Victims
from webhook.model.bound_pod import BoundPod
from webhook.model.errors import UserError
from webhook.model.membership import AssignedMember
from webhook.model.names import KAI_BATCH_MIN_MEMBER
from webhook.model.resources import PODS
from webhook.model.workload.common_fields import min_member


class Preempts(StrEnum):
    """Whether the end of pods of lower priority would let a pod or gang start."""

    VICTIMS = "Victims"
    """The end of these pods."""
    ENDING = "Ending"
    """The end of pods that are being deleted already."""
    NO_END = "NoEnd"
    """No end of pods of lower priority."""
    NEVER = "Never"
    """It must not preempt: `preemptionPolicy: Never`."""
    UNKNOWN = "Unknown"
    """It waits for something else, or no answer was found within the limits."""


@dataclass(frozen=True, slots=True)
class VictimView:
    """A pod that would end."""

    namespace: str
    name: str
    node: str
    priority: int
    gang: bool
    """Whether it is a member of a gang."""


@dataclass(frozen=True, slots=True)
class PreemptionView:
    """Which pods would end for a pod or gang that waits."""

    verdict: Preempts
    nodes: tuple[str, ...] = ()
    """Where it would start then."""
    victims: tuple[VictimView, ...] = ()
    """The most important first."""
    violations: int = 0
    """How many of them violate a PodDisruptionBudget."""


def preemption_view(found: Victims | NoVictims, candidates: Candidates) -> PreemptionView:
    """The view of an answer."""
    if isinstance(found, NoVictims):
        return PreemptionView(Preempts.NO_END if found.certain else Preempts.UNKNOWN)
    victims = tuple(_victim(candidates.pods[key]) for key in found.pods)
    verdict = Preempts.VICTIMS if victims else Preempts.ENDING
    return PreemptionView(verdict, found.nodes, victims, found.violations)


def _victim(pod: Candidate) -> VictimView:
    namespace, _, name = pod.key.partition("/")
    return VictimView(namespace, name, pod.node, pod.priority, bool(pod.gang))


def candidates_below(cache: ClusterCache, priority: int) -> Candidates:
    """The candidates of a preemptor of this priority."""
    return _Reader(cache, priority).read()


class _Reader:
    def __init__(self, cache: ClusterCache, priority: int) -> None:
        self._cache = cache
        self._priority = priority
        self._gang_of = {key: name for name, members in cache.gangs.groups().items() for key in members}
        self._budgets = tuple(cache.disruption_budgets.by_key().values())
        self._numbers: dict[str, list[int]] = defaultdict(list)
        for number, budget in enumerate(self._budgets):
            self._numbers[budget.namespace].append(number)

    def read(self) -> Candidates:
        known = self._cache.bound_pods.by_key()
        protected = self._protected_gangs()
        pods: dict[str, Candidate] = {}
        ending: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for node in self._cache.state.nodes:
            for resident in self._cache.pods_on(node):
                pod = known.get(resident.key)
                if pod is None:
                    continue
                requests = {**resident.requests, PODS: 1}
                if pod.deleting:
                    ending[node][pod.key] = requests
                elif (
                    pod.priority < self._priority and not pod.is_static and self._gang_of.get(pod.key) not in protected
                ):
                    pods[pod.key] = self._candidate(pod, requests)
        gangs = {name: self._gang(name, members, pods) for name, members in self._cache.gangs.groups().items()}
        return Candidates(pods, gangs, [budget.allowed for budget in self._budgets], ending)

    def _candidate(self, pod: BoundPod, requests: Mapping[str, int]) -> Candidate:
        gang = self._gang_of.get(pod.key, "")
        namespace, _, name = pod.key.partition("/")
        budgets = tuple(
            number
            for number in self._numbers.get(namespace, ())
            if self._budgets[number].covers(namespace, name, pod.labels)
        )
        return Candidate(pod.key, pod.node, pod.priority, pod.started, gang or pod.workload, requests, gang, budgets)

    def _protected_gangs(self) -> frozenset[str]:
        """The gangs whose own priority, that of their PodGroup, is not lower."""
        groups = self._cache.native_groups.by_key() or {}
        return frozenset(
            f"{group.namespace}/podgroup/{group.name}"
            for group in groups.values()
            if group.priority is not None and group.priority >= self._priority
        )

    def _gang(self, name: str, members: Mapping[str, AssignedMember], pods: Mapping[str, Candidate]) -> RunningGang:
        minimum = self._minimum(name, members)
        return RunningGang(frozenset(members), minimum, may_break=members.keys() <= pods.keys())

    def _minimum(self, name: str, members: Mapping[str, AssignedMember]) -> int:
        """The pods that it needs. Where only its owners know the number, all of them."""
        namespace, kind, rest = name.split("/", 2)
        if kind == "podgroup":
            group = (self._cache.native_groups.by_key() or {}).get(f"{namespace}/{rest}")
            return len(members) if group is None else group.minimum or 1
        if kind == "name" and f"{namespace}/{rest}" in self._cache.kai_groups.by_key():
            return len(members)  # its subgroups may have minimums, too
        asked = [number for member in members.values() if (number := _asked(member)) is not None]
        return max(asked, default=len(members))


def _asked(member: AssignedMember) -> int | None:
    """The minimum that a member's annotations request; None if they request none."""
    try:
        return min_member(dict(member.wishes), KAI_BATCH_MIN_MEMBER)
    except UserError:
        return None
