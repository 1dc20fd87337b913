"""The nodes: what is free on each NUMA node, how the kubelet aligns pods, and how old that knowledge is.

A node's details add the pods on it with their NUMA nodes, what is reserved beyond what its exporter reports, the
options of its kubelet, and the devices in its ResourceSlices with the claims that hold them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.engine.arrays import NO_ZONE, UNLISTED
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.avoided_node import AvoidedNode, learned_by_node
from webhook.formats.kubernetes.kubelet_options import KubeletOptions
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.managers import Evidence, ManagerPolicy
from webhook.formats.nrt import DEFAULT_MAX_NUMA_NODES, NodeTopology, Publisher
from webhook.model.names import KUBELET_OPTIONS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import PODS, is_device
from webhook.state.assumed.observed_placement import NUMASource, PodNUMANodes
from webhook.state.cluster_cache import ClusterCache
from webhook.views.node_amounts import can_be_requested

# Of the namespaces in a text.
_NAMED: Final = 3


class OptionSource(StrEnum):
    """How options are known."""

    STATED = "Stated"
    """The Node's annotation states them."""
    PUBLISHED = "Published"
    """Its NodeResourceTopology has them."""
    LEARNED = "Learned"
    """Its kubelet named them when it rejected a pod."""


@dataclass(frozen=True, slots=True)
class KubeletOptionsView:
    """The options of one source."""

    source: OptionSource
    options: Mapping[str, str]
    """As the node's annotation states them: option -> value."""
    namespaces: tuple[str, ...]
    """The namespaces for whose pods they count; empty: for all pods."""
    text: str
    """The evidence, for people."""

    @property
    def stated_as(self) -> str:
        """The options as the value of the annotation."""
        return ",".join(f"{name}={value}" for name, value in self.options.items())


def kubelet_options_views(
    node: Node, topology: NodeTopology | None, learned: Mapping[str, AvoidedNode]
) -> tuple[KubeletOptionsView, ...]:
    """The options of a node's kubelet that are known, and how: stated by an operator, published, or learned.

    They are listed as the node's annotation states them, so that what is published or learned can be stated as it is.
    learned: by namespace.
    """
    found = []
    if options := node.kubelet.named():
        found.append(KubeletOptionsView(OptionSource.STATED, options, (), f"annotation {KUBELET_OPTIONS} of its Node"))
    if topology is not None and (options := _published(topology)):
        found.append(KubeletOptionsView(OptionSource.PUBLISHED, options, (), "its NodeResourceTopology"))
    by_threads: dict[int, dict[str, AvoidedNode]] = {}
    for namespace, rejection in sorted(learned.items()):
        by_threads.setdefault(rejection.threads, {})[namespace] = rejection
    return (*found, *(_learned(threads, of) for threads, of in sorted(by_threads.items())))


def _published(topology: NodeTopology) -> Mapping[str, str]:
    cpus = topology.cpus
    threads = cpus.topology.threads if cpus is not None and cpus.full_cores_only else 0
    limit = 0 if topology.max_numa_nodes == DEFAULT_MAX_NUMA_NODES else topology.max_numa_nodes
    return KubeletOptions(threads, topology.prefer_closest, limit).named()


def _learned(threads: int, rejections: Mapping[str, AvoidedNode]) -> KubeletOptionsView:
    last = max(rejections.values(), key=lambda one: one.rejected_at)
    namespaces = tuple(rejections)
    more = f" and {len(namespaces) - _NAMED} more" if len(namespaces) > _NAMED else ""
    text = f"it rejected a pod: {last.what}; counts for pods of {', '.join(namespaces[:_NAMED])}{more}"
    return KubeletOptionsView(OptionSource.LEARNED, KubeletOptions(threads).named(), namespaces, text)


# Nodes have up to 64 NUMA nodes, and cells are Python records: views of all nodes name few resources.
_PUBLISHED = {Publisher.SUBTRACTS: "Free", Publisher.TOTAL: "Total"}


@dataclass(frozen=True, slots=True)
class NUMANodeAmount:
    """One resource of a NUMA node, in engine units."""

    resource: str
    free: int
    """What a pod can still get: as published, minus what pods hold that is not reported yet."""
    allocatable: int
    capacity: int


@dataclass(frozen=True, slots=True)
class NUMANodeView:
    """One NUMA node."""

    id: int
    amounts: tuple[NUMANodeAmount, ...]
    """Of the resources that it lists."""


@dataclass(frozen=True, slots=True)
class NodeAmount:
    """One resource of the node as a whole, in engine units."""

    resource: str
    free: int
    """Allocatable minus the requests of its pods and of pods on their way to it; negative if over-committed."""
    allocatable: int


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """What is known of the NodeResourceTopology itself."""

    published: str
    """What its `available` means: "Free", or "Total" (koordlet)."""
    written_by: str
    """The field manager that wrote the zones; empty if not known."""
    age_seconds: int | None
    """Since the zones changed; None if not known."""
    has_fingerprint: bool
    """Whether it says which pods it reports."""


@dataclass(frozen=True, slots=True)
class ManagerView:
    """One of the kubelet's resource managers, as inferred from the NodeResourceTopology."""

    manager: str
    """`cpu`, `memory` (with huge pages), or `device`."""
    policy: str
    """`Static`: pods get resources of particular NUMA nodes; `None`: nothing of it is aligned; `Unknown`."""
    evidence: str
    """What shows it, for programs."""
    text: str
    """The same for people."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node."""

    name: str
    ready: bool
    cordoned: bool
    taints: tuple[str, ...]
    """key=value:effect."""
    policy: str
    """The Topology Manager's, in the kubelet's spelling; "unknown" if what the node publishes cannot be read."""
    policy_source: str
    """"Label", "NodeResourceTopology", or "None"."""
    policies_disagree: bool
    """Whether the label and the NodeResourceTopology name different policies."""
    scope: str
    topology: TopologyReport | None
    """None: it has no NodeResourceTopology."""
    managers: tuple[ManagerView, ...]
    """Empty without a NodeResourceTopology."""
    kubelet_options: tuple[KubeletOptionsView, ...]
    """By source; empty if none is known."""
    pods: int
    """Bound to it and not ended."""
    amounts: tuple[NodeAmount, ...]
    numa_nodes: tuple[NUMANodeView, ...]


@dataclass(frozen=True, slots=True)
class NUMAShare:
    """What a pod holds of one NUMA node: resource -> amount in engine units."""

    id: int
    amounts: Mapping[str, int]


NUMA_SOURCES: Final = {
    NUMASource.REPORTED: "reported by the NodeResourceTopology",
    NUMASource.OBSERVED: "observed by KAI-Scheduler's exporter",
    NUMASource.ALLOCATED: "its NUMA allocation",
    NUMASource.PREDICTED: "predicted",
}
"""In words."""


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that is bound to the node."""

    namespace: str
    name: str
    qos: str
    policy: str
    """The policy that it asks for, as Koordinator spells it; empty: none."""
    requests: Mapping[str, int]
    numa_nodes: tuple[NUMAShare, ...] | None
    """None if they are unknown."""
    numa_source: NUMASource | None
    """How they are known; None if they are unknown."""
    ignored_observation: str
    """Why what a node agent says of them does not count; empty if it counts, or there is none."""


@dataclass(frozen=True, slots=True)
class ReservationView:
    """What is kept for a pod beyond what the node's objects show."""

    namespace: str
    name: str
    bound: bool
    """Whether the pod is bound to the node: then the NodeResourceTopology does not report it yet."""
    numa_nodes: tuple[NUMAShare, ...]
    requests: Mapping[str, int]
    """On the node as a whole; empty for a bound pod."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device that a ResourceSlice offers to the node."""

    driver: str
    pool: str
    name: str
    numa_node: int | None
    """As its driver publishes it; None if it does not."""
    taints: tuple[str, ...]
    """key=value:effect; also those of DeviceTaintRules."""
    claims: tuple[str, ...]
    """The claims that hold it, as namespace/name; empty: it is free."""
    pods: tuple[str, ...]
    """The pods for which these claims are reserved, as namespace/name."""


@dataclass(frozen=True, slots=True)
class NodeDetails:
    """A node with its pods, by name."""

    node: NodeView
    pods: tuple[PodOnNode, ...]
    reservations: tuple[ReservationView, ...]
    devices: tuple[DeviceView, ...] = ()
    """By driver, pool and name."""


def node_views(cache: ClusterCache, resources: Iterable[str]) -> tuple[NodeView, ...]:
    """All nodes, by name. resources: those to show, which some node offers."""
    snapshot = cache.snapshot().nodes
    rows = _Rows(cache, snapshot, tuple(resources))
    return tuple(rows.view(n) for n in snapshot.node_arrays.order.tolist())


def node_details(cache: ClusterCache, name: str) -> NodeDetails | None:
    """A node with all resources that it or a NUMA node of it has; None if it is unknown."""
    node, snapshot = cache.state.nodes.get(name), cache.snapshot().nodes
    if node is None or name not in snapshot.node_arrays.index:
        return None
    topology = cache.state.topologies.get(name)
    listed = {each for zone in topology.zones for each in zone.resources} if topology else set()
    own = sorted((listed | node.allocatable.keys()) - {PODS}, key=lambda each: ("/" in each, each))
    view = _Rows(cache, snapshot, tuple(own)).view(snapshot.node_arrays.index[name])
    bound = sorted(cache.pods_on(name), key=lambda pod: pod.key)
    keys, numa_nodes = {pod.key for pod in bound}, cache.numa_nodes(name)
    reserved = sorted((each for each in snapshot.ledger or () if each.node == name), key=lambda each: each.pod)
    return NodeDetails(
        view,
        tuple(_pod(pod, numa_nodes[pod.key]) for pod in bound),
        tuple(_reservation(each, bound=each.pod in keys) for each in reserved),
        tuple(devices_on(cache, name)),
    )


def is_silent(topology: NodeTopology, bound_at: float, now: float, age: float) -> bool:
    """Whether an exporter should have shown a pod by now that was bound at that time, and has not written since.

    age: seconds within which exporters report a pod. Koordlet's objects do not change with pods.
    """
    return (
        topology.publisher is Publisher.SUBTRACTS
        and topology.policy is not NUMAPolicy.NONE
        and topology.written_at is not None
        and topology.written_at < bound_at < now - age
    )


def silent_exporters(cache: ClusterCache) -> frozenset[str]:
    """The nodes whose exporter should have shown a bound pod by now, and has not."""
    now, age, topologies = cache.current_time(), cache.times.age, cache.state.topologies
    last: dict[str, int] = {}
    for pod in cache.state.pods.values():
        if (at := pod.bound_at) is not None and pod.exclusive_resources and at > last.get(pod.node, 0):
            last[pod.node] = at
    return frozenset(
        node
        for node, bound_at in last.items()
        if (topology := topologies.get(node)) is not None and is_silent(topology, bound_at, now, age)
    )


def devices_on(cache: ClusterCache, node: str) -> Iterable[DeviceView]:
    """The devices that a node can use, by driver, pool and name."""
    offered, claims = cache.devices.on(node), cache.devices.claims()
    for device in sorted(offered.devices, key=lambda device: device.id):
        keys = (*offered.taken.holders.get(device.id, ()), *offered.taken.shares.get(device.id, ()))
        holders = [claims[key] for key in sorted(set(keys)) if key in claims]
        pods = [
            f"{claim.namespace}/{user.name}"
            for claim in holders
            for user in claim.reserved_for
            if user.resource == "pods"
        ]
        yield DeviceView(
            *device.id,
            next(iter(device.numa_nodes), None),
            tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in device.taints),
            tuple(claim.key for claim in holders),
            tuple(dict.fromkeys(pods)),
        )


def nodes_without_topology(cache: ClusterCache) -> int:
    """How many nodes have no NodeResourceTopology that lists NUMA nodes."""
    topologies = cache.state.topologies
    return sum(1 for name in cache.state.nodes if (topology := topologies.get(name)) is None or not topology.zones)


class _Rows:
    """The engine's arrays of some resources as records."""

    def __init__(self, cache: ClusterCache, snapshot: Snapshot, resources: Sequence[str]) -> None:
        self._cache = cache
        self._now = cache.current_time()
        self._learned = learned_by_node(cache.avoided.by_key())
        self._snapshot = snapshot = snapshot.covering(resources)
        self._arrays = snapshot.node_arrays
        rows = [(name, self._arrays.resources.find(name)) for name in resources if can_be_requested(name)]
        self._rows = [(name, row) for name, row in rows if row >= 0]
        self._free = {row: (snapshot.free(row), snapshot.node_free(row)) for _, row in self._rows}

    def view(self, n: int) -> NodeView:
        """The node with this index."""
        name = self._arrays.names[n]
        node, topology = self._cache.state.nodes[name], self._cache.state.topologies.get(name)
        unknown = name in self._arrays.unknown_policies
        return NodeView(
            name,
            bool(self._arrays.ready[n]),
            bool(self._arrays.unschedulable[n]),
            tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints),
            "unknown" if unknown else NUMAPolicy(int(self._arrays.policy[n])).kubelet,
            _policy_source(node, topology),
            bool(topology and not topology.unknown_policy and node.policy_label not in {None, topology.policy}),
            Scope(int(self._arrays.scope[n])).kubelet,
            None if topology is None else _report(topology, self._now),
            () if topology is None else manager_views(topology),
            kubelet_options_views(node, topology, self._learned.get(name, {})),
            len(self._cache.pods_on(name)),
            tuple(self._amounts(n)),
            tuple(
                NUMANodeView(numa_id, tuple(self._numa_amounts(z, n)))
                for z, numa_id in enumerate(self._arrays.zone_ids[:, n].tolist())
                if numa_id != NO_ZONE
            ),
        )

    def _amounts(self, n: int) -> Iterable[NodeAmount]:
        for name, row in self._rows:
            if (whole := int(self._arrays.allocatable[row, n])) != UNLISTED:
                yield NodeAmount(name, int(self._free[row][1][n]), whole)

    def _numa_amounts(self, z: int, n: int) -> Iterable[NUMANodeAmount]:
        for name, row in self._rows:
            if (free := int(self._free[row][0][z, n])) != UNLISTED:
                allocatable, capacity = self._arrays.zone_allocatable[row, z, n], self._arrays.capacity[row, z, n]
                yield NUMANodeAmount(name, free, int(allocatable), int(capacity))


def manager_views(topology: NodeTopology) -> tuple[ManagerView, ...]:
    """The managers of a node's kubelet."""
    found = [
        ManagerView(one.resource, one.policy.value, one.evidence.value, one.sentence())
        for one in (topology.managers.cpu, topology.managers.memory)
    ]
    near = sorted({name for zone in topology.zones for name in zone.resources if is_device(name)})
    text = f"gives NUMA hints for {', '.join(near)}" if near else "no NUMA node lists a device"
    evidence = Evidence.ALLOCATABLE if near else Evidence.NOT_LISTED
    return (*found, ManagerView("device", ManagerPolicy.STATIC.value, evidence.value, text))


def _policy_source(node: Node, topology: NodeTopology | None) -> str:
    if node.policy_label is not None or node.unknown_policy:
        return "Label"
    return "None" if topology is None else "NodeResourceTopology"


def _report(topology: NodeTopology, now: float) -> TopologyReport:
    age = None if topology.written_at is None else max(0, int(now - topology.written_at))
    return TopologyReport(_PUBLISHED[topology.publisher], topology.written_by, age, topology.fingerprint is not None)


def _pod(pod: ResidentPod, found: PodNUMANodes) -> PodOnNode:
    policy = pod.policy.koordinator if pod.policy else ""
    return PodOnNode(pod.namespace, pod.name, pod.qos.value, policy, dict(pod.requests), *numa_facts(found))


def numa_facts(found: PodNUMANodes) -> tuple[tuple[NUMAShare, ...] | None, NUMASource | None, str]:
    """The last three fields of `PodOnNode`."""
    shares = None if found.source is None else _shares(tuple(found.numa.items()))
    return shares, found.source, "" if found.ignored is None else found.ignored.value


def _reservation(reservation: Reservation, *, bound: bool) -> ReservationView:
    namespace, _, name = reservation.pod.partition("/")
    requests = {resource: amount for resource, amount in reservation.requests.items() if resource != PODS}
    return ReservationView(namespace, name, bound, _shares(tuple(reservation.numa.items())), requests)


def _shares(numa_nodes: NUMANodeAmounts) -> tuple[NUMAShare, ...]:
    return tuple(NUMAShare(numa_id, dict(amounts)) for numa_id, amounts in sorted(numa_nodes, key=lambda one: one[0]))
