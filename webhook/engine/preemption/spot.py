"""A node for trials: the candidates on it, and what each gives back."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.freeing.freed_amounts import Effect
from webhook.engine.freeing.holdings import NodeHoldings
from webhook.engine.freeing.trials import Trials
from webhook.engine.preemption.candidates import Candidates


class Spot:
    """A node on which the preemptor would fit if it were empty. The pods that are being deleted count as ended."""

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
