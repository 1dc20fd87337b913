"""The default kube-scheduler by the sums of nodes: filters, then scores.

1. Filter: resources in sum, node selector, required node affinity, taints, cordon, readiness (the engine's own filter).
2. Sample: in a cluster of 100 nodes or more, only a part of the fitting nodes is scored, from where the last pod
   stopped.
3. Score: NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation of cpu and memory with weight 1,
   preferred node affinity with weight 2, PreferNoSchedule taints with weight 3.
4. Equal scores are drawn by the seed.

Not simulated: pod (anti-)affinity, topology spread, image locality, volumes, ports, preemption, back-off.
Source: kubernetes 1.36 pkg/scheduler (schedule_one.go, framework/plugins/noderesources, default_plugins.go).
"""

from random import Random
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Nodes
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.filter.node_preference import Preference
from webhook.engine.reason import FITS
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import NO_INTENT
from webhook.model.pod import Pod
from webhook.model.resources import CPU, MEMORY

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
    """The choice of a node, and what it remembers from pod to pod."""

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
