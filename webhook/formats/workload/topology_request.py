"""The topology that annotations of a workload or a pod template request, in KAI-Scheduler's format.

    kai.scheduler/topology: cluster-topology kai.scheduler/topology-required-placement: topology.kubernetes.io/zone
    kai.scheduler/topology-preferred-placement: rack kai.scheduler/segment-size: "4"
    kai.scheduler/segment-topology-required-placement: rack

Lists of sizes and required levels, such as "48,16,2" and "zone,rack,host", request segments inside segments.
A level is a node label of the topology, its alias, or an unambiguous last segment. Faults that need no cluster (a
level without a topology, an invalid size) are found here; `resolve` checks levels against the topology.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.model.wording import counted

MAX_LAYERS: Final = 3
"""How many layers of segments there may be, as in Kueue."""
# How far a fault searches for a size that divides another.
_FAR: Final = 1000


@dataclass(frozen=True, slots=True)
class Levels:
    """Required and preferred level as indexes into a topology, coarse = 0; None = no request."""

    required: int | None
    preferred: int | None


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """A topology by name and levels as the user wrote them; None where nothing is requested."""

    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    path: str = ""
    """The path of the annotations that name the levels, for messages."""
    topology_path: str = ""
    """The path of the annotations that name the topology."""
    keys: tuple[str, str] = (KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)
    """The annotation keys of the levels: those of segments if the subgroup is a segment."""

    @property
    def levels(self) -> bool:
        """Whether any level is requested."""
        return self.required is not None or self.preferred is not None

    def resolve(self, topology: Topology) -> Levels:
        """The levels in a topology; raises UserError."""
        required, preferred = self.keys
        return _resolved(topology, (self.required, required), (self.preferred, preferred), self.path)


NO_REQUEST: Final = TopologyRequest()


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """Segments of pods in order of rank, each within one domain."""

    size: int
    required: str | None
    preferred: str | None
    path: str = ""
    inner: "SegmentRequest | None" = None
    """The segments inside each of these; their size divides this one."""

    def resolve(self, topology: Topology) -> Levels:
        """The levels of these segments in a topology. Raises UserError, also for those inside them."""
        levels = _resolved(
            topology,
            (self.required, KAI_SEGMENT_REQUIRED_PLACEMENT),
            (self.preferred, KAI_SEGMENT_PREFERRED_PLACEMENT),
            self.path,
        )
        finer = None if self.inner is None else self.inner.resolve(topology).required
        if self.inner is not None and (levels.required is None or finer is None or finer <= levels.required):
            raise UserError(
                f"{self.path}[{KAI_SEGMENT_REQUIRED_PLACEMENT}]",
                f'"{self.inner.required}" is not finer than "{self.required}" in topology {topology.name}. '
                "Name the levels from coarse to fine, each only once.",
            )
        return levels


def topology_request(*annotations: tuple[Mapping[str, str], str]) -> TopologyRequest:
    """The combined request of several sets of annotations, each with its path; earlier ones win. Raises UserError."""
    topology, topology_path = _first(annotations, KAI_TOPOLOGY)
    required, required_path = _first(annotations, KAI_REQUIRED_PLACEMENT)
    preferred, preferred_path = _first(annotations, KAI_PREFERRED_PLACEMENT)
    path = required_path or preferred_path
    if topology is None and path:
        key = KAI_REQUIRED_PLACEMENT if required is not None else KAI_PREFERRED_PLACEMENT
        raise UserError(
            f"{path}[{key}]", f"A level needs a topology. Name it in the annotation {KAI_TOPOLOGY} beside this one."
        )
    return TopologyRequest(topology, required, preferred, path, topology_path)


def segment_request(*annotations: tuple[Mapping[str, str], str]) -> SegmentRequest | None:
    """The segments requested, None if there are none; raises UserError."""
    text, path = _first(annotations, KAI_SEGMENT_SIZE)
    required, required_path = _first(annotations, KAI_SEGMENT_REQUIRED_PLACEMENT)
    preferred, preferred_path = _first(annotations, KAI_SEGMENT_PREFERRED_PLACEMENT)
    if text is None:
        if required_path or preferred_path:
            key = KAI_SEGMENT_REQUIRED_PLACEMENT if required_path else KAI_SEGMENT_PREFERRED_PLACEMENT
            raise UserError(
                f"{required_path or preferred_path}[{key}]",
                f"Segments need a size. Write it in the annotation {KAI_SEGMENT_SIZE} beside this one.",
            )
        return None
    sizes = _sizes(text, f"{path}[{KAI_SEGMENT_SIZE}]")
    if required is None and preferred is None:
        # Without a level, a segment has no domain to be within.
        return None
    levels: list[str | None] = [required]
    if len(sizes) > 1 or (required is not None and "," in required):
        levels = [*_levels(required, len(sizes), text, required_path or preferred_path)]
        if preferred is not None:
            raise UserError(
                f"{preferred_path}[{KAI_SEGMENT_PREFERRED_PLACEMENT}]",
                "Segments inside segments have required levels only. Remove this annotation.",
            )
    found: SegmentRequest | None = None
    for size, level in zip(reversed(sizes), reversed(levels), strict=True):
        found = SegmentRequest(size, level, preferred, required_path or preferred_path, found)
    return found


def _sizes(text: str, path: str) -> list[int]:
    """The sizes of segments, each of which divides the one before. Raises UserError. path: the annotation's."""
    parts = [part.strip() for part in text.split(",", MAX_LAYERS)]
    if len(parts) > MAX_LAYERS:
        raise UserError(path, f'"{shortened(text)}" has too many sizes. Write {MAX_LAYERS} at most.')
    sizes = []
    for part in parts:
        size = whole_number(part)
        if not size:
            more = f', or up to {MAX_LAYERS} of them, such as "48,16,2"' if len(parts) > 1 else ""
            raise UserError(path, f'"{shortened(part)}" is not a size. Write a whole number of pods, such as 4{more}.')
        sizes.append(size)
    for coarse, fine in pairwise(sizes):
        if fine >= coarse or coarse % fine:
            raise UserError(
                path,
                f"Segments of {counted(fine, 'pod')} do not divide those of {coarse} before them. Write the sizes from "
                f"large to small, each a part of the one before{_nearest_part(coarse, fine)}.",
            )
    return sizes


def _nearest_part(of: int, size: int) -> str:
    """A size near `size` that divides `of`, in words; empty if none is found quickly."""
    near = (each for each in range(min(size, of - 1), max(size - _FAR, 0), -1) if of % each == 0)
    found = next(near, None)
    return "" if found is None else f", such as {found}"


def _levels(text: str | None, number: int, sizes: str, path: str) -> list[str]:
    """The required levels of a number of layers. Raises UserError."""
    levels = [] if text is None else [part.strip() for part in text.split(",", MAX_LAYERS)]
    if len(levels) != number or not all(levels):
        raise UserError(
            f"{path}[{KAI_SEGMENT_REQUIRED_PLACEMENT}]",
            f'"{shortened(text or "")}" does not name one level for each of the sizes "{shortened(sizes)}". '
            "Write as many levels as sizes, from coarse to fine, with commas between them.",
        )
    return levels


def names_segment_level(*annotations: tuple[Mapping[str, str], str]) -> bool:
    """Whether any of these annotations names a level for segments."""
    keys = (KAI_SEGMENT_REQUIRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT)
    return any(values.get(key) for values, _ in annotations for key in keys)


def _first(annotations: tuple[tuple[Mapping[str, str], str], ...], key: str) -> tuple[str | None, str]:
    """The first non-empty value of a key, and the path of its annotations."""
    for values, path in annotations:
        if values.get(key):
            return values[key].strip(), path
    return None, ""


def _resolved(
    topology: Topology, required: tuple[str | None, str], preferred: tuple[str | None, str], path: str
) -> Levels:
    if not topology.name:
        key = next(key for name, key in (required, preferred) if name is not None)
        raise UserError(f"{path}[{key}]", f"A level needs a topology. Name it in the annotation {KAI_TOPOLOGY}.")
    levels = [None if name is None else topology.level(name, f"{path}[{key}]") for name, key in (required, preferred)]
    if levels[0] is not None and levels[1] is not None and levels[1] < levels[0]:
        raise UserError(
            f"{path}[{preferred[1]}]",
            f'"{preferred[0]}" is coarser than the required level "{required[0]}" of topology {topology.name}. '
            "Prefer the same level or a finer one.",
        )
    return Levels(*levels)
