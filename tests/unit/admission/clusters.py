"""Clusters and pods for the tests of admission, written as Kubernetes objects."""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.kubelet_admission import AssignedPod, KubeletAdmission
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.single_node import less, node_alone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.names import HOSTNAME_LABEL, NUMA_TOPOLOGY_SPEC
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology

SINGLE = '{"numaTopologyPolicy": "SingleNUMANode"}'


def node(
    name: str, hostname: str | None = "", cpus: int = 32, labels: Mapping[str, str] | None = None, **spec: Any
) -> Node:
    """A node of so many cpus; `hostname` "" means its name, None no label."""
    labels = {**(labels or {}), **({} if hostname is None else {HOSTNAME_LABEL: hostname or name})}
    status = {"allocatable": {"cpu": str(cpus), "memory": "128Gi", "pods": "110"}}
    return Node.from_object({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def topology(
    name: str, free: Sequence[int], policy: str = "single-numa-node", scope: str = "container", cpus: int = 16
) -> NodeTopology:
    """NUMA nodes of so many cpus and 64Gi each, with so many cpus free."""
    zones = [
        {
            "name": f"node-{numa_id}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": str(cpus), "allocatable": str(cpus), "available": str(available)},
                {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"},
            ],
        }
        for numa_id, available in enumerate(free)
    ]
    attributes = [
        {"name": "topologyManagerPolicy", "value": policy},
        {"name": "topologyManagerScope", "value": scope},
    ]
    return NodeTopology.from_object({"metadata": {"name": name}, "attributes": attributes, "zones": zones})


def cluster_snapshot(*objects: Node | NodeTopology) -> ClusterSnapshot:
    """The world of these objects."""
    state = ClusterState()
    for one in objects:
        if isinstance(one, Node):
            state.upsert_node(one)
        else:
            state.upsert_topology(one)
    return ClusterSnapshot(Snapshot(state.node_arrays()))


def kubelet_admission_at(
    node_arrays: NodeArrays, ledger: Ledger, node: str, pod: str, assigned: Sequence[Mapping[str, Any]] = ()
) -> KubeletAdmission | None:
    """The node as the pod (namespace/name) finds it; what the `assigned` pods were promised stands in the ledger."""
    alone = node_alone(node_arrays, node)
    if alone is None:
        return None
    others = [AssignedPod(_assumed_for(ledger, raw), raw) for raw in assigned]
    own = ledger.get(pod)
    taken_off = [*(other.assumed for other in others), *([] if own is None else [own])]
    return KubeletAdmission(alone, less(ledger.sums(node), node, taken_off), tuple(others), own)


def _assumed_for(ledger: Ledger, raw: Mapping[str, Any]) -> Reservation:
    assumed = ledger.get(f"default/{raw['metadata']['name']}")
    assert assumed is not None
    return assumed


def pod(cpu: str = "8", spec: str = SINGLE, metadata: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A Guaranteed pod of one container that is annotated with `spec`."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "annotations": {NUMA_TOPOLOGY_SPEC: spec},
            **(metadata or {}),
        },
        "spec": {"containers": [container], **more},
    }
