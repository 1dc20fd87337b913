"""Ignores hints of bound pods that contradict their node.

The binding proves the node of a bound pod, but not its NUMA nodes: a tenant may have written those where the webhook
was not called. So a hint counts only if the kubelet can have done what it says:
- The node has the NUMA nodes that the hint names, and each can allocate that much.
- Under the policy single-numa-node, each container is on one NUMA node; with scope pod, the whole pod is.
A forged hint can still name another NUMA node than the kubelet's, up to the requests of its pod, until the node's
NodeResourceTopology reports the pod.
"""

from dataclasses import replace

from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope


def credible(pod: ResidentPod, topology: NodeTopology | None) -> ResidentPod:
    """The pod, without its hint if the hint contradicts the node. topology: of the pod's node; None: it has no NRT."""
    if not pod.hint or topology is None or _can_be(pod, topology):
        return pod
    return replace(pod, hint=None)


def _can_be(pod: ResidentPod, topology: NodeTopology) -> bool:
    hint = pod.hint or ()
    for numa_id, amounts in hint:
        listed = next((zone.resources for zone in topology.zones if zone.id == numa_id), None)
        if listed is None:
            return False
        if any(name in listed and amount > listed[name].allocatable for name, amount in amounts.items()):
            return False
    kubelet_aligns = topology.policy is NUMAPolicy.SINGLE_NUMA_NODE and topology.publisher is Publisher.SUBTRACTS
    most = 1 if topology.scope is Scope.POD else max(1, len(pod.containers))
    return len(hint) <= most or not kubelet_aligns
