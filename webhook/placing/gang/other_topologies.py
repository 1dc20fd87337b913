"""The topologies of a gang's parts besides its own, each with its tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology


@dataclass(frozen=True, slots=True)
class Others:
    """Topologies by name, without the gang's own."""

    topologies: Mapping[str, Topology] = field(default_factory=dict)
    cache: TopologyTrees | None = None

    def trees(self, snapshot: Snapshot) -> dict[str, TopologyTree]:
        """The tree of each, for the nodes of a snapshot."""
        if self.cache is None:
            return {}
        return {name: self.cache.tree(one, snapshot.node_arrays) for name, one in self.topologies.items()}


NO_OTHERS: Final = Others()
"""All parts of a gang are in one topology."""
