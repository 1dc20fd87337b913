"""Preferred levels that an assigned gang does not meet, from the domains recorded in its members.

The records also cover a gang that another replica assigned. Members with the same request are compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from webhook.controllers.placement.recorded_domains import is_outside, path_down_to
from webhook.engine.gang.unmet_levels import Missed
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.membership import AssignedMember
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.model.topology import Topology

if TYPE_CHECKING:
    from webhook.engine.gang.result import Path


def missed_by_members(
    assigned_members: Iterable[AssignedMember], topologies: Mapping[str, Topology]
) -> tuple[Missed, ...]:
    """The preferred levels that these members do not meet."""
    by_wish: dict[tuple[str, str, int], list[AssignedMember]] = {}
    for member in assigned_members:
        for wish in _preferred(member):
            by_wish.setdefault(wish, []).append(member)
    return tuple(
        missed
        for (topology, level, size), members in by_wish.items()
        if topology in topologies and (missed := _missed(members, topologies[topology], level, size)) is not None
    )


def _preferred(member: AssignedMember) -> Iterator[tuple[str, str, int]]:
    """(topology, level, segment size) of each preference of a member; size 0: for the gang as a whole."""
    wishes = dict(member.wishes)
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
    paths: dict[int, set[Path | None]] = {}
    for member in members:
        path = path_down_to(member, labels)
        if path is not None or is_outside(member, topology.node_labels, labels):
            paths.setdefault(member.rank // size if size and member.rank is not None else 0, set()).add(path)
    missed = [domains for domains in paths.values() if len(domains) > 1 or None in domains]
    if not missed:
        return None
    if size:
        return Missed("", labels[-1], segments=len(missed), of=len(paths))
    return Missed("", labels[-1], tuple(sorted(filter(None, missed[0]))), outside=None in missed[0])
