"""The placements that a kubelet may have chosen for a pod, by its policy and the node's NUMA nodes.

- Under `single-numa-node`, each container is on one NUMA node; with scope `pod`, the whole pod is.
- Under `restricted`, the same holds if one NUMA node can hold the container or pod at all.
- Anything else may be on any NUMA nodes, in any shares.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from webhook.engine.assumed.free_bounds import together
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.containers import ContainerKind
from webhook.model.nrt import NodeTopology, Zone
from webhook.model.pod_resources import QoS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resident import ResidentPod
from webhook.model.resources import CPU, MEMORY, is_device, is_hugepages

_ON_ONE: Final = frozenset({NUMAPolicy.SINGLE_NUMA_NODE, NUMAPolicy.RESTRICTED})
# Combinations of NUMA nodes for the containers of one pod; a pod with more counts as being anywhere.
_MOST_PLACEMENTS: Final = 64

Shares = Sequence[Mapping[str, int]]


def given_to(pod: ResidentPod, topology: NodeTopology) -> Shares | None:
    """What the kubelet's managers allocate to each container while it runs; None if that cannot be derived.

    It cannot be derived for pods with init containers: later containers reuse some of what those held.
    """
    if any(container.kind is ContainerKind.INIT for container in pod.containers):
        return None
    guaranteed = pod.qos is QoS.GUARANTEED and not pod.pod_level
    listed = frozenset(name for zone in topology.zones for name in zone.resources)
    shares = [_given(container.requests, listed, guaranteed=guaranteed) for container in pod.containers]
    return [share for share in shares if share]


def most_given_to(pod: ResidentPod, topology: NodeTopology) -> Mapping[str, int]:
    """An upper bound of what the kubelet's managers allocate to the pod; exact if `given_to` is known."""
    shares = given_to(pod, topology)
    return added(container.requests for container in pod.containers) if shares is None else added(shares)


def placements_of(shares: Shares, topology: NodeTopology) -> Sequence[NumaAmounts] | None:
    """The possible placements of containers with these shares; None: any."""
    if topology.policy not in _ON_ONE:
        return None
    parts = [added(shares)] if topology.scope is Scope.POD else list(shares)
    rooms = [[zone.id for zone in topology.zones if _can_hold(zone, part)] for part in parts]
    if not all(rooms) or prod(map(len, rooms)) > _MOST_PLACEMENTS:
        return None
    pairs = (zip(numa_ids, parts, strict=True) for numa_ids in product(*rooms))
    return [together({numa_id: part} for numa_id, part in pair) for pair in pairs]


def _given(requests: Mapping[str, int], listed: frozenset[str], *, guaranteed: bool) -> dict[str, int]:
    """What the managers allocate: devices; for Guaranteed pods also whole CPUs and memory. listed: by NUMA nodes."""
    return {
        name: amount
        for name, amount in requests.items()
        if amount > 0
        and name in listed
        and (
            is_device(name)
            or (guaranteed and (name == MEMORY or is_hugepages(name) or (name == CPU and amount % 1000 == 0)))
        )
    }


def _can_hold(zone: Zone, amounts: Mapping[str, int]) -> bool:
    """Whether the zone can allocate all amounts. A resource that it does not list is not compared."""
    listed = zone.resources
    return all(name not in listed or listed[name].allocatable >= amount for name, amount in amounts.items())
