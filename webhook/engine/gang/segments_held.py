"""How many whole segments of a pod set the nodes of a domain hold: what is short if its pods would fit one by one.

1. From the finest layer to the coarsest: a domain of the layer's level holds as many segments as its pods, in whole
   segments of the finer layers, fill.
2. The last segment may be smaller: it is held if a domain has room for it beside its whole segments.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.gang_spec import Segments
from webhook.engine.topology.tree import Domain, TopologyTree


@dataclass(frozen=True, slots=True)
class SegmentsShort:
    """The segments of one layer that a domain holds."""

    level: str
    """Node label of the level that each segment must stay within one domain of."""
    size: int
    """Pods of a segment; the last may have fewer. That of the only one, if there is one."""
    holds: int
    needed: int
    last: int = 0
    """Pods of the last segment if it has fewer, else 0."""
    last_held: bool = False
    """Whether that one is among those that the domain holds."""

    @property
    def pods(self) -> int:
        """Pods of the segments that it holds."""
        return (self.holds - self.last_held) * self.size + self.last_held * self.last

    @property
    def missing(self) -> tuple[int, int]:
        """Missing segments of the full size; pods of the last segment if that is missing and has fewer, else 0."""
        whole = self.needed - (self.last > 0) - (self.holds - self.last_held)
        return whole, 0 if self.last_held else self.last

    def to_object(self) -> dict[str, Any]:
        """The segments as JSON."""
        return {"level": self.level, "size": self.size, "holds": self.holds, "needed": self.needed}


def pods_in_segments(tree: TopologyTree, slots: Amounts, segments: Segments, level: int) -> Amounts:
    """int64 [domain of level]: the pods that fit there in whole segments. slots: int64 [position]."""
    at, pods = tree.node_level, slots
    for at, layer, room in _layers(tree, slots, segments, level):  # noqa: B007 - the last ones are used
        pods = room // layer.size * layer.size
    return pods if at == level else tree.lift(at, level, pods)


def segments_short(
    tree: TopologyTree, slots: Amounts, segments: Segments, domain: Domain, pods: int
) -> SegmentsShort | None:
    """The finest layer whose segments a domain does not hold for so many pods; None if it holds them all.

    slots: int64 [position].
    """
    for at, layer, room in _layers(tree, slots, segments, domain.level):
        inside = room[tree.under(domain, at)]
        whole, rest = divmod(pods, layer.size)
        held = int((inside // layer.size).sum())
        beside = rest > 0 and (held > whole or bool((inside % layer.size >= rest).any()))
        needed = whole + (rest > 0)
        holds = min(held, whole) + beside
        if holds < needed:
            label, size = tree.topology.levels[at - 1].node_label, min(layer.size, pods)
            return SegmentsShort(label, size, holds, needed, rest if whole else 0, last_held=beside and whole > 0)
    return None


def _layers(
    tree: TopologyTree, slots: Amounts, segments: Segments, level: int
) -> Iterator[tuple[int, Segments, Amounts]]:
    """The required layers within domains of a level, from fine to coarse: their level, and its room.

    Room: int64 [domain]: the pods that fit in whole segments of the finer layers; none where a node lacks the label.
    """
    lower, pods = tree.node_level, slots
    for layer in reversed(segments.layers()):
        at = layer.constraint.required
        if at is None or at < level:
            continue
        pods = pods if at == lower else tree.lift(lower, at, pods)
        room = np.where(tree.real(at), pods, 0)
        yield at, layer, room
        lower, pods = at, room // layer.size * layer.size
