"""Where a gang is placed, in words: `placed in rack-7: 16 pods on 8 nodes`, and the preferred levels that it misses.

Read from its members alone, so a new leader says the same.

Preferred levels that an assigned gang does not meet, from the domains recorded in its members.

The records also cover a gang that another replica assigned. Members with the same request are compared.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from webhook.engine.gang.unmet_levels import Missed
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Topology
from webhook.model.counted import counted
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.model.quoted import quoted
from webhook.placing.gang.gang_text import missed_text
from webhook.placing.gang.recorded_domains import common_domain, is_outside, path_down_to

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


# A node label's value has at most 63 characters. Source: kubernetes apimachinery pkg/util/validation.
_LONGEST_VALUE: Final = 63
_MOST_NAMED: Final = 3


def placed_gang_text(members: Collection[AssignedMember], topologies: Mapping[str, Topology]) -> str:
    """The text about a gang with these assigned members. It names the finest domain that holds all of them.

    If they name several topologies, the one in each of them.
    """
    by_topology: dict[str, list[AssignedMember]] = {}
    for member in members:
        by_topology.setdefault(dict(member.wishes).get(KAI_TOPOLOGY, ""), []).append(member)
    if len(by_topology) > 1:
        domains = [(name, common_domain(some)) for name, some in sorted(by_topology.items())[:_MOST_NAMED] if name]
        named = [f"{_shown(path[-1][1])} of topology {shortened(name)}" for name, path in domains if path]
    else:
        domain = common_domain(members)
        named = [_shown(domain[-1][1])] if domain else []
    where = f"placed in {', '.join(named)}" if named else "placed"
    text = f"{where}: {counted(len(members), 'pod')} on {counted(len({one.node for one in members}), 'node')}"
    missed = missed_text(missed_by_members(members, topologies))
    return f"{text}; {missed}" if missed else text


def _shown(value: str) -> str:
    """A label's value. Pods that were bound while no webhook answered may record any text."""
    return value if value and len(value) <= _LONGEST_VALUE and value.isprintable() else quoted(value)
