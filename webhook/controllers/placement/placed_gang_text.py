"""Where a gang is placed, in words: `placed in rack-7: 16 pods on 8 nodes`, and the preferred levels that it misses.

Read from its members alone, so a new leader says the same.
"""

from collections.abc import Collection, Mapping
from typing import Final

from webhook.admission.gang_text import missed_text
from webhook.controllers.placement.missed_levels import missed_by_members
from webhook.controllers.placement.recorded_domains import common_domain
from webhook.model.counted import counted
from webhook.model.json_text import shortened
from webhook.model.membership import AssignedMember
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.quoted import quoted
from webhook.model.topology import Topology

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
