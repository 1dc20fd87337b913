"""Running pods that have CPUs or devices of several NUMA nodes, although one NUMA node of their node could hold them.

Two sources show it:
1. The pod's hint, by this service or by Koordinator's scheduler, names several NUMA nodes.
2. The node's NRT. What it has allocated of a resource in each NUMA node is allocatable minus available. If no NUMA node
   has allocated as much as one container requests, that container has parts of several. This counts only if the NRT
   has allocated as much as all such containers of the node request together: then it reports every one of them.

What neither shows is not reported: an NRT does not say which pod is where. A NUMA node could hold a pod if as much is
allocatable there as the pod requests of each resource that is listed by NUMA node; other pods are not considered.

And nodes whose NRT shows less in use than their running pods hold. An exporter may write once a minute
(`settings.advanced.nrtAgeSeconds`), so younger pods may be missing. Koordlet's objects never show what is in use.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.formats.kubernetes.pod_resources import Container, ContainerKind, QoS
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import Scope
from webhook.model.resources import CPU, is_device

# Two periods of an exporter, as settings.advanced.nrtAgeSeconds.
_SETTLED_SECONDS: Final = 120


class ShownBy(StrEnum):
    """What shows that a pod spans NUMA nodes."""

    ALLOCATION = "Hint"
    USAGE = "Usage"


@dataclass(frozen=True, slots=True)
class SpanningPodView:
    """A pod that spans NUMA nodes."""

    namespace: str
    name: str
    node: str
    shown_by: ShownBy
    numa_nodes: tuple[int, ...]
    """Those of its hint; empty if only the usage shows it."""
    could_hold: tuple[int, ...]
    """The NUMA nodes of its node, each of which could hold it alone."""


@dataclass(frozen=True, slots=True)
class UnreportedNode:
    """A node whose NodeResourceTopology shows less of a resource in use than running pods hold exclusively."""

    node: str
    resource: str
    held: int
    """By its pods, in engine units."""
    in_use: int
    """In its NodeResourceTopology, likewise."""


def unreported_nodes(
    residents: Iterable[ResidentPod], topologies: Mapping[str, NodeTopology], now: float
) -> tuple[UnreportedNode, ...]:
    """The findings on nodes, by name. now: in seconds since the epoch."""
    held: dict[str, Counter[str]] = {}
    for pod in residents:
        topology = topologies.get(pod.node)
        if topology is None or topology.publisher is not Publisher.SUBTRACTS or pod.terminal:
            continue
        if pod.bound_at is None or abs(now - pod.bound_at) > _SETTLED_SECONDS:
            for container in _running(pod):
                held.setdefault(pod.node, Counter()).update(_exclusive(pod, container))
    found = (
        UnreportedNode(node, name, amount, sum(allocated))
        for node in sorted(held)
        for name, amount in sorted(held[node].items())
        if (allocated := _allocated(topologies[node], name)) and sum(allocated) < amount
    )
    return tuple(found)


def spanning_pods(
    residents: Iterable[ResidentPod], topologies: Mapping[str, NodeTopology]
) -> tuple[SpanningPodView, ...]:
    """The findings on bound pods that have not ended."""
    by_node: dict[str, list[ResidentPod]] = {}
    for pod in residents:
        if pod.exclusive_resources and pod.node in topologies:
            by_node.setdefault(pod.node, []).append(pod)
    found = [view for node in sorted(by_node) for view in _on_node(by_node[node], topologies[node])]
    return tuple(sorted(found, key=lambda view: (view.namespace, view.name)))


def _on_node(pods: list[ResidentPod], topology: NodeTopology) -> Iterator[SpanningPodView]:
    used = _reported_usage(pods, topology)
    for pod in pods:
        numa_nodes = tuple(sorted(numa_id for numa_id, _ in pod.allocation or ()))
        units = list(_units(pod, topology))
        if len(numa_nodes) > 1 and len(units) == 1:  # several may be on a NUMA node each
            shown_by = ShownBy.ALLOCATION
        elif not numa_nodes and any(amount > used.get(name, amount) for unit in units for name, amount in unit.items()):
            shown_by = ShownBy.USAGE
        else:
            continue
        could_hold = tuple(_could_hold(pod, topology))
        if could_hold:
            yield SpanningPodView(pod.namespace, pod.name, pod.node, shown_by, numa_nodes, could_hold)


def _reported_usage(pods: list[ResidentPod], topology: NodeTopology) -> Mapping[str, int]:
    """The most that one NUMA node has allocated of each resource; only resources of which all pods are reported."""
    requested: dict[str, int] = {}
    for pod in pods:
        for container in _running(pod):
            for name, amount in _exclusive(pod, container).items():
                requested[name] = requested.get(name, 0) + amount
    usage = {}
    for name, amount in requested.items():
        allocated = _allocated(topology, name)
        if allocated and sum(allocated) >= amount:
            usage[name] = max(allocated)
    return usage


def _allocated(topology: NodeTopology, name: str) -> list[int]:
    """What the NRT has allocated of a resource, for each NUMA node that lists it."""
    listed = (zone.resources[name] for zone in topology.zones if name in zone.resources)
    return [max(0, amounts.allocatable - amounts.available) for amounts in listed]


def _units(pod: ResidentPod, topology: NodeTopology) -> Iterator[Mapping[str, int]]:
    """What the kubelet aligns as a whole: each container, or the pod."""
    each = [_exclusive(pod, container) for container in _running(pod)]
    if topology.scope is not Scope.POD:
        yield from each
        return
    whole: dict[str, int] = {}
    for amounts in each:
        for name, amount in amounts.items():
            whole[name] = whole.get(name, 0) + amount
    yield whole


def _running(pod: ResidentPod) -> list[Container]:
    return [container for container in pod.containers if container.kind is not ContainerKind.INIT]


def _exclusive(pod: ResidentPod, container: Container) -> Mapping[str, int]:
    """The CPUs and devices that the kubelet gives to this container alone."""
    amounts = {name: amount for name, amount in container.requests.items() if amount > 0 and is_device(name)}
    cpu = container.requests.get(CPU, 0)
    if pod.qos is QoS.GUARANTEED and not pod.pod_level and cpu and cpu % 1000 == 0:
        amounts[CPU] = cpu
    return amounts


def _could_hold(pod: ResidentPod, topology: NodeTopology) -> Iterator[int]:
    listed = {name for zone in topology.zones for name in zone.resources}
    wanted = {name: amount for name, amount in pod.requests.items() if amount > 0 and name in listed}
    for zone in topology.zones:
        if all(name in zone.resources and zone.resources[name].allocatable >= wanted[name] for name in wanted):
            yield zone.id
