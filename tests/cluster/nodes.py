"""Machines as objects: a Node with status and a NodeResourceTopology each, without a kubelet.

A pod that the scheduler binds to one stays Pending with `spec.nodeName` set. The scheduler subtracts its requests; the
NodeResourceTopology stays as the test wrote it.
"""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.cluster.api import Api

NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABEL = "example.com/rack"
NODES_PER_RACK = 16
RACKS_PER_ZONE = 4
NEAR, FAR = 10, 20  # ACPI SLIT distances to the own and to another NUMA node, as Linux reports them on two sockets
# pfp0v001 and the xxh64 of no bytes: what resource-topology-exporter publishes for a node without pods.
FINGERPRINT_OF_NO_PODS = "pfp0v001ef46db3751d8e999"
KOORDLETS = {"app.kubernetes.io/managed-by": "Koordinator"}
_GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """One machine of equal NUMA nodes. `free` says how many CPUs each NUMA node has left; all memory is free.

    Machine("n0", free=(8, 2)) has two NUMA nodes with 16 CPUs each, of which 8 and 2 are free.
    """

    name: str
    free: tuple[int, ...]
    cpus: int = 16
    """CPUs of each NUMA node."""
    memory_gib: int = 64
    """Memory of each NUMA node."""
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Resource name -> pieces per NUMA node, all free."""
    policy: str = "single-numa-node"
    """The kubelet's Topology Manager policy and scope."""
    scope: str = "container"
    labels: Mapping[str, str] = field(default_factory=dict)
    soft_taints: tuple[str, ...] = ()
    """Keys of taints with the effect PreferNoSchedule."""
    publisher: str = "rte"
    """The form of its NodeResourceTopology: rte, which leaves the deprecated topologyPolicies empty; or koordlet, which
    publishes totals, neither attributes nor a fingerprint.
    """
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Node."""
    cpu_annotations: Mapping[str, str] = field(default_factory=dict)
    """Of koordlet's NodeResourceTopology: the single CPUs (tests.builders.koordlet)."""

    def node(self) -> dict[str, Any]:
        """The Node, ready and without taints that keep pods away."""
        zones = len(self.free)
        resources = {
            "cpu": str(self.cpus * zones),
            "memory": f"{self.memory_gib * zones}Gi",
            "pods": "110",
            **{name: str(sum(pieces)) for name, pieces in self.devices.items()},
        }
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": dict(self.annotations)},
            "spec": {"taints": [{"key": key, "effect": "PreferNoSchedule"} for key in self.soft_taints]},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
        }

    def topology(self) -> dict[str, Any]:
        """The NodeResourceTopology (v1alpha2) in its publisher's form."""
        scope = "".join(word.capitalize() for word in (self.scope, "level"))
        topology = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": self.name},
            "zones": [self._zone(number) for number in range(len(self.free))],
        }
        if self.publisher == "koordlet":
            metadata = {"name": self.name, "labels": KOORDLETS, "annotations": dict(self.cpu_annotations)}
            policy = _DEPRECATED_POLICY[self.policy] + ("" if self.policy == "none" else scope)
            return topology | {"metadata": metadata, "topologyPolicies": [policy]}
        attributes = [
            {"name": "topologyManagerPolicy", "value": self.policy},
            {"name": "topologyManagerScope", "value": self.scope},
            {"name": "nodeTopologyPodsFingerprint", "value": FINGERPRINT_OF_NO_PODS},
            {"name": "nodeTopologyPodsFingerprintMethod", "value": "all"},
        ]
        return topology | {"attributes": attributes}

    def _zone(self, number: int) -> dict[str, Any]:
        amounts = {
            "cpu": (self.cpus, self.free[number]),
            "memory": (self.memory_gib * _GIB, self.memory_gib * _GIB),
            **{name: (pieces[number], pieces[number]) for name, pieces in self.devices.items()},
        }
        return {
            "name": f"node-{number}",
            "type": "Node",
            "costs": [
                {"name": f"node-{other}", "value": NEAR if other == number else FAR} for other in range(len(self.free))
            ],
            "resources": [
                {"name": name, "capacity": str(whole), "allocatable": str(whole), "available": str(available)}
                for name, (whole, available) in amounts.items()
            ],
        }


_DEPRECATED_POLICY = {
    "none": "None",
    "best-effort": "BestEffort",
    "restricted": "Restricted",
    "single-numa-node": "SingleNUMANode",
}


def machines(count: int, zones: int, *, cpus: int = 16, prefix: str = "node", publisher: str = "rte") -> list[Machine]:
    """`count` idle machines of `zones` NUMA nodes each, 16 to a rack and 4 racks to a zone."""
    return [
        Machine(
            f"{prefix}-{number:04}",
            free=(cpus,) * zones,
            cpus=cpus,
            publisher=publisher,
            labels={
                RACK_LABEL: f"rack-{number // NODES_PER_RACK}",
                ZONE_LABEL: f"zone-{number // (NODES_PER_RACK * RACKS_PER_ZONE)}",
            },
        )
        for number in range(count)
    ]


def create_machines(api: Api, wanted: Sequence[Machine]) -> None:
    """Create the NodeResourceTopologies (their CRD must exist), then the Nodes.

    So no component sees a node without its topology.
    """
    api.in_parallel(partial(api.create, TOPOLOGIES, machine.topology()) for machine in wanted)
    api.in_parallel(partial(api.create, NODES, machine.node()) for machine in wanted)


def delete_machines(api: Api, gone: Sequence[Machine]) -> None:
    """Delete the objects of the machines. Objects that do not exist are no error."""
    delete_nodes(api, [machine.name for machine in gone])


def delete_nodes(api: Api, names: Sequence[str]) -> None:
    """Delete the Nodes and NodeResourceTopologies of these names. Objects that do not exist are no error."""
    paths = [f"{collection}/{name}" for collection in (NODES, TOPOLOGIES) for name in names]
    api.in_parallel(partial(_delete, api, path) for path in paths)


def publish(api: Api, machine: Machine) -> None:
    """Update a machine's NodeResourceTopology, as an exporter does after an allocation."""
    api.patch(f"{TOPOLOGIES}/{machine.name}", machine.topology())


def publish_all(api: Api, fleet: Sequence[Machine]) -> None:
    """Update the NodeResourceTopologies of several machines in parallel."""
    api.in_parallel(partial(publish, api, machine) for machine in fleet)


@contextlib.contextmanager
def present(api: Api, wanted: Sequence[Machine]) -> Iterator[Sequence[Machine]]:
    """The machines exist within this context."""
    try:
        create_machines(api, wanted)
        yield wanted
    finally:
        delete_machines(api, wanted)


def _delete(api: Api, path: str) -> None:
    try:
        api.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise
