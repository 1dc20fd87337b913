"""The pods that a preemptor may end, read from the cluster cache.

A pod that is being deleted counts as ended, so that no other pod is chosen in its place. If its kubelet hangs, or its
owner gave it a long graceful period, this holds for a limited time. Otherwise it is a pod that stays: it can neither be
waited for nor ended.

These pods are no candidates: static pods; pods of DaemonSets, which come back to the same node at once; pods with a
longer graceful period than a place is held for; those of the preemptor's own gang; and those that kube-scheduler is
about to delete for a pod of its own choice.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from webhook.engine.preemption.candidates import Candidate, Candidates, RunningGang
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.workload.common_fields import min_member
from webhook.model.errors import UserError
from webhook.model.names import KAI_BATCH_MIN_MEMBER
from webhook.model.resources import PODS
from webhook.state.cluster_cache import ClusterCache
from webhook.steps import Steps, result_of

# A kubelet reports the end of a pod within seconds of its graceful period. A node counts as lost after 40 s.
STUCK_SECONDS: Final = 60.0
# Pods that save a checkpoint take up to some minutes; the default is 30 s. While a victim ends, its node is closed to
# others, and one of the few holds is taken: a tenant chooses the graceful period and must not choose this time.
LONGEST_GRACE_SECONDS: Final = 600.0
# A step reads the pods of so many nodes: 110 each take about 0.5 ms.
_NODES: Final = 16


def candidates_below(cache: ClusterCache, priority: int) -> Candidates:
    """The candidates of a preemptor of this priority."""
    return result_of(read_candidates(cache, priority))


def read_candidates(
    cache: ClusterCache, priority: int, closed: Collection[str] = (), own: Collection[str] = ()
) -> Steps[Candidates]:
    """The same in steps.

    closed: nodes that are held for others: none of their pods is a candidate. own: namespace/name of the running
    members of the preemptor.
    """
    return (yield from _Reader(cache, priority, closed, own).read())


def is_leaving(pod: BoundPod, now: float) -> bool:
    """Whether the pod is being deleted, ends soon, and its kubelet does not hang. now: seconds since the epoch."""
    return pod.deleting and (pod.gone_by is None or -STUCK_SECONDS < pod.gone_by - now <= LONGEST_GRACE_SECONDS)


def may_end(pod: BoundPod, priority: int) -> bool:
    """Whether the pod, which is not being deleted, may be preempted for one of this priority."""
    may_leave = not (pod.is_static or pod.of_daemon_set or pod.targeted) and pod.grace <= LONGEST_GRACE_SECONDS
    return may_leave and pod.priority < priority


class _Reader:
    def __init__(self, cache: ClusterCache, priority: int, closed: Collection[str], own: Collection[str]) -> None:
        self._cache = cache
        self._priority = priority
        self._closed = closed
        self._own = own
        self._gang_of = {key: name for name, members in cache.gangs.groups().items() for key in members}
        self._budgets = tuple(cache.disruption_budgets.by_key().values())
        self._numbers: dict[str, list[int]] = defaultdict(list)
        for number, budget in enumerate(self._budgets):
            self._numbers[budget.namespace].append(number)

    def read(self) -> Steps[Candidates]:
        known, now = self._cache.bound_pods.by_key(), self._cache.current_time()
        protected = self._protected_gangs()
        pods: dict[str, Candidate] = {}
        ending: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for turn, node in enumerate(tuple(self._cache.state.nodes), 1):
            if turn % _NODES == 0:
                yield
            if node in self._closed:
                continue
            for resident in self._cache.pods_on(node):
                pod = known.get(resident.key)
                if pod is None:
                    continue
                requests = {**resident.requests, PODS: 1}
                if pod.deleting:
                    if is_leaving(pod, now):
                        ending[node][pod.key] = requests
                elif (
                    may_end(pod, self._priority)
                    and pod.key not in self._own
                    and self._gang_of.get(pod.key) not in protected
                ):
                    pods[pod.key] = self._candidate(pod, requests)
        gangs = {name: self._gang(name, members, pods) for name, members in self._cache.gangs.groups().items()}
        yield
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
        groups = self._cache.native_groups.served() or {}
        return frozenset(
            f"{group.namespace}/podgroup/{group.name}"
            for group in groups.values()
            if group.priority is not None and group.priority >= self._priority
        )

    def _gang(self, name: str, members: Mapping[str, AssignedMember], pods: Mapping[str, Candidate]) -> RunningGang:
        known, nodes = self._cache.bound_pods.by_key(), self._cache.state.nodes
        # A member on a node that does not exist runs nowhere, and protects no other.
        gone = {key for key in members if (pod := known.get(key)) and (pod.deleting or pod.node not in nodes)}
        stay = members.keys() - gone
        return RunningGang(frozenset(stay), self._minimum(name, members), may_break=stay <= pods.keys())

    def _minimum(self, name: str, members: Mapping[str, AssignedMember]) -> int:
        """The pods that it needs. Where only its owners know the number, all of them."""
        namespace, kind, rest = name.split("/", 2)
        if kind == "podgroup":
            group = (self._cache.native_groups.served() or {}).get(f"{namespace}/{rest}")
            return len(members) if group is None or group.ends_whole else group.minimum or 1
        if kind == "name" and f"{namespace}/{rest}" in self._cache.user_groups():
            return len(members)  # its subgroups may have minimums, too
        asked = [number for member in members.values() if (number := _asked(member)) is not None]
        return max(asked, default=len(members))


def _asked(member: AssignedMember) -> int | None:
    """The minimum that a member's annotations request; None if they request none."""
    try:
        return min_member(dict(member.wishes), KAI_BATCH_MIN_MEMBER)
    except UserError:
        return None
