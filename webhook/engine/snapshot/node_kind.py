"""Kinds of nodes: nodes of one kind align every pod by the same rules, and a cluster has few kinds.

A kind is one byte: bits 0-1 NUMAPolicy, then one bit each as named below. The policy is that of Koordinator's label if
it is set, else that of the NRT. An unreadable policy is unknown, not none: pods that the kubelet might reject avoid the
node.
"""

from typing import Final

from webhook.formats.kubernetes.kubelet_options import NO_OPTIONS, KubeletOptions
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology, PluginConfig, Publisher
from webhook.model.policy import NUMAPolicy, Scope


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


POLICY: Final = 0b11
"""The bits that hold the node's NUMAPolicy."""
TOTAL: Final = 1 << 2
"""The publisher gives totals (koordlet)."""
POD_SCOPE: Final = 1 << 3
CLOSEST: Final = 1 << 4
"""prefer-closest-numa-nodes."""
TOO_MANY: Final = 1 << 5
"""More NUMA nodes than max-allowable-numa-nodes."""
NO_TOPOLOGY: Final = 1 << 6
"""No NUMA node is known."""
UNKNOWN_POLICY: Final = 1 << 7
"""The node names a policy that we do not know; the policy bits are then those of none."""
KINDS: Final = 1 << 8
"""The number of possible kinds."""


def kind_of(policy: NUMAPolicy | None, topology: NodeTopology, options: KubeletOptions = NO_OPTIONS) -> int:
    """The kind of a node with this policy (None: it is unknown), NRT and stated options."""
    flags = (
        (policy is None, UNKNOWN_POLICY),
        (topology.publisher is Publisher.TOTAL, TOTAL),
        (topology.scope is Scope.POD, POD_SCOPE),
        (topology.prefer_closest or options.prefer_closest, CLOSEST),
        (topology.numa_nodes > numa_limit(topology, options), TOO_MANY),
        # NUMA nodes without a known resource do not say where a pod could be aligned.
        (not any(zone.resources or zone.unmanaged for zone in topology.zones), NO_TOPOLOGY),
    )
    return (policy or NUMAPolicy.NONE) | sum(flag for holds, flag in flags if holds)


def numa_limit(topology: NodeTopology, options: KubeletOptions) -> int:
    """The most NUMA nodes with which the kubelet starts, unless its policy is none."""
    return options.max_numa_nodes or topology.max_numa_nodes
