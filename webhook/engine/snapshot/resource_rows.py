"""Which resources have a row in the arrays: those that most nodes offer, within a limit.

A cell is one row of one NUMA node's position. At 5,000 nodes one takes 120 KB in each of at most three buffers (three
amounts of 8 bytes each), so the arrays take at most 90 MiB, whatever is published.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.model.resources import CPU, MEMORY, PODS

MAX_CELLS: Final = 256
"""32 resources on nodes of 8 NUMA nodes: Kubernetes defines about eight, machines have a few kinds of devices."""

_ALWAYS: Final = (CPU, MEMORY, PODS)
# A resource without a row replaces another only if this many times as many nodes offer it: rows must not change with
# every node that comes and goes.
_CLEARLY_MORE: Final = 2


class ResourceRows:
    """The index of rows, and how many objects (nodes and their NRTs) offer each resource."""

    def __init__(self, cells: int = MAX_CELLS) -> None:
        self.index = ResourceIndex(_ALWAYS)
        self._cells = cells
        self._offers: Counter[str] = Counter()
        self._candidates: set[str] = set()
        self._z = 1

    def offer(self, before: Iterable[str], after: Iterable[str]) -> None:
        """One object now names other resources than before."""
        before, after = set(before), set(after)
        for name in before - after:
            self._offers[name] -= 1
            if not self._offers[name]:
                del self._offers[name]
        for name in after - before:
            self._offers[name] += 1
            if name not in self.index:
                self._candidates.add(name)

    def settle(self, z: int) -> tuple[frozenset[str], frozenset[str]]:
        """Update the index for arrays of z positions; returns the resources that gained a row and that lost one."""
        if z == self._z and not self._candidates:
            return _NONE, _NONE
        self._z = z
        new = sorted(name for name in self._candidates if self._offers[name])
        self._candidates.clear()
        present = self.index.names
        most = max(self._cells // z, len(_ALWAYS))
        if len(present) + len(new) <= most:
            kept = {*present, *new}
        else:
            others = [name for name in present if name not in _ALWAYS]
            weight = {name: self._offers[name] for name in new}
            weight |= {name: self._offers[name] * _CLEARLY_MORE for name in others}
            ranked = sorted((*others, *new), key=lambda name: (-weight[name], name))
            kept = {*_ALWAYS, *ranked[: most - len(_ALWAYS)]}
        gained, lost = frozenset(kept.difference(present)), frozenset(set(present) - kept)
        if gained or lost:
            left = [name for name in present if name in kept]
            self.index = ResourceIndex((*left, *(name for name in new if name in gained)))
        return gained, lost


_NONE: Final[frozenset[str]] = frozenset()
