"""Clusters for tests: the service's own cache, filled as informers fill it."""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from tests.builders.nodes import node, nrt
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology
from webhook.formats.topology import TopologySource
from webhook.placing.gang.gated_gang import Assume
from webhook.placing.pod.assignment import Assignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.shards import NodeShards


def put(cache: ClusterCache, *objects: Mapping[str, Any]) -> None:
    """Add these objects to the cache. Each names its kind."""
    for raw in objects:
        metadata = raw["metadata"]
        namespace = metadata.get("namespace")
        key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
        match raw["kind"]:
            case "Node":
                cache.nodes.upsert(key, dict(raw))
            case "NodeResourceTopology":
                cache.node_topologies.upsert(key, dict(raw))
            case "Pod" if (raw.get("status") or {}).get("phase") == "Failed":
                cache.failed_pods.upsert(key, dict(raw))
            case "Pod":
                cache.pods.upsert(key, dict(raw))
            case "Namespace":
                cache.namespaces.upsert(key, dict(raw))
            case "PodGroup" if raw["apiVersion"].startswith("scheduling.run.ai/"):
                cache.kai_groups.feed.upsert(key, dict(raw))
            case "PodGroup":
                cache.native_groups.serve("v1alpha2")
                cache.native_groups.feed.upsert(key, dict(raw))
            case "PodGang":
                cache.pod_gangs.feed.upsert(key, dict(raw))
            case "Topology" | "ClusterTopologyBinding":
                cache.topologies[TopologySource(raw["apiVersion"].partition("/")[0])].upsert(key, dict(raw))
            case kind:
                cache.devices.feeds[kind].upsert(key, dict(raw))


def assuming(cache: ClusterCache) -> Assume:
    """Assumes pods in the cache for a minute."""

    def assume(gated: GatedPod, assignment: Assignment) -> AssumedPod:
        assumed_pod = assignment.assume(gated, monotonic() + 60.0)
        cache.assume(assumed_pod)
        return assumed_pod

    return assume


def cluster_cache(*objects: Mapping[str, Any], shards: NodeShards | None = None) -> ClusterCache:
    """A cache that has seen these objects. shards: of the nodes; None: there is one."""
    cache = ClusterCache(shards=shards)
    put(cache, *objects)
    return cache


def cluster_snapshot(*objects: Mapping[str, Any]) -> ClusterSnapshot:
    """The cluster of these objects."""
    return cluster_cache(*objects).snapshot()


def cluster_state(*objects: Mapping[str, Any]) -> ClusterState:
    """The engine's state of these nodes and NRTs, without a cache around it."""
    state = ClusterState()
    for raw in objects:
        if raw["kind"] == "Node":
            state.upsert_node(Node.from_object(raw))
        else:
            state.upsert_topology(NodeTopology.from_object(raw))
    return state


def machine(*, name: str, free: Sequence[int], labels: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """A node whose kubelet aligns pods to one NUMA node, and its NRT. free: of 16 cpus, for each NUMA node."""
    return [node(name=name, labels=labels, cpus=16 * len(free)), nrt(node=name, free=free)]
