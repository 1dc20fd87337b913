"""The topology that annotations of a workload or a pod template request, in KAI-Scheduler's format.

    kai.scheduler/topology: cluster-topology kai.scheduler/topology-required-placement: topology.kubernetes.io/zone
    kai.scheduler/topology-preferred-placement: rack kai.scheduler/segment-size: "4"
    kai.scheduler/segment-topology-required-placement: rack

A level is a node label of the topology, its alias, or an unambiguous last segment. Faults that need no cluster (a
level without a topology, an invalid size) are found here; `resolve` checks levels against the topology.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
from webhook.model.topology import Topology


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

    def resolve(self, topology: Topology) -> Levels:
        """The levels in a topology; raises UserError."""
        return _resolved(
            topology,
            (self.required, KAI_SEGMENT_REQUIRED_PLACEMENT),
            (self.preferred, KAI_SEGMENT_PREFERRED_PLACEMENT),
            self.path,
        )


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
    size = whole_number(text)
    if not size:
        raise UserError(
            f"{path}[{KAI_SEGMENT_SIZE}]",
            f'"{shortened(text)}" is not a size. Write a whole number of pods, such as 4.',
        )
    if required is None and preferred is None:
        # Without a level, a segment has no domain to be within.
        return None
    return SegmentRequest(size, required, preferred, required_path or preferred_path)


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
