"""Kinds of nodes: nodes of one kind align every pod by the same rules, and a cluster has few kinds.

A kind is one byte: bits 0-1 NUMAPolicy, then one bit each as named below.
"""

from typing import Final

from webhook.formats.kubernetes.kubelet_options import NO_OPTIONS, KubeletOptions
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope

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
