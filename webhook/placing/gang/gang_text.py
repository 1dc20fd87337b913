"""Texts about a gang: what it would need to fit an empty cluster, and the preferred levels that it misses."""

from collections.abc import Iterable
from typing import Final

from webhook.engine.gang.result import GangAssignment, Path, Shortfall
from webhook.engine.gang.unmet_levels import Missed
from webhook.formats.kubernetes.exclusions import ROOM_FOR
from webhook.model.counted import counted
from webhook.model.resources import PODS, format_amount

_MOST_NAMED: Final = 5


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
