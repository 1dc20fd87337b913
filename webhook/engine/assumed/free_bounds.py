"""How much more, or less, of a node's NUMA nodes may be free than is reckoned with.

What is reckoned with is safe: what may be taken is kept, so that nothing is promised twice. A kubelet knows better, and
may choose other NUMA nodes than those that seem to be the first with room. It chooses the same if they are the first
both with the most and with the least that may be free: what fits, fits with more; what does not, does not with less.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts, added


@dataclass(frozen=True, slots=True)
class Leeway:
    """That of one node for one pod."""

    kept: Sequence[NumaAmounts] = ()
    """Reserved, and perhaps not taken there."""
    maybe_free: Sequence[NumaAmounts] = ()
    """Shown as taken by the NRT, and perhaps free."""
    maybe_taken: Sequence[NumaAmounts] = ()
    """Perhaps taken, and not reserved."""

    def __bool__(self) -> bool:
        return bool(self.kept or self.maybe_free or self.maybe_taken)

    def at_most(self, sums: NodeSums) -> NodeSums:
        """What is reserved on the node, with all free that may be."""
        roomy = sums.copy()
        for numa in self.kept:
            roomy.add(numa, {}, None, -1)
        roomy.ended = together([roomy.ended, *self.maybe_free])
        return roomy

    def at_least(self, sums: NodeSums) -> NodeSums:
        """The same with all taken that may be."""
        tight = sums.copy()
        for numa in self.maybe_taken:
            tight.add(numa, {}, None, 1)
        return tight


NO_LEEWAY: Final = Leeway()


def together(places: Iterable[NumaAmounts]) -> dict[int, Mapping[str, int]]:
    """NUMA id -> resource -> sum."""
    found: dict[int, list[Mapping[str, int]]] = {}
    for numa in places:
        for numa_id, amounts in numa.items():
            found.setdefault(numa_id, []).append(amounts)
    return {numa_id: added(each) for numa_id, each in found.items()}
