"""A plan that moves running pods so that what waits can start, for people."""

from dataclasses import dataclass
from enum import StrEnum


class Defragments(StrEnum):
    """What lets a waiting pod or gang start."""

    FITS = "Fits"
    """It fits without any move."""
    MOVES = "Moves"
    """The moves of these pods."""
    NO_MOVES = "NoMoves"
    """No moves of pods that may be moved."""
    NOT_FOUND = "NotFound"
    """The search found no such moves within its limits."""
    UNKNOWN = "Unknown"
    """It waits for something else than room, see `why`."""


@dataclass(frozen=True, slots=True)
class PlaceView:
    """Where a waiting pod would start."""

    name: str
    node: str
    numa_nodes: tuple[int, ...]
    """NUMA ids, ascending; empty if it is not bound to any."""


@dataclass(frozen=True, slots=True)
class MoveView:
    """A running pod that would move."""

    namespace: str
    name: str
    node: str
    """Where it runs."""
    numa_nodes: tuple[int, ...]
    """What it holds there, as far as known."""
    to_node: str
    """Where it could go: the service or the scheduler decides when its controller has created the next pod."""
    to_numa_nodes: tuple[int, ...]
    why: str
    """What it makes room for."""


@dataclass(frozen=True, slots=True)
class DefragmentationView:
    """The plan for one pod or gang that waits."""

    namespace: str
    name: str
    gang: bool
    pods: int
    """How many of its pods wait."""
    priority: int
    verdict: Defragments
    starts: tuple[PlaceView, ...] = ()
    """Where its pods would start."""
    moves: tuple[MoveView, ...] = ()
    at_least: int = 0
    """No fewer moves are enough; as many as `moves` if these are certainly the fewest."""
    why: str = ""
    """Why there are no moves."""
