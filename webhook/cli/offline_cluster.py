"""A cluster from objects: Nodes, their topologies, Pods, Topologies, Namespaces, as `kubectl get -o yaml` prints them.

Other kinds are ignored. Objects that an API server would not store (a wrong type, an invalid amount, a duplicate
name)
cause an InputError. Oddities that the service only logs in a live cluster (such as an odd zone name) cause a
warning.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.management import DEFAULT_NAMESPACE
from webhook.cli.documents import Item
from webhook.cli.gang_members import RunningPod
from webhook.cli.object_schema import NAMESPACE, NODE, NODE_RESOURCE_TOPOLOGY, POD, TOPOLOGY, Schema
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.errors import UserError
from webhook.model.gates import waits_for_us_alone
from webhook.model.membership import AssignedMember, membership_of
from webhook.model.names import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES
from webhook.model.namespace import Namespace
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod
from webhook.model.topology import Topology, TopologySource


@dataclass(slots=True)
class Cluster:
    """The cluster that the objects describe."""

    state: ClusterState = field(default_factory=ClusterState)
    topologies: dict[str, Topology] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    running: list[RunningPod] = field(default_factory=list)
    """Pods with a node that may be members of a gang."""
    assigned_members: dict[str, dict[str, AssignedMember]] = field(default_factory=dict)
    """Assigned members of gangs, by gang and by namespace/name."""
    gated: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Gated pods, by namespace/name."""
    others: list[Mapping[str, Any]] = field(default_factory=list)
    """Objects that may own pods."""
    warnings: list[str] = field(default_factory=list)

    def add_node(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a Node; returns its problems."""
        node = Node.from_object(raw)
        self.state.upsert_node(node)
        return node.problems

    def add_node_topology(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a NodeResourceTopology; returns its problems."""
        topology = NodeTopology.from_object(raw)
        self.state.upsert_topology(topology)
        return topology.problems

    def add_pod(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a Pod."""
        if not raw["metadata"].get("namespace"):
            raw = {**raw, "metadata": {**raw["metadata"], "namespace": DEFAULT_NAMESPACE}}
        resident = ResidentPod.from_object(raw)
        self.state.upsert_pod(resident)
        if (running := RunningPod.from_object(raw, resident.node or resident.assigned_node)) is not None:
            self.running.append(running)
        membership, node = membership_of(raw), resident.node or resident.assigned_node
        if membership is not None and node and not (resident.terminal or resident.deleting):
            self.assigned_members.setdefault(membership.group, {})[resident.key] = AssignedMember.of(
                raw, node, membership
            )
        elif waits_for_us_alone(raw) and not node:
            self.gated[resident.key] = raw
        return ()

    def add_topology(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a Topology."""
        topology = Topology.from_object(raw)
        # We read KAI's annotations, so its topology wins over Kueue's of the same name.
        if topology.source is TopologySource.KAI or topology.name not in self.topologies:
            self.topologies[topology.name] = topology
        return ()

    def add_namespace(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Add a Namespace; its faults are reported on its pods."""
        namespace = Namespace.from_object(raw)
        self.namespaces[namespace.name] = namespace
        return ()

    def cluster_snapshot(self) -> ClusterSnapshot:
        """The cluster snapshot for decisions."""
        return ClusterSnapshot(Snapshot(self.state.node_arrays()), dict(self.topologies), dict(self.namespaces))


# (API group, kind) -> its schema, and the function that adds it.
_KINDS: Final[Mapping[tuple[str, str], tuple[Schema, Callable[[Cluster, Mapping[str, Any]], tuple[str, ...]]]]] = {
    ("", "Namespace"): (NAMESPACE, Cluster.add_namespace),
    ("", "Node"): (NODE, Cluster.add_node),
    ("", "Pod"): (POD, Cluster.add_pod),
    (NODE_RESOURCE_TOPOLOGIES[0], "NodeResourceTopology"): (NODE_RESOURCE_TOPOLOGY, Cluster.add_node_topology),
    (KAI_TOPOLOGIES[0], "Topology"): (TOPOLOGY, Cluster.add_topology),
    (KUEUE_TOPOLOGIES[0], "Topology"): (TOPOLOGY, Cluster.add_topology),
}


# Objects that affect the creation of later ones.
_COUNTS_AT_ONCE: Final = frozenset(
    {("", "Namespace"), (KAI_TOPOLOGIES[0], "Topology"), (KUEUE_TOPOLOGIES[0], "Topology")}
)


def cluster_of(items: Iterable[Item]) -> Cluster:
    """The cluster that the objects describe. Raises InputError."""
    cluster = Cluster()
    seen: dict[tuple[str, str, str, str], Item] = {}
    for item in items:
        if (item.group, item.kind) not in _KINDS:
            cluster.others.append(item.body)
            continue
        first = seen.setdefault((item.group, item.kind, item.namespace, item.name), item)
        if first is not item:
            raise item.fault("metadata.name", f"{item.kind} {item.name} appears twice, first in {first.place}.")
        if (item.group, item.kind) == ("", "Pod"):  # a LeaderWorkerSet's leader owns its workers
            cluster.others.append(item.body)
        _add(cluster, item)
    return cluster


def cluster_snapshots_of(items: Iterable[Item], cluster: Cluster) -> list[ClusterSnapshot]:
    """The cluster at the creation of each of these objects, in this order.

    It includes their Topologies and Namespaces, which replace existing ones, and nothing else of them: they do not
    compete for capacity. Raises InputError.
    """
    cluster_snapshot = cluster.cluster_snapshot()
    cluster_snapshots = []
    for item in items:
        if (item.group, item.kind) in _COUNTS_AT_ONCE:
            _add(cluster, item)
            cluster_snapshot = replace(
                cluster_snapshot, topologies=dict(cluster.topologies), namespaces=dict(cluster.namespaces)
            )
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
