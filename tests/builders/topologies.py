"""Topologies: the node labels that divide a cluster into levels of domains."""

from typing import Any

from webhook.model.topology import TopologySource


def topology(
    *, labels: tuple[str, ...], name: str = "network", source: TopologySource = TopologySource.KAI
) -> dict[str, Any]:
    """The Topology with these node labels as levels, coarse to fine."""
    return {
        "apiVersion": f"{source}/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }
