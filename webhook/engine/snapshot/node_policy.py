"""A node's NUMA policy, of the sources that may name one: Koordinator's label decides where it is set, else the NRT.

A policy that cannot be read is unknown, and not none: pods that its kubelet might reject stay away.
"""

from collections.abc import Mapping

from webhook.model.node import Node
from webhook.model.nrt import NodeTopology, PluginConfig
from webhook.model.policy import NUMAPolicy


def policy_of(node: Node, topology: NodeTopology) -> NUMAPolicy | None:
    """The policy of a node with this NRT; None where it is unknown."""
    if unknown_policy(node, topology):
        return None
    # The label may say NONE, which is 0.
    return topology.policy if node.policy_label is None else node.policy_label


def plugin_config(node: Node, topology: NodeTopology) -> PluginConfig:
    """Policy and scope for decisions as the upstream plugin makes them; what it cannot read changes nothing there."""
    plugin = topology.plugin or PluginConfig(topology.policy, topology.scope)
    return plugin if node.policy_label is None else plugin._replace(policy=node.policy_label)


def unknown_policy(node: Node, topology: NodeTopology | None) -> str:
    """Where the policy stands that cannot be read, and what it says; empty where it can be, or where none is named."""
    if node.unknown_policy or node.policy_label is not None or topology is None:
        return node.unknown_policy
    return topology.unknown_policy


class UnknownPolicies:
    """The nodes whose policy is unknown; what was handed out never changes."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._handed_out = False

    def table(self) -> Mapping[str, str]:
        """Node name -> where its policy stands and what it says."""
        self._handed_out = True
        return self._texts

    def write(self, node: str, text: str) -> None:
        """What the node says; empty if its policy is known."""
        if self._texts.get(node, "") == text:
            return
        if self._handed_out:
            self._texts = dict(self._texts)
            self._handed_out = False
        if text:
            self._texts[node] = text
        else:
            del self._texts[node]
