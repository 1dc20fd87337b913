"""The victims of a single pod: the cheapest set on one node whose end lets it run there.

1. Only nodes count on which the pod would fit if nothing ran there. If it fits on one as soon as the pods that are
   being deleted have ended, nothing else has to end.
2. A lower bound for each node: what victims there cost at least, by its sums alone (`node_bound`). Nodes are tried in
   this order, in batches, until no bound is below the best set found, or `MOST_NODES` were tried.
3. First without the pods whose end alone violates a PodDisruptionBudget. For each node, the lowest priority T such that
   the pod fits if all its candidates of at most T end: found by bisection, for all nodes of a batch at once.
4. On the nodes with the lowest T, greedily, as kube-scheduler does: all those end, then each stays after all if the pod
   still fits, first those that violate budgets, then the most important.
5. On the same nodes all sets of one pod are tried, then of two, then of three, as far as they could be cheaper and no
   more than `MOST_TRIALS` in total.
6. If no set respects the budgets, the same with all candidates and without T: the fewest violations come first.

A set is judged with the whole gangs that it breaks. All trials are the engine's own decisions. Where sums alone decide,
the result never costs more than kube-scheduler's by (violations, highest priority, number), because step 4 contains its
set: what it keeps, is kept here for the same reason.

Source: kubernetes pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode) and
pkg/scheduler/framework/preemption (pickOneNodeForPreemption).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, islice
from math import comb
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.freeing import LARGEST_EXACT, Effect, HoldingsOn, NodeHoldings, Trials, fits_without_pods
from webhook.engine.preemption.candidates import Candidate, Candidates, Cost, NoVictims, Victims
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.model.resources import PODS
from webhook.steps import Steps, result_of


class NodeBound(NamedTuple):
    """A lower bound for one node."""

    highest: int
    """No victims have a lower highest priority."""
    pods: int
    name: str
    n: int


def node_bound(missing: Mapping[str, int], candidates: Sequence[Candidate], name: str, n: int) -> NodeBound | None:
    """The bound; None if even all candidates are too few.

    missing: resource -> what the node lacks. candidates: those of the node, the most important first.
    """
    if not candidates:
        return None
    highest, pods = candidates[-1].priority, 1
    for resource, amount in missing.items():
        if amount <= 0:
            continue
        left = amount
        for pod in reversed(candidates):
            left -= pod.requests.get(resource, 0)
            if left <= 0:
                highest = max(highest, pod.priority)
                break
        if left > 0:
            return None
        count, left = 0, amount
        for given in sorted((pod.requests.get(resource, 0) for pod in candidates), reverse=True):
            left, count = left - given, count + 1
            if left <= 0:
                break
        pods = max(pods, count)
    return NodeBound(highest, pods, name, n)


class Spot:
    """A node on which the preemptor would fit if it were empty.

    For trials: the candidates on it, and what each gives back. The pods that are being deleted count as ended.
    """

    def __init__(self, trials: Trials, n: int, name: str, holdings: NodeHoldings, candidates: Candidates) -> None:
        self.n = n
        self.name = name
        self.holdings = holdings
        self._held = {pod.key: pod for pod in holdings.pods}
        self._base = trials.no_effect()
        for key in candidates.ending.get(name, ()):
            if key in self._held:
                self._base = self._base + trials.effect(n, self._held[key])
        self._effects: dict[str, Effect] = {}
        self._trials = trials
        self.keys = tuple(pod.key for pod in candidates.by_node.get(name, ()) if pod.key in self._held)
        """The candidates, the most important first."""

    def given_back(self, keys: Iterable[str]) -> Amounts:
        """What these pods give back together; pods of other nodes give back nothing here."""
        total = self._base.copy()
        for key in keys:
            if key in self._held:
                total += self._effect(key)
        return total

    def few_alike(self, candidates: Candidates, keys: Sequence[str], size: int) -> list[str]:
        """These pods; of those that differ only in their names and times just as many as a set can have."""
        alike: dict[tuple[object, ...], list[str]] = {}
        for key in reversed(keys):  # the least important first
            pod = candidates.pods[key]
            same = self._effect(key).tobytes(), pod.priority, pod.budgets, pod.gang, pod.workload
            alike.setdefault(same, []).append(key)
        return [key for pods in alike.values() for key in pods[:size]]

    def count(self, candidates: Candidates, keys: Sequence[str], size: int) -> int:
        """The number of sets of this size."""
        return comb(len(self.few_alike(candidates, keys, size)), size)

    def sets(self, candidates: Candidates, keys: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
        """All sets of this size, of equal ones only one."""
        return combinations(self.few_alike(candidates, keys, size), size)

    def _effect(self, key: str) -> Effect:
        if key not in self._effects:
            self._effects[key] = self._trials.effect(self.n, self._held[key])
        return self._effects[key]


_Set = tuple[Spot, frozenset[str]]
"""A node, and pods that end."""


def fit(trials: Trials, sets: Sequence[_Set]) -> list[bool]:
    """Whether the preemptor fits if a set ends, for each set."""
    if not sets:
        return []
    columns = np.array([spot.n for spot, _ in sets], dtype=np.intp)
    totals = np.array([spot.given_back(keys) for spot, keys in sets])
    found: list[bool] = trials.fits(columns, totals, {spot.n: spot.holdings for spot, _ in sets}).tolist()
    return found


# kube-scheduler tries 100 nodes or 10 %, whichever is more: 500 of 5,000. Here the most promising ones come first, so
# that larger clusters need no more.
MOST_NODES: Final = 512
# Enough for the engine to judge many at once, few enough to stop early.
_BATCH: Final = 64
# A step of about 5 ms.
_SETS_AT_ONCE: Final = 1_024
# As for the smallest set: a second of work.
MOST_TRIALS: Final = 20_000


def victims_for_pod(
    snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options, candidates: Candidates, holdings_on: HoldingsOn
) -> Victims | NoVictims:
    """The victims. The pod does not fit now."""
    return result_of(pod_victims(snapshot, pod, intent, options, candidates, holdings_on))


def pod_victims(
    snapshot: Snapshot,
    pod: Pod,
    intent: NUMAIntent,
    options: Options,
    candidates: Candidates,
    holdings_on: HoldingsOn,
    closed: Collection[str] = (),
) -> Steps[Victims | NoVictims]:
    """The same in steps. closed: nodes on which it must not count. A step is the trials of one batch of nodes."""
    names = snapshot.node_arrays.names
    able = fits_without_pods(snapshot, pod, intent, options).nonzero()[0].tolist()
    able = [n for n in able if names[n] not in closed]
    search = _Search(Trials(snapshot, pod, intent, options), pod, candidates, holdings_on)
    yield
    if (node := search.fits_soon([(n, names[n]) for n in able if names[n] in candidates.ending])) is not None:
        return Victims((node,), ())
    best: Cost | None = None
    certain = True
    for pool, by_priority in ((candidates.sparing(), True), (candidates, False)):
        bounds = yield from search.bounds(able, names, pool)
        best = yield from search.cheapest(bounds, pool, best, by_priority=by_priority)
        certain = len(bounds) <= MOST_NODES
        if (best is not None and best.violations == 0) or not candidates.allowed:
            break
    return NoVictims(certain) if best is None else Victims.of(candidates, best, (best.where,))


class _Search:
    def __init__(self, trials: Trials, pod: Pod, candidates: Candidates, holdings_on: HoldingsOn) -> None:
        self._trials = trials
        self._wanted = {name: pod.requests.get(name, 0) for name in trials.names} | {PODS: 1}
        self._all = candidates
        self._holdings_on = holdings_on
        self._spots: dict[int, Spot] = {}
        self._pools: dict[int, Candidates] = {}
        self._tried = 0
        """Sets that were tried in step 5."""

    def fits_soon(self, nodes: Sequence[tuple[int, str]]) -> str | None:
        """Step 1: the first node with pods that are being deleted on which their end suffices."""
        spots = [self._spot(n, name) for n, name in nodes]
        found = fit(self._trials, [(spot, frozenset()) for spot in spots])
        return min((spot.name for spot, fits in zip(spots, found, strict=True) if fits), default=None)

    def bounds(self, able: Sequence[int], names: Sequence[str], pool: Candidates) -> Steps[list[NodeBound]]:
        """Step 2: the nodes with enough candidates, the most promising first."""
        found = []
        for turn, n in enumerate(able, 1):
            if turn % _BATCH == 0:
                yield
            ending = self._all.ending.get(names[n], {}).values()
            missing = {
                name: self._wanted[name] - free - sum(requests.get(name, 0) for requests in ending)
                for name, free in zip(self._trials.names, self._trials.node_free(n), strict=True)
                if self._wanted[name] > 0
            }
            bound = node_bound(missing, pool.by_node.get(names[n], ()), names[n], n)
            if bound is not None:
                found.append(bound)
        return sorted(found)

    def cheapest(
        self, bounds: Sequence[NodeBound], pool: Candidates, best: Cost | None, *, by_priority: bool
    ) -> Steps[Cost | None]:
        """Steps 3 to 6, batch by batch. by_priority: whether the lowest highest priority comes first."""
        for first in range(0, min(len(bounds), MOST_NODES), _BATCH):
            batch = bounds[first : min(first + _BATCH, MOST_NODES)]
            if best is not None and best[:3] < (0, batch[0].highest, batch[0].pods):
                break
            spots = [self._spot(bound.n, bound.name) for bound in batch]
            if by_priority:
                best = yield from self._cheapest_by_priority(spots, pool, best)
            else:
                best = yield from self._among(self._fitting(spots, pool), pool, best)
        return best

    def _cheapest_by_priority(self, spots: Sequence[Spot], pool: Candidates, best: Cost | None) -> Steps[Cost | None]:
        steps = pool.priorities
        at = self._thresholds(spots, pool)
        yield
        while at:
            step = min(at.values())
            if best is not None and best[:2] < (0, steps[step]):
                break
            here = [spot for spot in spots if at.get(spot.n) == step]
            best = yield from self._among(here, self._up_to(pool, steps[step]), best)
            # If budgets or gangs rule out all sets that were found there, the next priority is tried.
            at = {n: other for n, other in at.items() if other > step} | {
                spot.n: step + 1 for spot in here if step + 1 < len(steps)
            }
        return best

    def _fitting(self, spots: Sequence[Spot], pool: Candidates) -> list[Spot]:
        """The nodes on which the pod fits if all candidates end that may end by themselves."""
        sets = [(spot, self._each(spot, pool)) for spot in spots]
        return [spot for (spot, _), fits in zip(sets, fit(self._trials, sets), strict=True) if fits]

    def _thresholds(self, spots: Sequence[Spot], pool: Candidates) -> dict[int, int]:
        """Step 3: node -> the position of its T among the priorities."""
        spots = self._fitting(spots, pool)
        low = [0] * len(spots)
        high = [len(pool.priorities) - 1] * len(spots)
        while open_ := [at for at in range(len(spots)) if low[at] < high[at]]:
            middles = [(low[at] + high[at]) // 2 for at in open_]
            sets = [
                (spots[at], self._each(spots[at], self._up_to(pool, pool.priorities[middle])))
                for at, middle in zip(open_, middles, strict=True)
            ]
            for at, middle, fits in zip(open_, middles, fit(self._trials, sets), strict=True):
                if fits:
                    high[at] = middle
                else:
                    low[at] = middle + 1
        return {spot.n: step for spot, step in zip(spots, high, strict=True)}

    def _each(self, spot: Spot, pool: Candidates) -> frozenset[str]:
        """The candidates of the node that may end by themselves: no fewer than may end together."""
        return frozenset(key for key in spot.keys if key in pool.pods and pool.whole((key,)) is not None)

    def _among(self, spots: Sequence[Spot], pool: Candidates, best: Cost | None) -> Steps[Cost | None]:
        """Steps 4 and 5."""
        costs = [] if best is None else [best]
        costs += yield from self._greedily(spots, pool)
        best = min(costs, default=None)
        for size in range(1, LARGEST_EXACT + 1):
            if best is not None and best.violations == 0 and size > best.pods:
                break
            keys = {spot.n: [key for key in spot.keys if key in pool.pods] for spot in spots}
            count = sum(spot.count(pool, keys[spot.n], size) for spot in spots)
            if self._tried + count > MOST_TRIALS:
                break
            self._tried += count
            sets = (
                (spot, whole)
                for spot in spots
                for chosen in spot.sets(pool, keys[spot.n], size)
                if (whole := pool.whole(chosen)) is not None
            )
            while some := list(islice(sets, _SETS_AT_ONCE)):
                fits = fit(self._trials, some)
                found = [
                    self._all.cost(whole, spot.name) for (spot, whole), fit_ in zip(some, fits, strict=True) if fit_
                ]
                best = min([*found, *([] if best is None else [best])], default=None)
                yield
        return best

    def _greedily(self, spots: Sequence[Spot], pool: Candidates) -> Steps[list[Cost]]:
        """Step 4, on all nodes side by side."""
        starts = [(spot, pool.most(key for key in spot.keys if key in pool.pods)) for spot in spots]
        starts = [start for start, fits in zip(starts, fit(self._trials, starts), strict=True) if fits]
        spots = [spot for spot, _ in starts]
        gone = [keys for _, keys in starts]
        orders = [self._order(spot, keys) for spot, keys in zip(spots, gone, strict=True)]
        for turn in range(max(map(len, orders), default=0)):
            tries = []
            for at, order in enumerate(orders):
                if turn < len(order) and order[turn] & gone[at]:
                    tries.append((at, gone[at] - order[turn]))
            sets = [(spots[at], pool.whole(keys) or frozenset()) for at, keys in tries]
            for (at, keys), fits in zip(tries, fit(self._trials, sets), strict=True):
                if fits:
                    gone[at] = keys
            yield
        wholes = [pool.whole(keys) for keys in gone]
        return [self._all.cost(keys, spot.name) for spot, keys in zip(spots, wholes, strict=True) if keys]

    def _order(self, spot: Spot, keys: frozenset[str]) -> list[frozenset[str]]:
        """What may stay, one after the other: members of one gang first together, then each pod."""
        violating = self._all.violating(spot.keys)
        order: list[frozenset[str]] = []
        gangs = set()
        for pod in sorted(self._all.in_order(keys), key=lambda pod: pod.key not in violating):
            if pod.gang and pod.gang not in gangs:
                gangs.add(pod.gang)
                order.append(self._all.gangs[pod.gang].members & keys)
            order.append(frozenset({pod.key}))
        return order

    def _up_to(self, pool: Candidates, priority: int) -> Candidates:
        if priority not in self._pools:
            self._pools[priority] = pool.up_to(priority)
        return self._pools[priority]

    def _spot(self, n: int, name: str) -> Spot:
        if n not in self._spots:
            self._spots[n] = Spot(self._trials, n, name, self._holdings_on(name), self._all)
        return self._spots[n]
