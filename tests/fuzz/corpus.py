"""Valid objects, to be changed, and the small cluster with which answers are checked.

n0  [ 4  4]   policy single-numa-node, subtracts; n1 [16 16]; n2 [16 2]; n3 [8 8 8 8] restricted
    n4 [16 16]; n5 has no NodeResourceTopology
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

from tests.builders.devices import DRIVER, NUMA, claim, claim_template, device_class, request, resource_slice
from webhook.formats.topology import TopologySource
from webhook.model.names import MANAGE_LABEL, NUMA_TOPOLOGY_SPEC
from webhook.model.raw import Draft
from webhook.state.cluster_cache import ClusterCache

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
FREE: Final[Mapping[str, Sequence[int]]] = {
    "n0": (4, 4),
    "n1": (16, 16),
    "n2": (16, 2),
    "n3": (8, 8, 8, 8),
    "n4": (16, 16),
}
"""Free cpus of each NUMA node; the memory is never short."""
STRICT: Final = '{"numaTopologyPolicy": "SingleNUMANode"}'
POLICY: Final = {"n3": "restricted"}


def nodes() -> list[Draft]:
    """The Nodes."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "rack": f"r{number // 2}", "zone": "z0"},
            },
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for number, name in enumerate([*FREE, "n5"])
    ]


def namespaces() -> list[Draft]:
    """Namespaces, one of them with faults."""
    metadata: list[Draft] = [
        {"labels": {MANAGE_LABEL: "aligned"}, "annotations": {NUMA_TOPOLOGY_SPEC: STRICT}},
        {"labels": {MANAGE_LABEL: "everything"}, "annotations": {NUMA_TOPOLOGY_SPEC: "{,}"}},
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"space-{number}", **one}}
        for number, one in enumerate(metadata)
    ]


def node_topologies() -> list[Draft]:
    """Their NodeResourceTopologies, in every published form."""
    made: list[Draft] = []
    for name, free in FREE.items():
        zones: list[Draft] = [
            {
                "name": f"node-{numa}",
                "type": "Node",
                "costs": [
                    {"name": f"node-{other}", "value": 10 if other == numa else 20} for other in range(len(free))
                ],
                "resources": [
                    {"name": "cpu", "capacity": "16", "allocatable": "16", "available": str(cpus)},
                    {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"},
                ],
            }
            for numa, cpus in enumerate(free)
        ]
        policy = POLICY.get(name, "single-numa-node")
        made.append(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha2",
                "kind": "NodeResourceTopology",
                "metadata": {"name": name},
                "attributes": [
                    {"name": "topologyManagerPolicy", "value": policy},
                    {"name": "topologyManagerScope", "value": "container"},
                ],
                "zones": zones,
            }
        )
    old: Draft = deepcopy(made[1]) | {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "topologyPolicies": ["SingleNUMANodePodLevel"],
    }
    old["metadata"]["name"] = "x-old"
    del old["attributes"]
    cells = {zone["name"]: {"resources": zone["resources"]} for zone in deepcopy(made[1])["zones"]}
    proposal: Draft = {"metadata": {"name": "x-cells"}, "topologyPolicies": ["SingleNUMANode"], "cells": cells}
    counted: Draft = deepcopy(made[1])
    counted["metadata"]["name"] = "x-counted"
    counted["attributes"].append({"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001ef46db3751d8e999"})
    return [*made, old, proposal, counted]


def topologies() -> dict[TopologySource, Draft]:
    """A Topology of each kind."""
    spec = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "shelf"}]}
    return {
        TopologySource.KAI: {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "t"},
            "spec": spec,
        },
        TopologySource.KUEUE: {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Topology",
            "metadata": {"name": "k"},
            "spec": deepcopy(spec),
        },
    }


def pod(name: str = "honest", cpu: str = "8", annotations: Mapping[str, str] | None = None, **spec: Any) -> Draft:
    """A Guaranteed pod."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {NUMA_TOPOLOGY_SPEC: STRICT} if annotations is None else dict(annotations),
        },
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": dict(amounts)}}]
        }
        | spec,
        "status": {"phase": "Pending"},
    }


def pods() -> list[Draft]:
    """Pods of many kinds: waiting, in a gang, bound, ended, with every field that is read."""
    gate = [{"name": "topology-webhook.dev/placement"}]
    gang = {
        NUMA_TOPOLOGY_SPEC: STRICT,
        "pod-group-name": "g",
        "topology-webhook.dev/min-member": "2",
        "topology-webhook.dev/strategy": "Balanced",
        "kai.scheduler/topology": "t",
        "kai.scheduler/topology-required-placement": "rack",
        "kai.scheduler/topology-preferred-placement": "shelf",
        "kai.scheduler/segment-size": "4,2",
        "kai.scheduler/segment-topology-required-placement": "rack,shelf",
        "kai.scheduler/batch-min-member": "2",
    }
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j1", "controller": True}]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0"]}]}
    rich = pod(
        "rich",
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        overhead={"cpu": "10m"},
        nodeSelector={"zone": "z0"},
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": term}],
            }
        },
        priority=100,
        schedulerName="default-scheduler",
    )
    bound = pod("bound", nodeName="n1")
    bound["metadata"]["annotations"]["topology-webhook.dev/numa"] = (
        '{"node":"n1","numaNodeResources":[{"node":0,"resources":{"cpu":"8","memory":"1Gi"}}]}'
    )
    bound["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
        "containerStatuses": [{"name": "main", "state": {"running": {}}}],
    }
    both = [pod(f"gang-{number}", "2", gang, schedulingGates=gate) for number in range(2)]
    for one in both:
        one["metadata"]["ownerReferences"] = deepcopy(owner)
    koordinator = pod(
        "koordinator", annotations={"scheduling.koordinator.sh/resource-spec": '{"numaTopologyPolicy":"Restricted"}'}
    )
    ended = pod("ended", nodeName="n1") | {"status": {"phase": "Succeeded"}}
    return [
        pod("plain"),
        pod("gated", schedulingGates=gate),
        *both,
        rich,
        bound,
        koordinator,
        ended,
        pod("unhinted", nodeName="n1"),
    ]


def pod_group() -> Draft:
    """A KAI PodGroup."""
    spec = {"minMember": 2, "queue": "q", "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg-j-j1", "namespace": "team"},
        "spec": spec,
    }


def workloads() -> list[Draft]:
    """The workloads of the examples."""
    files = [EXAMPLES / name for name in ("workloads.yaml", "gang.yaml", "mistakes/pods.yaml")]
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
    return [one for one in objects if one.get("kind") not in {"Pod", "Node", "NodeResourceTopology", "Topology"}]


def devices() -> dict[str, Sequence[Draft]]:
    """Objects of Dynamic Resource Allocation, by kind."""
    node = nodes()[0]["metadata"]["name"]
    alike = [{"requests": ["gpu"], "matchAttribute": NUMA}]
    rule = {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "a/b", "effect": "NoSchedule"}}
    return {
        "DeviceClass": [device_class(resource="example.com/gpu")],
        "DeviceTaintRule": [{"metadata": {"name": "rule"}, "spec": rule}],
        "ResourceSlice": [resource_slice(node), {"metadata": {"name": "all"}, "spec": _everywhere(node)}],
        "ResourceClaimTemplate": [claim_template(namespace="team", requests=[request(count=2)], constraints=alike)],
        "ResourceClaim": [claim(namespace="team", node=node, devices=["gpu-0"]), claim(namespace="team", name="free")],
    }


def _everywhere(node: str) -> Draft:
    """The spec of a slice whose devices all nodes can use."""
    spec = {**resource_slice(node)["spec"], "allNodes": True}
    del spec["nodeName"]
    return spec


def populate(cache: ClusterCache) -> None:
    """Add the cluster to a cache."""
    for node in nodes():
        cache.nodes.upsert(node["metadata"]["name"], node)
    for nrt in node_topologies()[: len(FREE)]:
        cache.node_topologies.upsert(nrt["metadata"]["name"], nrt)
    for source, topology in topologies().items():
        cache.topologies[source].upsert(topology["metadata"]["name"], topology)
