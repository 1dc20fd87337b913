"""The scheduler plugin NodeResourceTopologyMatch as shipped: its Filter and its four scores, for all nodes at once.

For comparison and migration: its decisions differ from those of kubelets (webhook.engine.kubelet).
"""

from webhook.engine.plugin.filter import FilterFit, filter_nodes
from webhook.engine.plugin.scores import Strategy, score_nodes

__all__ = ["FilterFit", "Strategy", "filter_nodes", "score_nodes"]
