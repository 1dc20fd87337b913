"""Where a group is to be placed, and how hard to search for a place."""

from dataclasses import dataclass

from webhook.engine.group.preference import GroupPreference
from webhook.engine.group.stock import Caps
from webhook.engine.options import GroupStrategy
from webhook.engine.tree import TopologyTree
from webhook.engine.view import View


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search."""

    domains: int = 8
    """Domains of a level that greedy tries."""
    steps: int = 400_000
    """Steps of the exact search, each about a microsecond."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A group's cluster, and what its placement goes by."""

    view: View
    tree: TopologyTree
    caps: Caps
    strategy: GroupStrategy
    effort: Effort
    preference: GroupPreference
