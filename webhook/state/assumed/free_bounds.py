"""The most and the least that may be free on a node's NUMA nodes.

The ledger is on the safe side: it reserves what may be taken, so that nothing is assigned twice. A kubelet knows more,
and may choose other NUMA nodes than those that seem to be the first with room. Its choice is certain if the same NUMA
nodes are the first with room both with the most and with the least that may be free. A pod that fits also fits with
more room; a pod that does not fit does not fit with less.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts, added, amounts_key


@dataclass(frozen=True, slots=True)
class Leeway:
    """The amounts on one node that may be free or taken, when one pod arrives."""

    kept: Sequence[NumaAmounts] = ()
    """Reserved, but perhaps not taken there."""
    maybe_free: Sequence[NumaAmounts] = ()
    """Shown as taken by the NRT, but perhaps free."""
    maybe_taken: Sequence[NumaAmounts] = ()
    """Perhaps taken, but not reserved."""

    def __bool__(self) -> bool:
        return bool(self.kept or self.maybe_free or self.maybe_taken)

    @property
    def key(self) -> Hashable:
        """Equal for equal amounts."""
        return tuple(tuple(map(amounts_key, part)) for part in (self.kept, self.maybe_free, self.maybe_taken))

    def at_most(self, sums: NodeSums) -> NodeSums:
        """The node's reservations if everything is free that may be free. sums: the reservations now."""
        roomy = sums.copy()
        for numa in self.kept:
            roomy.add(numa, {}, None, -1)
        roomy.ended = together([roomy.ended, *self.maybe_free])
        return roomy

    def at_least(self, sums: NodeSums) -> NodeSums:
        """The node's reservations if everything is taken that may be taken."""
        tight = sums.copy()
        for numa in self.maybe_taken:
            tight.add(numa, {}, None, 1)
        return tight


NO_LEEWAY: Final = Leeway()


def together(placements: Iterable[NumaAmounts]) -> dict[int, Mapping[str, int]]:
    """NUMA id -> resource -> sum over all of `placements`."""
    found: dict[int, list[Mapping[str, int]]] = {}
    for numa in placements:
        for numa_id, amounts in numa.items():
            found.setdefault(numa_id, []).append(amounts)
    return {numa_id: added(each) for numa_id, each in found.items()}
