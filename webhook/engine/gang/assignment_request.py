"""Where a group is to be placed, and how hard to search for a place."""

from dataclasses import dataclass

from webhook.engine.gang.mean_preference import GroupPreference
from webhook.engine.gang.remaining import Caps
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.model.options import GangStrategy


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

    snapshot: Snapshot
    tree: TopologyTree
    caps: Caps
    strategy: GangStrategy
    effort: Effort
    preference: GroupPreference
