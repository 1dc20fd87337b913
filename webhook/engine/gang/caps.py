"""What replays have found: the most pods of a class that a node admits. And the counts that these limit."""

from dataclasses import replace

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Count, count
from webhook.engine.gang.pods_per_node import UNBOUNDED
from webhook.engine.snapshot.snapshot import Snapshot


class Caps:
    """The limits of one gang's classes, which are compared by identity."""

    def __init__(self) -> None:
        self._most: dict[PodClass, Amounts] = {}
        self._counts: dict[PodClass, tuple[Snapshot, Count]] = {}

    def __bool__(self) -> bool:
        return bool(self._most)

    def lower(self, pod_class: PodClass, nodes: int | Amounts, most: int, n: int) -> None:
        """Note that these nodes (n of each, of n nodes) admit at most so many pods of the class."""
        if pod_class not in self._most:
            self._most[pod_class] = np.full(n, UNBOUNDED, dtype=np.int64)
        limits = self._most[pod_class]
        limits[nodes] = np.minimum(limits[nodes], most)

    def limited(self, pod_class: PodClass, counted: Count) -> Count:
        """The count within the limits."""
        most = self._most.get(pod_class)
        return counted if most is None else replace(counted, nodes=np.minimum(counted.nodes, most))

    def count(self, snapshot: Snapshot, pod_class: PodClass) -> Count:
        """The count of a class in the snapshot, which is asked for again and again; without the limits."""
        known = self._counts.get(pod_class)
        if known is None or known[0] is not snapshot:
            known = self._counts[pod_class] = snapshot, count(snapshot, pod_class)
        return known[1]
