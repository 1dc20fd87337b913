"""Topologies: the node labels that divide a cluster into levels of domains."""

from collections.abc import Sequence
from typing import Any

from webhook.formats.topology import TopologySource


def topology(
    *,
    labels: Sequence[str],
    name: str = "network",
    source: TopologySource = TopologySource.KAI,
    version: str = "v1alpha1",
) -> dict[str, Any]:
    """The Topology with these node labels as levels, coarse to fine."""
    return {
        "apiVersion": f"{source}/{version}",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }
