"""How a pod gets its node: by the bare scheduler alone, or by the webhook's engine as the leader asks it.

Both end at the kubelet of the node. Without the webhook its rejection fails the pod. With it, the binding guard asks
the same model first, so a node that would reject the pod refuses the binding, and the next best node is tried.

The engine is asked here without the Planner, which places the same (`tests/property/test_simulated_placement.py`): it
also words why, which nobody reads here, and that makes a run 1.3 to 1.7 times as long for not one line less. Through
its cycles, on a cache that reads each simulated pod from an object, a pod costs 1.5 to 2.2 ms instead of 0.5.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Nodes
from webhook.engine.decide import decide, on_numa_nodes
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.filter.node_preference import Preference
from webhook.engine.gang import assign_workload
from webhook.engine.gang.backfill_reservation import earliest_domain, usable_nodes
from webhook.engine.gang.result import GangAssignment
from webhook.engine.numa_fit import Allocation
from webhook.engine.reason import FITS
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.model.options import Options
from webhook.model.resources import CPU, MEMORY
from webhook.simulation.room import Room
from webhook.simulation.workload import PodKind, WantedGang, WantedPod
from webhook.state.rules import Rules

Shares = npt.NDArray[np.float64]
"""float64 [n], 0..1."""

# Scored in place of a missing request (pkg/scheduler/util/pod_resources.go).
_UNREQUESTED: Final = {CPU: 100, MEMORY: 200 << 20}
_LEAST_TO_FIND: Final = 100
_LEAST_PERCENT: Final = 5


class Choice(NamedTuple):
    """The scheduler's choice."""

    node: str
    sure: bool
    """Whether another attempt in an unchanged cluster gives the same node."""


class BareScheduler:
    """The default kube-scheduler by the sums of nodes: filters, then scores. It remembers where the last pod stopped.

    1. Filter: resources in total, node selector, required node affinity, taints, cordon, readiness (the engine's
       filter).
    2. Sample: in a cluster of 100 nodes or more, only a part of the fitting nodes is scored, from where the last pod
       stopped.
    3. Score: NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation of cpu and memory with weight 1,
       preferred node affinity with weight 2, PreferNoSchedule taints with weight 3.
    4. Equal scores are drawn by the seed.

    Not simulated: pod (anti-)affinity, topology spread, image locality, volumes, ports, preemption, back-off.
    Source: kubernetes 1.36 pkg/scheduler (schedule_one.go, framework/plugins/noderesources, default_plugins.go).
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 # to be repeatable is the point
        self._start = 0

    def choose(self, snapshot: Snapshot, pod: Pod) -> Choice | None:
        """The node for a pod; None if it fits on none."""
        snapshot = snapshot.covering(named_resources(pod))
        node_arrays = snapshot.node_arrays
        request = PodRequest.of(pod, NO_INTENT, node_arrays.resources)
        (fitting,) = (node_fit(snapshot, pod, request) == FITS).nonzero()
        if not len(fitting):
            return None
        sample = self._sample(fitting, node_arrays.n)
        scores = _scores(snapshot, pod, sample)
        (best,) = (scores == scores.max()).nonzero()
        chosen = sample[best[self._random.randrange(len(best))]]
        return Choice(node_arrays.names[chosen], len(best) == 1 and len(sample) == len(fitting))

    def _sample(self, fitting: Nodes, n: int) -> Nodes:
        """The fitting nodes to score; `fitting`: ascending indexes of n nodes."""
        wanted = _nodes_to_find(n)
        if len(fitting) < wanted:
            return fitting
        turn = int(np.searchsorted(fitting, self._start))
        sample = np.concatenate([fitting[turn:], fitting[:turn]])[:wanted]
        self._start = (int(sample[-1]) + 1) % n
        return sample


def _nodes_to_find(n: int) -> int:
    """The scheduler's numFeasibleNodesToFind, with percentageOfNodesToScore 0."""
    if n < _LEAST_TO_FIND:
        return n + 1
    return max(_LEAST_TO_FIND, n * max(50 - n // 125, _LEAST_PERCENT) // 100)


def _scores(snapshot: Snapshot, pod: Pod, nodes: Nodes) -> Amounts:
    """int64 [n]: the weighted sum of the scores of n nodes (indexes)."""
    node_arrays = snapshot.node_arrays
    least = np.zeros(len(nodes), dtype=np.int64)
    listed = np.zeros(len(nodes), dtype=np.int64)
    before, after = [], []
    for resource, unrequested in _UNREQUESTED.items():
        row = node_arrays.resources.find(resource)
        if row < 0:
            continue
        allocatable = np.maximum(node_arrays.allocatable[row][nodes], 0)
        requested = allocatable - snapshot.node_free(row)[nodes]
        divisor, asked = np.maximum(allocatable, 1), pod.requests.get(resource, 0)
        left = np.maximum(allocatable - requested - (asked or unrequested), 0)
        least += left * 100 // divisor
        listed += allocatable > 0
        before.append(np.minimum(requested / divisor, 1.0))
        after.append(np.minimum((requested + asked) / divisor, 1.0))
    scores: Amounts = least // np.maximum(listed, 1)
    if len(after) == len(_UNREQUESTED) and any(pod.requests.get(resource) for resource in _UNREQUESTED):
        scores += 50 + (50 + _balance(*after) - _balance(*before)) // 2
    preference = Preference.of(node_arrays, pod)
    liked = None if preference is None else preference.among(nodes)
    return scores if liked is None else scores + liked


def _balance(cpu: Shares, memory: Shares) -> Amounts:
    """int64 [n]: 100 if both shares are equal, 50 if one resource is full and the other unused."""
    balance: Amounts = ((1 - np.abs(cpu - memory) / 2) * 100).astype(np.int64)
    return balance


_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def admitted(room: Room, node: str, pod: Pod, intent: NUMAIntent | None) -> Allocation | None:
    """What the pod gets of each NUMA node when it reaches its kubelet; None if this one rejects it.

    The engine's own model of kubelets (webhook.engine.kubelet) answers, from the sums of what it gave before. A real
    kubelet also knows which CPUs and devices these are, and which NUMA nodes its memory manager keeps together.

    intent: what the webhook knows of the pod; None: kubelets read no annotations, so the node's own policy applies.
    """
    snapshot = room.node(node).covering(named_resources(pod))
    if intent is None and snapshot.node_arrays.total[0]:
        return ()  # koordlet's kubelets align nothing, and its agent has no allocation to follow
    request = PodRequest.of(pod, intent or NO_INTENT, snapshot.node_arrays.resources)
    fit, _ = on_numa_nodes(snapshot, request, _AS_KUBELETS_DO, _THE_NODE)
    return fit.allocation(0) if fit.fits[0] else None


# A node that refuses the binding is left out and the next best one is tried: that many times, then the pod waits.
_MOST_REFUSALS: Final = 8


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod runs on the node."""

    node: str
    numa: Allocation


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod's kubelet rejected it."""


REJECTED: Final = Rejected()
Result = Placed | Rejected | None
"""None: it fits on no node now."""


class Placement:
    """Without the webhook. The scheduler knows no gangs: each pod gets its node by itself."""

    def __init__(self, room: Room, seed: int) -> None:
        self.refused_binds = 0
        self._room = room
        self._scheduler = BareScheduler(seed)
        self._known: dict[Hashable, Result] = {}
        self._known_at = -1

    def place(self, pod: WantedPod, closed: frozenset[str]) -> Result:
        """A node for one pod, in the cluster as it is now. closed: nodes kept for others, unknown to the scheduler."""
        del closed
        return self._by_scheduler(pod.kind)

    def _by_scheduler(self, kind: PodKind) -> Result:
        signature = pod_signature(kind.pod, NO_INTENT), repr(kind.pod.preferred_terms)
        known = self._results()
        if signature in known:
            return known[signature]
        choice = self._scheduler.choose(self._room.snapshot(), kind.pod)
        if choice is None:
            known[signature] = None
            return None
        numa = admitted(self._room, choice.node, kind.pod, None)
        if numa is not None:
            return Placed(choice.node, numa)
        if choice.sure:
            known[signature] = REJECTED
        return REJECTED

    def _results(self) -> dict[Hashable, Result]:
        """What is known since the last change of the cluster."""
        if self._known_at != self._room.version:
            self._known.clear()
            self._known_at = self._room.version
        return self._known


class WebhookPlacement(Placement):
    """With the webhook: it places the gangs and the pods that it manages, the scheduler the others."""

    def __init__(self, room: Room, seed: int, rules: Rules) -> None:
        super().__init__(room, seed)
        self._rules = rules
        self._trees = TopologyTrees()

    def place(self, pod: WantedPod, closed: frozenset[str]) -> Result:
        """A node for one pod, in the cluster as it is now. closed: the nodes kept for others."""
        kind = pod.kind
        if kind.intent is None:
            return self._by_scheduler(kind)
        signature = pod_signature(kind.pod, kind.intent), repr(kind.pod.preferred_terms), closed
        known = self._results()
        if signature not in known and (placed := self._by_engine(kind, self._snapshot(closed))) is not None:
            return placed
        known[signature] = None
        return None

    def place_gang(self, gang: WantedGang, closed: frozenset[str]) -> Iterator[tuple[WantedPod, Placed]]:
        """Nodes for the members of a gang; each is to be held before the next one is asked for."""
        assignments = self._assign(gang, closed)
        nodes = [(pod.name, pod.node) for assignment in assignments if assignment.assigned for pod in assignment.pods()]
        del assignments
        for name, node in nodes:
            member = gang.members[name]
            numa = admitted(self._room, node, member.kind.pod, member.kind.intent)
            if numa is None:
                self.refused_binds += 1
            else:
                yield member, Placed(node, numa)

    def earliest_nodes(self, gang: WantedGang, closed: frozenset[str]) -> frozenset[str]:
        """The nodes of the domains that can hold a waiting gang soonest; empty if there are none to keep for it."""
        kept: set[str] = set()
        if gang.begun():
            return frozenset()  # its other members belong into the domain of those, whatever else is free
        for assignment in self._assign(gang, closed):
            if assignment.assigned:
                continue
            snapshot, tree = assignment.snapshot, assignment.tree
            domain = earliest_domain(snapshot, tree, assignment.gang, lasting_on=self._room.lasting_on)
            if domain is not None:
                names, usable = snapshot.node_arrays.names, usable_nodes(snapshot, tree, assignment.gang, domain)
                kept.update(names[n] for n in usable.nonzero()[0].tolist())
        return frozenset(kept)

    def _assign(self, gang: WantedGang, closed: frozenset[str]) -> tuple[GangAssignment, ...]:
        workload, topologies, strategy = gang.request.workload, self._room.topologies, self._rules.engine.gang_strategy
        return assign_workload(workload, self._snapshot(closed), topologies, self._trees, gang.begun(), strategy)

    def _snapshot(self, closed: frozenset[str]) -> Snapshot:
        """The cluster as it is now, with no free resources on the closed nodes."""
        snapshot = self._room.snapshot()
        if not closed:
            return snapshot
        columns = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
        columns[[snapshot.node_arrays.index[name] for name in closed]] = True
        return snapshot.closed(columns)

    def _by_engine(self, kind: PodKind, snapshot: Snapshot) -> Placed | None:
        index: Mapping[str, int] = snapshot.node_arrays.index
        refusing = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
        for _ in range(_MOST_REFUSALS):
            best = decide(snapshot, kind.pod, kind.intent or NO_INTENT, self._rules.engine).best(1)
            if not best:
                return None
            node = best[0].node
            numa = admitted(self._room, node, kind.pod, kind.intent)
            if numa is not None:
                return Placed(node, numa)
            self.refused_binds += 1
            refusing[index[node]] = True
            snapshot = snapshot.closed(refusing)
        return None
