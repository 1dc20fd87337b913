"""The view of one gang: its members by rank, and how far apart neighbours in rank are."""

from collections.abc import Mapping
from typing import Any

from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.quoted import quoted
from webhook.page.not_found import NotFoundError
from webhook.state.cluster_cache import ClusterCache
from webhook.views.ranks import gang_ranks


def gang_values(cache: ClusterCache, trees: TopologyTrees, key: str) -> Mapping[str, Any]:
    """What the template reads. key: namespace/name. Raises NotFoundError."""
    namespace, _, name = key.partition("/")
    ranks = gang_ranks(cache, namespace, name, trees)
    if ranks is None:
        raise NotFoundError(f"No gang {quoted(key)} has a member with a node.")
    return {"key": key, "namespace": namespace, "name": name, "ranks": ranks}
