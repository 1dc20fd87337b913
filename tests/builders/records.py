"""What the engine reads: records of nodes, their NUMA nodes and pods. Amounts are in the engine's units.

Of `pod`, `cpus` and `state` the arguments are a list: containers, NUMA nodes, objects.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders.pods import container, plain
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Node, Taint
from webhook.formats.kubernetes.pod import Pod, QoS
from webhook.formats.kubernetes.pod_resources import Container, ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher, Zone, ZoneResource
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.model.policy import NUMAPolicy, Scope

GI = 2**30
SINGLE = NUMAPolicy.SINGLE_NUMA_NODE
BIG: Mapping[str, int] = {"cpu": 10**9, "memory": 2**50, "pods": 110}


def node(
    *,
    name: str,
    allocatable: Mapping[str, int] = BIG,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    cordoned: bool = False,
    ready: bool = True,
    policy_label: NUMAPolicy | None = None,
) -> Node:
    return Node(name, labels or {}, tuple(taints), cordoned, ready, allocatable, policy_label)


def topology(
    *,
    node: str,
    free: Sequence[Mapping[str, int]],
    capacity: Mapping[str, int] | None = None,
    policy: NUMAPolicy = SINGLE,
    scope: Scope = Scope.CONTAINER,
    ids: Sequence[int] | None = None,
    publisher: Publisher = Publisher.SUBTRACTS,
    max_numa_nodes: int = 8,
) -> NodeTopology:
    """An NRT. free: of each NUMA node; capacity: of every one, as much as is free if left out."""
    zones = []
    for position, amounts in enumerate(free):
        numa_id = position if ids is None else ids[position]
        whole = {name: (capacity or amounts).get(name, amount) for name, amount in amounts.items()}
        resources = {name: ZoneResource(whole[name], whole[name], amount) for name, amount in amounts.items()}
        zones.append(Zone(numa_id, f"node-{numa_id}", {}, resources))
    return NodeTopology(
        node=node, policy=policy, scope=scope, zones=tuple(zones), publisher=publisher, max_numa_nodes=max_numa_nodes
    )


def cpus(*free: int) -> list[dict[str, int]]:
    """NUMA nodes with so many free CPUs each."""
    return [{"cpu": 1000 * amount} for amount in free]


def state(*objects: Node | NodeTopology | ResidentPod) -> ClusterState:
    """The state of a cluster with these objects."""
    cluster = ClusterState()
    for item in objects:
        tell(cluster, item)
    return cluster


def tell(cluster: ClusterState, item: Node | NodeTopology | ResidentPod) -> None:
    """Hand one object to the state."""
    match item:
        case Node():
            cluster.upsert_node(item)
        case NodeTopology():
            cluster.upsert_topology(item)
        case ResidentPod():
            cluster.upsert_pod(item)


def resident(
    *,
    name: str,
    node: str,
    requests: Mapping[str, int] | None = None,
    numa: Mapping[int, Mapping[str, int]] | None = None,
    policy: NUMAPolicy | None = None,
    terminal: bool = False,
    containers: Sequence[Mapping[str, int]] = (),
) -> ResidentPod:
    """A bound pod; numa: what it holds of each NUMA node; containers: what they request."""
    return ResidentPod(
        key=f"default/{name}",
        uid=name,
        node=node,
        requests=requests or {},
        qos=QoS.GUARANTEED,
        policy=policy,
        exclusive=None,
        allocation=None if numa is None else tuple(numa.items()),
        exclusive_resources=True,
        terminal=terminal,
        deleting=False,
        containers=tuple(Container(f"c{number}", ContainerKind.APP, one, one) for number, one in enumerate(containers)),
    )


def pod(
    *requests: Mapping[str, str],
    policy: str | None = None,
    exclusive: str | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Pod:
    """A Guaranteed pod with a container for each of the resource lists, read from its JSON as in production."""
    fields = {"numaTopologyPolicy": policy, "singleNUMANodeExclusive": exclusive}
    annotations = {NUMA_TOPOLOGY_SPEC: json.dumps(fields)} if policy or exclusive else {}
    containers = [
        container(name=f"c{index}", requests=amounts, limits=amounts) for index, amounts in enumerate(requests)
    ]
    return Pod.from_object(plain(name="pod", annotations=annotations, **{"containers": containers, **(spec or {})}))
