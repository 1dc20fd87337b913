"""Requested levels that have no effect because the gang already requires a finer one."""

from collections.abc import Iterator, Mapping

from webhook.formats.topology import Topology
from webhook.formats.workload.record import WorkloadGang
from webhook.formats.workload.topology_request import SegmentRequest
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import KAI_SEGMENT_PREFERRED_PLACEMENT, KAI_SEGMENT_REQUIRED_PLACEMENT

Bound = tuple[int, str]
"""The finest level required so far: its index and the user's name for it."""


def coarser_levels(
    gang: WorkloadGang, topology: Topology, topologies: Mapping[str, Topology], bound: Bound | None = None
) -> Iterator[str]:
    """A warning for each level of segments and subgroups that is coarser than the bound.

    Raises UserError, also for segments that are required in such a level: the gang is in one of its domains anyway.

    topologies: those in which parts may be besides the gang's own, whose levels bound theirs in no order.
    """
    required = gang.request.required
    if required is not None and (level := gang.request.resolve(topology).required) is not None:
        if bound is not None and level < bound[0]:
            yield _sentence(gang.request.path, gang.request.keys[0], required, bound, topology)
        else:
            bound = level, required
    for pod_set in gang.pod_sets:
        if pod_set.segments is None or bound is None:
            continue
        yield from _coarser_segments(pod_set.segments, topology, bound)
    for part in gang.gangs:
        other = topologies.get(part.request.topology or "", topology)
        yield from coarser_levels(part, other, topologies, bound if other is topology else None)


def _coarser_segments(segments: SegmentRequest, topology: Topology, bound: Bound) -> Iterator[str]:
    levels = segments.resolve(topology)
    for key, name, level in (
        (KAI_SEGMENT_REQUIRED_PLACEMENT, segments.required, levels.required),
        (KAI_SEGMENT_PREFERRED_PLACEMENT, segments.preferred, levels.preferred),
    ):
        if name is not None and level is not None and level < bound[0]:
            sentence = _sentence(segments.path, key, name, bound, topology)
            if key == KAI_SEGMENT_REQUIRED_PLACEMENT:
                raise UserError(f"{segments.path}[{key}]", sentence.partition("]: ")[2])
            yield sentence
    if segments.inner is not None:
        yield from _coarser_segments(segments.inner, topology, bound)


def _sentence(path: str, key: str, name: str, bound: Bound, topology: Topology) -> str:
    return (
        f'{path}[{key}]: "{shortened(name)}" is coarser than the required level "{shortened(bound[1])}" of topology '
        f"{topology.name}, and adds nothing to it. Name a finer level."
    )
