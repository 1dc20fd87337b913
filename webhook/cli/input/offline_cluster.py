"""A cluster from objects: Nodes, their topologies, Pods, Topologies, Namespaces, as `kubectl get -o yaml` prints them.

Other kinds are ignored. Objects that an API server would not store (a wrong type, an invalid amount, a duplicate name)
cause an InputError. Oddities that the service only logs in a live cluster (such as an odd zone name) cause a
warning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import time
from typing import Final

from webhook.admission.default_levels import asked_owner
from webhook.cli.input.documents import Item
from webhook.cli.input.object_reference import GROVE_TOPOLOGY as GROVE_TOPOLOGY_KIND
from webhook.cli.input.object_reference import NATIVE_POD_GROUP, POD_GANG
from webhook.cli.input.object_reference import POD_GROUP as POD_GROUP_KIND
from webhook.cli.input.object_schema import (
    DEVICE_OBJECT,
    DISRUPTION_BUDGET,
    GROVE_TOPOLOGY,
    NAMESPACE,
    NODE,
    NODE_RESOURCE_TOPOLOGY,
    POD,
    POD_GROUP,
    TOPOLOGY,
    Schema,
)
from webhook.cli.offline.gang_members import RunningPod
from webhook.formats.dra import GROUP as DEVICES
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES
from webhook.formats.kubernetes.resident import TERMINAL_PHASES
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.names import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.placing.pod.gated_pods import marked_group
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.devices import DEVICE_KINDS, NAMESPACED_DEVICE_KINDS
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.state.rules import Rules

_IN_CONDITIONS: Final = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")


def newest_time(objects: Iterable[Raw]) -> float | None:
    """When a snapshot was taken: the newest time in its objects, in seconds since the epoch; None without any.

    Ages count from then, also in a snapshot of last week. What a NodeResourceTopology reports of a pod depends on them.
    """
    return max((time for raw in objects for time in _times(raw) if time is not None), default=None)


def _times(raw: Raw) -> Iterator[int | None]:
    metadata = raw["metadata"]
    yield epoch_seconds(metadata.get("creationTimestamp"))
    for entry in _objects(metadata.get("managedFields")):
        yield epoch_seconds(entry.get("time"))
    status = raw.get("status")
    for condition in _objects(status.get("conditions") if isinstance(status, Mapping) else None):
        for name in _IN_CONDITIONS:
            yield epoch_seconds(condition.get(name))


def _objects(value: object) -> Iterator[Raw]:
    """The objects in a list of a file, which is not checked yet."""
    yield from (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()


class Cluster:
    """The cluster that the objects describe: the service's own cache, filled once, and what only commands need."""

    def __init__(self, rules: Rules | None = None, times: ReportingTimes | None = None) -> None:
        self._reads_pod_gangs = rules is not None and rules.grove_pod_gangs
        self._counts_devices = rules is None or rules.dynamic_resources
        self.now: float | None = None
        """Seconds since the epoch at which the objects were read; None: now, for a live cluster."""
        self.cache = ClusterCache(times, self.clock, rules, _never, _never, preempts=True)
        self.cache.use_allocation_key(UnverifiedAllocations(b""))
        self.running: list[RunningPod] = []
        """Pods with a node that may be members of a gang."""
        self.others: list[Raw] = []
        """Objects that may own pods."""
        self.warnings: list[str] = []

    def clock(self) -> float:
        """The time of the cluster, in seconds since the epoch."""
        return time() if self.now is None else self.now

    @property
    def assigned_members(self) -> Mapping[str, Mapping[str, AssignedMember]]:
        """Assigned members of gangs, by gang and by namespace/name."""
        return self.cache.gangs.groups()

    @property
    def gated(self) -> Mapping[str, Raw]:
        """Gated pods, by namespace/name."""
        return self.cache.gated_pods()

    def add_node(self, raw: Raw) -> tuple[str, ...]:
        """Add a Node; returns its problems."""
        return self.cache.nodes.add(raw).problems

    def add_node_topology(self, raw: Raw) -> tuple[str, ...]:
        """Add a NodeResourceTopology; returns its problems."""
        return self.cache.node_topologies.add(raw).problems

    def add_pod(self, raw: Raw) -> tuple[str, ...]:
        """Add a Pod. One that has ended holds nothing; if a kubelet rejected it, others avoid its node."""
        if not raw["metadata"].get("namespace"):
            raw = {**raw, "metadata": {**raw["metadata"], "namespace": DEFAULT_NAMESPACE}}
        phase = (raw.get("status") or {}).get("phase")
        if phase in TERMINAL_PHASES:
            if phase == "Failed":
                self.cache.failed_pods.add(raw)
            return ()
        resident = self.cache.pods.add(raw).record
        if (running := RunningPod.from_object(raw, resident.node or resident.assigned_node)) is not None:
            self.running.append(running)
        return ()

    def add_topology(self, raw: Raw) -> tuple[str, ...]:
        """Add a Topology."""
        source = Topology.from_object(raw).source
        if source is not None:
            self.cache.topologies[source].add(raw)
        return ()

    def add_disruption_budget(self, raw: Raw) -> tuple[str, ...]:
        """Add a PodDisruptionBudget."""
        self.cache.disruption_budgets.feed.add(raw)
        return ()

    def add_device_object(self, kind: str, raw: Raw) -> tuple[str, ...]:
        """Add an object of a kind in `DEVICE_KINDS`, if the setting lets it count."""
        if not self._counts_devices:
            return ()
        if kind in NAMESPACED_DEVICE_KINDS and not raw["metadata"].get("namespace"):
            raw = {**raw, "metadata": {**raw["metadata"], "namespace": DEFAULT_NAMESPACE}}
        fault = getattr(self.cache.devices.feeds[kind].add(raw), "fault", "")
        return (fault,) if fault else ()

    def add_namespace(self, raw: Raw) -> tuple[str, ...]:
        """Add a Namespace; its faults are reported on its pods."""
        self.cache.namespaces.add(raw)
        return ()

    def add_pod_group(self, raw: Raw) -> tuple[str, ...]:
        """Add a PodGroup; its faults are reported on its pods."""
        self.cache.kai_groups.feed.add(raw)
        return ()

    def add_pod_gang(self, raw: Raw) -> tuple[str, ...]:
        """Add a PodGang of Grove, if the setting lets it count; its faults are reported on its pods."""
        if self._reads_pod_gangs:
            self.cache.pod_gangs.feed.add(raw)
        return ()

    def add_native_group(self, raw: Raw) -> tuple[str, ...]:
        """Add a PodGroup of Kubernetes itself; its faults are reported on its pods."""
        self.serve_native_groups()
        self.cache.native_groups.feed.add(raw)
        return ()

    def serve_native_groups(self) -> None:
        """PodGroups of Kubernetes itself are served, even if there are none."""
        self.cache.native_groups.serve(next(iter(CONDITION_TYPES)))

    def asked_by(self, rules: Rules) -> Callable[[Raw], Raw]:
        """How the request of an object that owns pods is read."""
        return lambda raw: asked_owner(raw, self.cache.snapshot(), rules)

    def settle(self) -> None:
        """Compute the devices of all nodes: a read computes those of some."""
        while not self.cache.devices.settle():
            pass

    def cluster_snapshot(self) -> ClusterSnapshot:
        """The cluster snapshot for decisions."""
        self.settle()
        snapshot = self.cache.snapshot()
        native = snapshot.native_groups
        return replace(
            snapshot,
            namespaces=dict(snapshot.namespaces),
            native_groups=None if native is None else dict(native),
            user_groups=dict(snapshot.user_groups),
        )


def _never() -> bool:
    return False


def adds_devices(kind: str) -> Callable[[Cluster, Raw], tuple[str, ...]]:
    """The function that adds objects of a kind in `DEVICE_KINDS`, which do not name it in a list."""
    return lambda cluster, raw: cluster.add_device_object(kind, raw)


# (API group, kind) -> its schema, and the function that adds it.
_KINDS: Final[Mapping[tuple[str, str], tuple[Schema, Callable[[Cluster, Raw], tuple[str, ...]]]]] = {
    ("", "Namespace"): (NAMESPACE, Cluster.add_namespace),
    ("", "Node"): (NODE, Cluster.add_node),
    ("", "Pod"): (POD, Cluster.add_pod),
    ("policy", "PodDisruptionBudget"): (DISRUPTION_BUDGET, Cluster.add_disruption_budget),
    (NODE_RESOURCE_TOPOLOGIES[0], "NodeResourceTopology"): (NODE_RESOURCE_TOPOLOGY, Cluster.add_node_topology),
    (KAI_TOPOLOGIES[0], "Topology"): (TOPOLOGY, Cluster.add_topology),
    (KUEUE_TOPOLOGIES[0], "Topology"): (TOPOLOGY, Cluster.add_topology),
    **{(DEVICES, kind): (DEVICE_OBJECT, adds_devices(kind)) for kind in DEVICE_KINDS},
    GROVE_TOPOLOGY_KIND: (GROVE_TOPOLOGY, Cluster.add_topology),
    POD_GROUP_KIND: (POD_GROUP, Cluster.add_pod_group),
    POD_GANG: (POD_GROUP, Cluster.add_pod_gang),
    NATIVE_POD_GROUP: (POD_GROUP, Cluster.add_native_group),
}


_RESERVATION: Final = ("scheduling.koordinator.sh", "Reservation")
# Objects that affect the creation of later ones.
_COUNTS_AT_ONCE: Final = frozenset(
    {
        ("", "Namespace"),
        (KAI_TOPOLOGIES[0], "Topology"),
        (KUEUE_TOPOLOGIES[0], "Topology"),
        GROVE_TOPOLOGY_KIND,
        POD_GROUP_KIND,
        POD_GANG,
        NATIVE_POD_GROUP,
        (DEVICES, "ResourceClaim"),
        (DEVICES, "ResourceClaimTemplate"),
    }
)


def cluster_of(items: Iterable[Item], rules: Rules | None = None, times: ReportingTimes | None = None) -> Cluster:
    """The cluster that the objects describe. Raises InputError."""
    cluster = Cluster(rules, times)
    items = list(items)
    cluster.now = newest_time(item.body for item in items)
    seen: dict[tuple[str, str, str, str], Item] = {}
    # Which pods are managed depends on their namespaces.
    for item in sorted(items, key=lambda item: (item.group, item.kind) != ("", "Namespace")):
        if (item.group, item.kind) not in _KINDS:
            cluster.others.append(item.body)
            continue
        first = seen.setdefault((item.group, item.kind, item.namespace, item.name), item)
        if first is not item:
            raise item.fault("metadata.name", f"{item.kind} {item.name} appears twice, first in {first.place}.")
        if (item.group, item.kind) == ("", "Pod"):  # a LeaderWorkerSet's leader owns its workers
            cluster.others.append(item.body)
        _add(cluster, item)
    cluster.settle()
    cluster.warnings += [*_missing_groups(cluster), *_reservations(items)]
    return cluster


def _reservations(items: Iterable[Item]) -> Iterable[str]:
    """A warning if there are Reservations of Koordinator, which the commands do not count."""
    if count := sum((item.group, item.kind) == _RESERVATION for item in items):
        yield (
            f"what {counted(count, 'Reservation')} of Koordinator in the snapshot may hold "
            "counts as free here. The service counts it with the setting koordinatorReservations."
        )


def _missing_groups(cluster: Cluster) -> Iterable[str]:
    """A warning if pods are in PodGroups of Kubernetes itself, which are served then, and there are none."""
    marked = next((key for key, raw in cluster.gated.items() if marked_group(raw)), None)
    if marked and cluster.cache.native_groups.served() is None:
        yield (
            f"pod {marked} and others name PodGroups of {NATIVE_POD_GROUP[0]}, and there are none in the snapshot: "
            f"they are judged as if they named none. Add podgroups.{NATIVE_POD_GROUP[0]} to it."
        )


def cluster_snapshots_of(items: Sequence[Item], cluster: Cluster) -> list[ClusterSnapshot]:
    """The cluster at the creation of each of these objects, in this order.

    It includes their Topologies, Namespaces and PodGroups, which replace existing ones, and nothing else of them: they
    do not compete for capacity. Raises InputError.
    """
    if any((item.group, item.kind) == NATIVE_POD_GROUP for item in items):
        cluster.serve_native_groups()  # also when the pods before it are created
    cluster_snapshot = cluster.cluster_snapshot()
    cluster_snapshots = []
    for item in items:
        if (item.group, item.kind) in _COUNTS_AT_ONCE:
            _add(cluster, item)
            cluster_snapshot = cluster.cluster_snapshot()
        cluster_snapshots.append(cluster_snapshot)
    return cluster_snapshots


def _add(cluster: Cluster, item: Item) -> None:
    schema, add = _KINDS[item.group, item.kind]
    item.check(item.body, schema)
    try:
        problems = add(cluster, item.body)
    except UserError as error:
        raise item.fault(error.faults[0].path, error.faults[0].message) from error
    cluster.warnings += [f"{item.place}: {item.kind} {item.name}: {problem}" for problem in problems]
