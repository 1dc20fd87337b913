"""What is free of a node's physical cores, as one column of the arrays, by what koordlet publishes of single CPUs.

1. A CPU is taken if it is reserved, or known to be given to a pod: by the kubelet (the NRT says so), or by
   Koordinator's scheduler (the pod's `resource-status` says so).
2. Free CPUs beyond those of wholly free cores are split ones (`split_cpu`). A pod that takes whole cores has what is
   free without them. Pods of which only amounts are known take split CPUs first, as far as there are any.
3. Where no topology of the CPUs is published, nothing is known and nothing is required (`threads` is 0). Unless the
   node states that its kubelet gives whole cores only: then all that is free is taken for whole cores.

Source: koordinator pkg/scheduler/plugins/nodenumaresource (resource_manager.go: trimNUMANodeResources,
filterCPUsByRequiredCPUBindPolicy; topology_options.go: reserved CPUs).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.koordinator.cpu_topology import NodeCPUs, free_cores
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology

FULL: Final = 1 << 0
"""Bound CPUs are whole cores: by the node's label, or by its kubelet."""
SPREAD: Final = 1 << 1
"""Bound CPUs are one of each core, by the node's label."""
KUBELET_FULL: Final = 1 << 2
"""The kubelet gives whole cores only (full-pcpus-only), to every pod that it gives CPUs."""
AMPLIFIED: Final = 1 << 3
"""The node's CPUs are amplified."""

_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TakenCPUs:
    """The CPUs of a node that are known to be taken."""

    cpus: frozenset[int]
    beside_hints: Mapping[int, int]
    """NUMA id -> millicores that are reserved, or given to pods without a hint."""


NO_CPUS: Final = TakenCPUs(frozenset(), _NOTHING)


class GivenCPUs:
    """The CPUs that Koordinator's scheduler gave to bound pods, by node."""

    def __init__(self) -> None:
        self._of_node: dict[str, dict[str, frozenset[int]]] = {}

    def count(self, pod: ResidentPod, sign: int) -> None:
        """Add a bound pod (sign 1) or remove it (sign -1)."""
        if not pod.cpus:
            return
        given = self._of_node.setdefault(pod.node, {})
        if sign > 0:
            given[pod.key] = pod.cpus
        elif given.pop(pod.key, None) is not None and not given:
            del self._of_node[pod.node]

    def taken(self, node: str, topology: NodeTopology | None, pods: Mapping[str, ResidentPod]) -> TakenCPUs:
        """The taken CPUs of a node. pods: all bound pods by namespace/name.

        What the kubelet gave to a pod that is gone is free again.
        """
        cpus = None if topology is None else topology.cpus
        if cpus is None:
            return NO_CPUS
        taken = set(cpus.reserved)
        beside = set(cpus.reserved)
        by_kubelet = ((key, one) for key, one in cpus.given if key in pods and pods[key].node == node)
        for key, one in (*by_kubelet, *self._of_node.get(node, {}).items()):
            taken |= one
            if pods[key].allocation is None:
                beside |= one
        in_zones = cpus.topology.per_zone(beside)
        return TakenCPUs(frozenset(taken), {zone: 1000 * count for zone, count in in_zones.items()})


def reserved_cpu(cpus: NodeCPUs | None) -> Mapping[int, int]:
    """NUMA id -> millicores that no pod gets."""
    if cpus is None or not cpus.reserved:
        return _NOTHING
    return {zone: 1000 * count for zone, count in cpus.topology.per_zone(cpus.reserved).items()}


def core_columns(
    node: Node, topology: NodeTopology, taken: TakenCPUs, available: Sequence[int], node_free: int
) -> Mapping[str, Any]:
    """Field of NodeArrays -> its value for one node.

    available: free millicores of each position for a NUMA node, -1 = not listed; node_free: of the node.
    """
    cpus = topology.cpus
    full = node.kubelet.whole_cores > 0 or (cpus is not None and cpus.full_cores_only)
    rule = FULL * (full or node.cpu_bind is CPUBindPolicy.FULL_PCPUS) | KUBELET_FULL * full | AMPLIFIED * node.amplified
    rule |= SPREAD * (node.cpu_bind is CPUBindPolicy.SPREAD_BY_PCPUS and not full)
    if cpus is None:
        stated = {"threads": node.kubelet.whole_cores, "cpu_rule": rule}
        return {**stated, "split_cpu": 0, "core_cpu": 0, "split_cpu_of_node": 0}
    free = free_cores(cpus.topology, taken.cpus)
    split, some = [0] * len(available), [0] * len(available)
    whole = 1000 * cpus.topology.threads
    for z, zone in enumerate(topology.zones):
        cores = free.get(zone.id)
        split[z] = max(available[z] - (whole * cores.whole if cores else 0), 0)
        some[z] = 1000 * cores.some if cores else 0
    return {
        "threads": cpus.topology.threads,
        "cpu_rule": rule,
        "split_cpu": split,
        "core_cpu": some,
        "split_cpu_of_node": max(node_free - whole * sum(cores.whole for cores in free.values()), 0),
    }
