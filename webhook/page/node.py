"""The view of one node: its NUMA nodes side by side, and the pods on each."""

from collections.abc import Mapping
from typing import Any

from webhook.model.quoted import quoted
from webhook.page.not_found import NotFoundError
from webhook.state.cluster_cache import ClusterCache
from webhook.views.nodes import PodOnNode, node_details


def node_values(cache: ClusterCache, name: str) -> Mapping[str, Any]:
    """What the template reads. Raises NotFoundError."""
    details = node_details(cache, name)
    if details is None:
        raise NotFoundError(f"There is no Node {quoted(name)}.")
    holders: dict[int, list[tuple[PodOnNode, Mapping[str, int]]]] = {numa.id: [] for numa in details.node.numa_nodes}
    for pod in details.pods:
        for share in pod.numa_nodes or ():
            # A hint may name a NUMA node that the exporter does not list any more.
            holders.setdefault(share.id, []).append((pod, share.amounts))
    return {
        "node": details.node,
        "holders": holders,
        "unknown": [pod for pod in details.pods if not pod.numa_nodes],
        "reservations": details.reservations,
    }
