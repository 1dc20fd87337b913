"""The decision as a plain loop over nodes, for comparison with the arrays."""

from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import PODS


def decide_plainly(state: ClusterState, pod: Pod, best: int) -> list[tuple[int, str, int]]:
    """The best nodes for a SingleNUMANode pod of one container: (-score, node, NUMA id)."""
    found = []
    for name, node in state.nodes.items():
        topology = state.topologies.get(name)
        if topology is None or not _takes(node, topology, pod):
            continue
        for zone in topology.zones:
            amounts = [(zone.resources[name], amount) for name, amount in pod.requests.items()]
            if all(resource.available >= amount for resource, amount in amounts):
                empty = sum((one.available - amount) / one.allocatable for one, amount in amounts)
                found.append((-(90 + int(10 - 10 * empty / len(amounts) + 2**-30)), name, zone.id))
                break
    return sorted(found)[:best]


def _takes(node: Node, topology: NodeTopology, pod: Pod) -> bool:
    return (
        node.ready
        and not node.unschedulable
        and not node.taints
        and topology.policy in {NUMAPolicy.NONE, NUMAPolicy.SINGLE_NUMA_NODE}
        and all(node.labels.get(key) == value for key, value in pod.node_selector.items())
        and all(node.allocatable.get(name, 0) >= amount for name, amount in pod.requests.items())
        and node.allocatable.get(PODS, 0) > 0
    )
