"""What a group of pods asks of a topology, in the tree's own terms: levels are numbers, nodes are positions."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.engine.tree import ROOT


class Strategy(StrEnum):
    """Which of several domains that hold a group is chosen."""

    BIN_PACK = "bin-pack"
    """The tightest: larger domains stay whole for larger groups."""
    SPREAD = "spread"
    """The one with most room."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """How close pods must and should be. Levels of the tree; preferred, if both stand, is at least as fine."""

    required: int | None = None
    """One domain of this level holds all of them, or they are not placed."""
    preferred: int | None = None
    """One domain of this level should; else as few of them as can be."""

    @property
    def bound(self) -> int:
        """The level at which one domain has to hold all: the root if nothing is required."""
        return ROOT if self.required is None else self.required

    def levels(self) -> range:
        """The levels to look for one domain at, in order: preferred first, then coarser up to the bound."""
        finest = self.bound if self.preferred is None else self.preferred
        return range(finest, self.bound - 1, -1)


ANYWHERE: Final = Constraint()
"""No wish: still kept together as far as that costs nothing."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Pods in order of rank, cut into segments of `size`; each segment within one domain. The last may be smaller."""

    size: int
    constraint: Constraint
