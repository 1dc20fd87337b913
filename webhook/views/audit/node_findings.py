"""What nodes publish: their NUMA policies, and the nodes that placement knows too little of."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.engine.snapshot.node_policy import policy_of, unknown_policy
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology


@dataclass(frozen=True, slots=True)
class DisagreeingNode:
    """A node whose label and NRT name different policies. The label is used; the kubelet may enforce the other one."""

    node: str
    label: str
    """The policy of the label `node.koordinator.sh/numa-topology-policy`, in the kubelet's spelling."""
    published: str
    """The policy of the NodeResourceTopology, likewise."""


@dataclass(frozen=True, slots=True)
class UnreadableNode:
    """A node with a policy that is none of the known ones."""

    node: str
    policy: str
    """The field and its value."""


@dataclass(frozen=True, slots=True)
class NodesView:
    """The nodes of a cluster."""

    total: int
    policies: Mapping[str, int]
    """How many nodes have each policy, in the kubelet's spelling; nodes without NUMA nodes are left out."""
    without_topology: tuple[str, ...]
    """Nodes without a NodeResourceTopology that lists NUMA nodes."""
    disagreeing: tuple[DisagreeingNode, ...]
    unreadable: tuple[UnreadableNode, ...]


def nodes_view(nodes: Mapping[str, Node], topologies: Mapping[str, NodeTopology]) -> NodesView:
    """The findings on these nodes and their NRTs."""
    policies: Counter[str] = Counter()
    without, disagreeing, unreadable = [], [], []
    for name in sorted(nodes):
        node, topology = nodes[name], topologies.get(name)
        if text := unknown_policy(node, topology):
            unreadable.append(UnreadableNode(name, text))
        if topology is None or not topology.zones:
            without.append(name)
            continue
        policy = policy_of(node, topology)
        if policy is not None:
            policies[policy.kubelet] += 1
        label = node.policy_label
        if label is not None and not topology.unknown_policy and label != topology.policy:
            disagreeing.append(DisagreeingNode(name, label.kubelet, topology.policy.kubelet))
    return NodesView(len(nodes), dict(sorted(policies.items())), tuple(without), tuple(disagreeing), tuple(unreadable))
