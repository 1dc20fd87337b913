"""A node's NUMA policy: Koordinator's label if it is set, else the NRT's.

An unreadable policy is unknown, not none: pods that the kubelet might reject avoid the node.
"""

from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology, PluginConfig, Publisher
from webhook.model.policy import NUMAPolicy


def policy_of(node: Node, topology: NodeTopology) -> NUMAPolicy | None:
    """The policy of a node with this NRT; None if it is unknown."""
    if unknown_policy(node, topology):
        return None
    # The label may be NONE, which is 0.
    return topology.policy if node.policy_label is None else node.policy_label


def plugin_config(node: Node, topology: NodeTopology) -> PluginConfig:
    """Policy and scope as the upstream plugin reads them; values that it cannot read are ignored."""
    plugin = topology.plugin or PluginConfig(topology.policy, topology.scope)
    return plugin if node.policy_label is None else plugin._replace(policy=node.policy_label)


def unknown_policy(node: Node, topology: NodeTopology | None) -> str:
    """The source of an unreadable policy, and its value; empty if it is readable, or if none is set."""
    if node.unknown_policy or node.policy_label is not None or topology is None:
        return node.unknown_policy
    return topology.unknown_policy


def enforces_nothing(node: Node, topology: NodeTopology | None) -> bool:
    """Whether the NUMA nodes are known, and neither the kubelet nor koordlet keeps a pod on those of its policy."""
    known = topology is not None and bool(topology.zones) and topology.publisher is not Publisher.TOTAL
    return known and topology is not None and policy_of(node, topology) is NUMAPolicy.NONE
