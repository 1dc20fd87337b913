"""The smallest set of pods on one node whose end lets another pod run there.

1. Only nodes count on which the pod would fit if nothing ran there. If there are none, terminating pods does not help.
2. A lower bound for each node: so many of its largest pods must end until the node as a whole has enough. Only the
   `MOST_NODES` nodes with the lowest bounds are tried.
3. All sets of one pod are tried on all of these, then all of two, then of three, unless these are more than
   `MOST_TRIALS`. Equal pods count once. Trials are judged by the engine itself, thousands at a time. The first size
   that fits is the smallest.
4. Beyond that, greedily: on each node all pods end, then each, the largest first, stays after all if the pod still
   fits. No pod of such a set can stay, but a smaller set may exist.
5. Of several sets of the same size: the one with the fewest devices, then CPUs, then memory, then the first by name.

The cost grows with the number of trials: at most MOST_TRIALS for the exact part, and for the greedy part MOST_NODES
times the pods of a node. It also grows with all pods of the cluster, whose requests step 2 sorts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.decide import decide
from webhook.engine.freeing.holdings import HeldPod, NodeHoldings
from webhook.engine.freeing.trials import Trials
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.node_sums import added
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.model.resources import CPU, MEMORY, PODS, is_device

MOST_TRIALS: Final = 20_000
MOST_NODES: Final = 512
LARGEST_EXACT: Final = 3

HoldingsOn = Callable[[str], NodeHoldings]
"""The name of a node -> what its pods hold."""
RequestsOn = Callable[[str], Sequence[Mapping[str, int]]]
"""The name of a node -> what each of its pods requests, with itself as "pods"."""


@dataclass(frozen=True, slots=True)
class SmallestSet:
    """Pods whose end lets the pod run on the node. It is certainly the smallest if `at_least` is its size."""

    node: str
    pods: tuple[str, ...]
    """By key; empty if the pod fits now."""
    at_least: int
    """No smaller set than this exists on any node."""


@dataclass(frozen=True, slots=True)
class NoSet:
    """No such set was found. certain: none exists of pods whose NUMA nodes are known."""

    certain: bool


def smallest_set(
    snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options, holdings_on: HoldingsOn, requests_on: RequestsOn
) -> SmallestSet | NoSet:
    """The set. requests_on: what the pods request on each node, those of `holdings_on`."""
    now = decide(snapshot, pod, intent, options)
    if now.fit_count:
        return SmallestSet(now.best(1)[0].node, (), 0)
    arrays = snapshot.node_arrays
    fits = fits_without_pods(snapshot, pod, intent, options)
    trials = Trials(snapshot, pod, intent, options)
    wanted = {name: pod.requests.get(name, 0) for name in trials.names} | {PODS: 1}
    bounds = [
        (bound, arrays.names[n], n)
        for n in fits.nonzero()[0].tolist()
        if (bound := _bound(trials, n, wanted, requests_on(arrays.names[n]))) is not None
    ]
    bounds.sort()
    tried, left_out = bounds[:MOST_NODES], bounds[MOST_NODES:]
    found = _Search(trials, [_Node(n, name, bound, holdings_on(name)) for bound, name, n in tried]).run()
    if found is None:
        return NoSet(not left_out)
    return replace(found, at_least=min([found.at_least, *(bound for bound, _, _ in left_out[:1])]))


def fits_without_pods(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> Bools:
    """On which nodes the pod would fit if nothing ran there: bool [node]. Cordoned nodes stay cordoned."""
    arrays = snapshot.node_arrays
    without_pods = replace(empty_cluster(arrays), ready=arrays.ready, unschedulable=arrays.unschedulable)
    return decide(Snapshot(without_pods), pod, intent, options).fits


def _bound(trials: Trials, node: int, wanted: Mapping[str, int], pods: Sequence[Mapping[str, int]]) -> int | None:
    """How many pods of the node must end at least; None if even all are too few."""
    bound = 1
    for name, free in zip(trials.names, trials.node_free(node), strict=True):
        missing, ending = wanted[name] - free, 0
        if missing <= 0 or wanted[name] <= 0:
            continue
        for amount in sorted((requests.get(name, 0) for requests in pods), reverse=True):
            if missing <= 0:
                break
            missing, ending = missing - amount, ending + 1
        if missing > 0:
            return None
        bound = max(bound, ending)
    return bound


class _Node:
    """A node on which the pod would fit if it were empty."""

    def __init__(self, n: int, name: str, bound: int, holdings: NodeHoldings) -> None:
        self.n = n
        self.name = name
        self.holdings = holdings
        self.bound = bound
        """No fewer pods have to end."""
        self.pods: Sequence[HeldPod] = holdings.pods
        """After `_prepare`: those whose end matters."""
        self.effects: Amounts = np.zeros((0, 0), dtype=np.int64)
        """int64 [pod, amount]: what each gives back; after `_prepare`."""
        self.is_prepared = False

    def given_back(self, chosen: Sequence[int]) -> Amounts:
        """What these pods give back together."""
        total: Amounts = self.effects[list(chosen)].sum(axis=0)
        return total


_Set = tuple[_Node, tuple[int, ...]]
"""A node, and some of its pods."""


class _Search:
    """Steps 2 to 5."""

    def __init__(self, trials: Trials, nodes: Sequence[_Node]) -> None:
        self._trials = trials
        self._nodes = nodes

    def run(self) -> SmallestSet | None:
        """The set."""
        spent, at_least = 0, 1
        for size in range(1, LARGEST_EXACT + 1):
            nodes = [node for node in self._nodes if node.bound <= size <= len(node.pods)]
            for node in nodes:
                self._prepare(node)
            count = sum(comb(len(_few_alike(node, size)), size) for node in nodes)
            if spent + count > MOST_TRIALS:
                break
            spent += count
            if (found := self._best_of(nodes, size)) is not None:
                return found
            at_least = size + 1
        return self._greedily(at_least)

    def _prepare(self, node: _Node) -> None:
        """Compute what the node's pods give back, and leave out those that give back nothing that matters."""
        if node.is_prepared:
            return
        node.is_prepared = True
        pods_row = self._trials.names.index(PODS)
        is_full = self._trials.node_free(node.n)[pods_row] < 1
        effects = [self._trials.effect(node.n, pod) for pod in node.pods]
        kept = [n for n, effect in enumerate(effects) if is_full or np.delete(effect, pods_row).any()]
        node.pods = [node.pods[n] for n in kept]
        node.effects = np.array([effects[n] for n in kept])

    def _best_of(self, nodes: Sequence[_Node], size: int) -> SmallestSet | None:
        """Step 3 for one size."""
        sets = [(node, chosen) for node in nodes for chosen in combinations(_few_alike(node, size), size)]
        return _best([one for one, fits in zip(sets, self._fit(sets), strict=True) if fits], size)

    def _greedily(self, at_least: int) -> SmallestSet | None:
        """Step 4."""
        nodes = self._nodes
        for node in nodes:
            self._prepare(node)
        sets = [(node, tuple(range(len(node.pods)))) for node in nodes if node.pods]
        sets = [one for one, fits in zip(sets, self._fit(sets), strict=True) if fits]
        orders = [
            sorted(chosen, key=lambda n, pods=node.pods: size_of([pods[n]]), reverse=True)  # type: ignore[misc]
            for node, chosen in sets
        ]
        for turn in range(max(map(len, orders), default=0)):
            turns = [(number, order[turn]) for number, order in enumerate(orders) if turn < len(order)]
            fewer = [(sets[number][0], tuple(n for n in sets[number][1] if n != stays)) for number, stays in turns]
            for (number, _), less, fits in zip(turns, fewer, self._fit(fewer), strict=True):
                if fits:
                    sets[number] = less
        bound = min((node.bound for node in self._nodes), default=1)
        return _best(sets, max(at_least, bound))

    def _fit(self, sets: Sequence[_Set]) -> list[bool]:
        """Whether the pod fits if a set ends, for each set."""
        if not sets:
            return []
        columns = np.array([node.n for node, _ in sets], dtype=np.intp)
        totals = [node.given_back(chosen) for node, chosen in sets]
        holdings = {node.n: node.holdings for node, _ in sets}
        found: list[bool] = self._trials.fits(columns, np.array(totals), holdings).tolist()
        return found


def _best(sets: Sequence[_Set], at_least: int) -> SmallestSet | None:
    """Step 5."""
    named = ([node.pods[n] for n in chosen] for node, chosen in sets)
    keys = [
        (len(pods), size_of(pods), node.name, tuple(sorted(pod.key for pod in pods)))
        for (node, _), pods in zip(sets, named, strict=True)
    ]
    if not keys:
        return None
    _, _, node, pods = min(keys)
    return SmallestSet(node, pods, at_least)


def _few_alike(node: _Node, size: int) -> list[int]:
    """The node's pods, of those that give back the same only as many as a set can have: the cheapest."""
    alike: dict[bytes, list[int]] = {}
    for n in range(len(node.pods)):
        alike.setdefault(node.effects[n].tobytes(), []).append(n)
    return [
        n
        for pods in alike.values()
        for n in sorted(pods, key=lambda n: (size_of([node.pods[n]]), node.pods[n].key))[:size]
    ]


def size_of(pods: Iterable[HeldPod]) -> tuple[int, int, int]:
    """Devices, CPU, memory."""
    total = added(pod.requests for pod in pods)
    devices = sum(amount for name, amount in total.items() if is_device(name))
    return devices, total.get(CPU, 0), total.get(MEMORY, 0)
