"""What nodes publish: NUMA policies, labels of topologies, and the nodes that placement knows too little of."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.engine.snapshot.node_kind import enforces_nothing, policy_of, unknown_policy
from webhook.formats.kubernetes.avoided_node import Avoided, learned_by_node
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.formats.topology import Topology
from webhook.model.policy import NUMAPolicy
from webhook.views.audit.spanning_pods import UnreportedNode
from webhook.views.nodes import KubeletOptionsView, OptionSource, kubelet_options_views


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
class RepeatedName:
    """A value of a level's label in several domains above: these are different domains, or a label is wrong."""

    name: str
    above: tuple[str, ...]
    """The domains above, as the values of their levels joined by `/`."""


@dataclass(frozen=True, slots=True)
class LevelView:
    """A level of a Topology whose label nodes lack, or whose names are repeated."""

    topology: str
    level: str
    """The node label."""
    lacking: tuple[str, ...]
    """The nodes without the label."""
    repeated: tuple[RepeatedName, ...]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A node of whose kubelet options are known."""

    node: str
    options: tuple[KubeletOptionsView, ...]
    """By source."""

    def by(self, source: OptionSource) -> tuple[KubeletOptionsView, ...]:
        """Those of a source."""
        return tuple(one for one in self.options if one.source is source)

    @property
    def unstated(self) -> str:
        """What is learned and neither stated nor published, as the value of the annotation; empty: nothing."""
        known = {key: value for one in self.options if not one.namespaces for key, value in one.options.items()}
        found = [one for one in self.by(OptionSource.LEARNED) if not one.options.items() <= known.items()]
        # A machine keeps its processors, so one of two values is forged. We cannot tell which, and suggest neither.
        return found[0].stated_as if len(found) == 1 else ""


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
    levels: tuple[LevelView, ...]
    unreported: tuple[UnreportedNode, ...]
    not_enforcing: tuple[str, ...]
    """Nodes with NUMA nodes, the policy none and no koordlet: a pod's own NUMA policy is not enforced there."""
    not_enforced_pods: tuple[str, ...]
    """The pods there (namespace/name) that ask for Restricted or SingleNUMANode."""
    kubelet_options: tuple[NodeOptions, ...]
    """Nodes of whose kubelets options are known."""


def nodes_view(
    nodes: Mapping[str, Node],
    topologies: Mapping[str, NodeTopology],
    named: Iterable[Topology],
    unreported: tuple[UnreportedNode, ...],
    pods: Iterable[ResidentPod],
    avoided: Avoided,
) -> NodesView:
    """The findings on these nodes, their NRTs and bound pods. named: the Topologies; their levels are node labels.

    avoided: has what is learned of kubelets.
    """
    policies: Counter[str] = Counter()
    without, disagreeing, unreadable = [], [], []
    not_enforcing = [name for name in sorted(nodes) if enforces_nothing(nodes[name], topologies.get(name))]
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
    weak = set(not_enforcing)
    unaligned = sorted(pod.key for pod in pods if pod.node in weak and (pod.policy or 0) >= NUMAPolicy.RESTRICTED)
    return NodesView(
        len(nodes),
        dict(sorted(policies.items())),
        tuple(without),
        tuple(disagreeing),
        tuple(unreadable),
        level_views(nodes, named),
        unreported,
        tuple(not_enforcing),
        tuple(unaligned),
        tuple(_options(nodes, topologies, avoided)),
    )


def _options(
    nodes: Mapping[str, Node], topologies: Mapping[str, NodeTopology], avoided: Avoided
) -> Iterable[NodeOptions]:
    learned = learned_by_node(avoided)
    for name in sorted(nodes):
        if found := kubelet_options_views(nodes[name], topologies.get(name), learned.get(name, {})):
            yield NodeOptions(name, found)


def level_views(nodes: Mapping[str, Node], topologies: Iterable[Topology]) -> tuple[LevelView, ...]:
    """The findings on the levels of these topologies, by name of the topology, coarse to fine."""
    found = []
    for topology in sorted(topologies, key=lambda each: each.name):
        for depth, label in enumerate(topology.node_labels):
            lacking = tuple(name for name in sorted(nodes) if not nodes[name].labels.get(label))
            view = LevelView(topology.name, label, lacking, _repeated(nodes, topology.node_labels[: depth + 1]))
            if view.lacking or view.repeated:
                found.append(view)
    return tuple(found)


def _repeated(nodes: Mapping[str, Node], labels: tuple[str, ...]) -> tuple[RepeatedName, ...]:
    """The values of the last label that stand below several values of the labels above."""
    above: dict[str, set[str]] = {}
    for node in nodes.values():
        path = [node.labels.get(label, "") for label in labels]
        if all(path):
            above.setdefault(path[-1], set()).add("/".join(path[:-1]))
    return tuple(RepeatedName(name, tuple(sorted(ups))) for name, ups in sorted(above.items()) if len(ups) > 1)
