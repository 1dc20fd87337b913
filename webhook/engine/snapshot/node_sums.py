"""Sums of what pods hold on one node, per NUMA node and for the node as a whole: exact and exactly reversible.

Used for the pods on a node (state) and for its reservations (ledger).
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from webhook.model.policy import NUMAPolicy

NumaAmounts = Mapping[int, Mapping[str, int]]
"""NUMA id -> resource -> amount in engine units."""

Key = TypeVar("Key", int, str)


@dataclass(slots=True)
class NodeSums:
    """What pods hold on one node. A sum of zero has no entry, so equal holdings compare equal."""

    numa: dict[int, dict[str, int]] = field(default_factory=dict)
    """NUMA id -> resource -> amount."""
    requests: dict[str, int] = field(default_factory=dict)
    """Resource -> amount on the node as a whole; "pods" counts the pods."""
    single: dict[int, int] = field(default_factory=dict)
    """NUMA id -> number of pods with policy SingleNUMANode."""
    multi: dict[int, int] = field(default_factory=dict)
    """NUMA id -> number of pods over several NUMA nodes, including this one."""
    ungrouped: dict[int, int] = field(default_factory=dict)
    """NUMA id -> number of those of them whose memory need not be on several NUMA nodes together."""
    ended: NumaAmounts = field(default_factory=dict)
    """NUMA id -> resource -> amount of ended pods: the NRT still counts it, the kubelet does not."""

    def __bool__(self) -> bool:
        return bool(self.numa or self.requests or self.single or self.multi or self.ungrouped or self.ended)

    @property
    def key(self) -> Hashable:
        """Equal for equal sums."""
        counts = (self.requests, self.single, self.multi, self.ungrouped)
        return amounts_key(self.numa), tuple([frozenset(each.items()) for each in counts]), amounts_key(self.ended)

    def copy(self) -> "NodeSums":
        """An independent copy of the sums."""
        numa = {zone: dict(amounts) for zone, amounts in self.numa.items()}
        counts = (dict(self.requests), dict(self.single), dict(self.multi), dict(self.ungrouped))
        return NodeSums(numa, *counts, self.ended)

    def add(
        self,
        numa: NumaAmounts,
        requests: Mapping[str, int],
        policy: NUMAPolicy | None,
        sign: int,
        *,
        grouped: bool = True,
    ) -> None:
        """Add one pod (sign 1) or subtract it (sign -1).

        Whether it counts as single or multi depends on its policy, not on its cpuset: pods in a NUMA node's shared pool
        have none, and upstream's exclusivity misses them for that reason. grouped: whether its memory is on several
        NUMA nodes together, if it is on several (`webhook.engine.kubelet.memory_manager`).
        """
        for zone, amounts in numa.items():
            sums = self.numa.setdefault(zone, {})
            _add(sums, amounts.items(), sign)
            if not sums:
                del self.numa[zone]
        _add(self.requests, requests.items(), sign)
        if policy is NUMAPolicy.SINGLE_NUMA_NODE:
            _add(self.single, ((zone, 1) for zone in numa), sign)
        elif len(numa) > 1:
            _add(self.multi, ((zone, 1) for zone in numa), sign)
            if not grouped:
                _add(self.ungrouped, ((zone, 1) for zone in numa), sign)


def amounts_key(numa: NumaAmounts) -> Hashable:
    """Equal for equal amounts."""
    return frozenset([(zone, frozenset(amounts.items())) for zone, amounts in numa.items()])


def added(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Resource -> sum."""
    total: dict[str, int] = {}
    for each in amounts:
        _add(total, each.items(), 1)
    return total


def _add(sums: dict[Key, int], amounts: Iterable[tuple[Key, int]], sign: int) -> None:
    for key, amount in amounts:
        total = sums.get(key, 0) + sign * amount
        if total:
            sums[key] = total
        else:
            sums.pop(key, None)
