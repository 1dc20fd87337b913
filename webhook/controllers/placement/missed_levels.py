"""Preferred levels that a placed group does not keep, by what the placement of its members recorded in them.

So it can be said of a group that another replica placed. Members that ask for the same are looked at together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from webhook.engine.gang.result import Path
from webhook.engine.gang.unmet_levels import Missed
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import parse_object
from webhook.model.membership import AssignedMember
from webhook.model.names import (
    DOMAIN,
    KAI_PREFERRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.model.topology import Topology


def missed_by_members(seats: Iterable[AssignedMember], topologies: Mapping[str, Topology]) -> tuple[Missed, ...]:
    """Those of the members with a place."""
    alike: dict[tuple[str, str, int], list[AssignedMember]] = {}
    for seat in seats:
        for wish in _preferred(seat):
            alike.setdefault(wish, []).append(seat)
    return tuple(
        missed
        for (topology, level, size), members in alike.items()
        if topology in topologies and (missed := _missed(members, topologies[topology], level, size)) is not None
    )


def _preferred(seat: AssignedMember) -> Iterator[tuple[str, str, int]]:
    """(topology, level, size of a segment) of what a member prefers; size 0: for the group as a whole."""
    wishes = dict(seat.wishes)
    topology = wishes.get(KAI_TOPOLOGY, "")
    if level := wishes.get(KAI_PREFERRED_PLACEMENT):
        yield topology, level, 0
    if level := wishes.get(KAI_SEGMENT_PREFERRED_PLACEMENT):
        size = whole_number(wishes.get(KAI_SEGMENT_SIZE, ""))
        if size:
            yield topology, level, size


def _missed(members: Sequence[AssignedMember], topology: Topology, level: str, size: int) -> Missed | None:
    try:
        labels = topology.node_labels[: topology.level(level) + 1]
    except UserError:
        return None
    paths: dict[int, set[Path]] = {}
    for seat in members:
        if (path := _recorded(seat.domain, labels)) is not None:
            paths.setdefault(seat.rank // size if size and seat.rank is not None else 0, set()).add(path)
    split = [domains for domains in paths.values() if len(domains) > 1]
    if not split:
        return None
    if size:
        return Missed("", labels[-1], segments=len(split), of=len(paths))
    return Missed("", labels[-1], tuple(sorted(split[0])))


def _recorded(text: str, labels: Sequence[str]) -> Path | None:
    """The path down to the last label; None where the placement recorded none."""
    values = _values(text)
    return tuple((label, str(values[label])) for label in labels) if values.keys() >= set(labels) else None


@lru_cache(maxsize=4096)
def _values(text: str) -> Mapping[str, Any]:
    try:
        return parse_object(text, DOMAIN)[0]
    except UserError:
        return {}
