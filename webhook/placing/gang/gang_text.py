"""Texts about a gang: where it is placed, the preferred levels that it misses, and what it would need to fit.

    placed in rack-7: 16 pods on 8 nodes

What is said of an assigned gang is read from its members alone: their placement recorded its domains on them, as
`{"example.com/rack": "r1"}`, coarse to fine. So a new leader says the same, also of a gang that another replica
assigned. A pod that was bound while no webhook answered may carry any text.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from webhook.engine.gang.result import GangAssignment, Path, Shortfall
from webhook.engine.gang.unmet_levels import Missed
from webhook.formats.kubernetes.exclusions import ROOM_FOR
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.fields import whole_number
from webhook.model.json_text import parse_object, shortened
from webhook.model.names import (
    DOMAIN,
    KAI_PREFERRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.model.resources import PODS, format_amount
from webhook.model.wording import counted, quoted

_MOST_NAMED: Final = 5
# A topology has at most 16 levels (KAI-Scheduler's and Kueue's CRDs). A record with more is not ours.
_MOST_LEVELS: Final = 16
# A node label's value has at most 63 characters. Source: kubernetes apimachinery pkg/util/validation.
_LONGEST_VALUE: Final = 63
_MOST_TOPOLOGIES: Final = 3


def never_held(when_empty: GangAssignment) -> str:
    """That the gang does not fit even an empty cluster, and what it needs; empty if it fits or may fit there.

    when_empty: its placement on the empty cluster.
    """
    if when_empty.assigned or not when_empty.exhaustive or not when_empty.why:
        return ""
    # Coarse to fine: the coarsest required level decides, because no finer level can make up for it.
    short = when_empty.why[0]
    kind = short.level.rpartition("/")[2]
    no_place = "not even an empty cluster has a place for it"
    if short.part:
        no_place += f", {short.part}"
    if kind and not short.domain:
        return f"{no_place}: no node is in any {kind}; needed: {_labels(short)}"
    where = f"the best {kind}, {short.domain[-1][1]}," if short.domain else "the cluster"
    return f"{no_place}: {where} would hold {short.held}; needed: {_needed(short)}"


def _needed(short: Shortfall) -> str:
    missing = (short.needed - short.holds) * short.amount
    if not short.resource:
        return "nodes that its node selectors, tolerations and NUMA policies allow"
    if short.segments is not None:
        kind = short.segments.level.rpartition("/")[2]
        whole, last = short.segments.missing
        sizes = [(short.segments.size, f"each of {counted(whole, 'more segment')}")] if whole else []
        sizes += [(last, "the last segment")] if last else []
        amounts = ((format_amount(short.resource, size * short.amount), which) for size, which in sizes)
        return " and ".join(f"{amount} {short.resource} in one {kind} for {which}" for amount, which in amounts)
    if short.resource.startswith(ROOM_FOR):
        return f"room for {counted(short.needed - short.holds, 'more pod')} on other nodes there"
    if short.resource == PODS:
        return f"room for {counted(missing, 'more pod')} there"
    return f"at least {format_amount(short.resource, missing)} more {short.resource} there"


def _labels(short: Shortfall) -> str:
    """The label that no node has; where each label is on some node, those that must be on one node."""
    first, *others = short.missing
    return f"the labels {', '.join(others)} and {first} on one node" if others else f"the label {first}"


def missed_text(missed: Iterable[Missed]) -> str:
    """The preferred levels that were missed, one clause each; empty if none was."""
    return "; ".join(map(_missed, missed))


def _missed(one: Missed) -> str:
    kind = one.label.rpartition("/")[2]
    of = f" of {one.part}" if one.part else ""
    if one.segments:
        return f"preferred {kind}{of} missed by {one.segments} of {counted(one.of, 'segment')}"
    names = [path[-1][1] for path in one.domains]
    if len(set(names)) < len(names):
        names = ["/".join(value for _, value in path) for path in one.domains]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    where = [f"in {counted(len(names), kind)} ({', '.join(names[:_MOST_NAMED])}{more})"] if names else []
    if one.outside:
        where.append(f"outside any {kind}")
    return f"preferred {kind}{of} missed: {' and '.join(where)}"


def gang_domains_text(placement: GangAssignment) -> str:
    """The domain of an assigned gang; of each part with its topology, if they are in several.

    `rack r1`; `zone a (workers: rack r1 of topology racks, leader: row x of topology rows)`.
    """
    whole = spoken_path(placement.tree.path(placement.domain) if placement.domain is not None else ())
    if not placement.parts:
        return whole
    parts = (
        f"{part.name}: {spoken_path(part.tree.path(part.domain) if part.domain is not None else ())} of topology "
        f"{part.tree.topology.name}"
        for part in placement.parts
    )
    return f"{whole} ({', '.join(parts)})"


def not_found_text(placement: GangAssignment) -> str:
    """That a place may exist although none was found; empty if it is certain that there is none."""
    if placement.assigned or placement.exhaustive or not placement.gang.elsewhere:
        return ""
    return "; its parts are in several topologies, and the search for places of all of them ended at its bound"


def spoken_path(domain: Path) -> str:
    """`rack rack-1`; the whole cluster has no name."""
    return f"{domain[-1][0].rpartition('/')[2]} {domain[-1][1]}" if domain else "the cluster"


def path_down_to(member: AssignedMember, labels: Sequence[str]) -> Path | None:
    """The recorded path along these labels; None if the placement did not record all of them."""
    values = _values(member.domain)
    return tuple((label, str(values[label])) for label in labels) if values.keys() >= set(labels) else None


def is_outside(member: AssignedMember, known: Collection[str], labels: Sequence[str]) -> bool:
    """Whether we placed the member, in a topology with the known labels, on a node that lacks some of these labels."""
    recorded = _values(member.domain).keys()
    return member.assigned and recorded <= set(known) and not recorded >= set(labels)


def common_domain(members: Iterable[AssignedMember]) -> Path:
    """The finest domain that all members recorded; empty if there is none."""
    common: Path | None = None
    for text in {member.domain for member in members}:
        path = tuple((label, str(value)) for label, value in _values(text).items())[:_MOST_LEVELS]
        common = path if common is None else _shared(common, path)
    return common or ()


def _shared(one: Path, other: Path) -> Path:
    """What two paths have in common, from the coarsest level on."""
    for length, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return one[:length]
    return one[: len(other)]


# With hostnames as the finest level, a large cluster has a text for each of its 5,000 nodes.
@lru_cache(maxsize=8192)
def _values(text: str) -> Mapping[str, Any]:
    try:
        return parse_object(text, DOMAIN)[0]
    except UserError:
        return {}


def missed_by_members(
    assigned_members: Iterable[AssignedMember], topologies: Mapping[str, Topology]
) -> tuple[Missed, ...]:
    """The preferred levels that these members do not meet, from the domains recorded in them.

    Members with the same request are compared.
    """
    by_wish: dict[tuple[str, str, int], list[AssignedMember]] = {}
    for member in assigned_members:
        for wish in _preferred(member):
            by_wish.setdefault(wish, []).append(member)
    return tuple(
        missed
        for (topology, level, size), members in by_wish.items()
        if topology in topologies and (missed := _missed_level(members, topologies[topology], level, size)) is not None
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


def _missed_level(members: Sequence[AssignedMember], topology: Topology, level: str, size: int) -> Missed | None:
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


def placed_gang_text(members: Collection[AssignedMember], topologies: Mapping[str, Topology]) -> str:
    """The text about a gang with these assigned members. It names the finest domain that holds all of them.

    If they name several topologies, the one in each of them.
    """
    by_topology: dict[str, list[AssignedMember]] = {}
    for member in members:
        by_topology.setdefault(dict(member.wishes).get(KAI_TOPOLOGY, ""), []).append(member)
    if len(by_topology) > 1:
        domains = [(name, common_domain(some)) for name, some in sorted(by_topology.items())[:_MOST_TOPOLOGIES] if name]
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
