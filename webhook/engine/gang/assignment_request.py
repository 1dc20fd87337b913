"""The input of a gang's placement, and the limits of the search."""

from dataclasses import dataclass

from webhook.engine.gang.mean_preference import GangPreference
from webhook.engine.gang.pod_counts import Caps
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a search."""

    domains: int = 8
    """The number of domains of a level that greedy tries."""
    tries: int = 1_000
    """How often greedy places a subgroup, besides four times for each subgroup; half a millisecond in 5,000 nodes."""
    steps: int = 400_000
    """Steps of the exact search, each about a microsecond (see Budget)."""


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentRequest:
    """The cluster and the settings for a gang's placement."""

    snapshot: Snapshot
    tree: TopologyTree
    caps: Caps
    strategy: GangStrategy
    effort: Effort
    preference: GangPreference
