"""What Koordinator writes: NodeResourceTopologies with totals and single CPUs, and pods whose CPUs it binds."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders.nodes import nrt
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.names import (
    KOORDINATOR_NODE_RESERVATION,
    KOORDLET_CPU_ALLOCS,
    KOORDLET_CPU_TOPOLOGY,
    KOORDLET_KUBELET_CPU_POLICY,
    KOORDLET_SYSTEM_QOS,
    MANAGED_BY_KOORDINATOR,
    MANAGED_BY_LABEL,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)


def cpu_detail(*, zones: int = 2, cores: int = 4, threads: int = 2) -> list[dict[str, int]]:
    """The CPUs of a machine with a socket per NUMA node. The threads of a core are next to each other.

    zones=2, cores=2, threads=2: NUMA 0 has 0-1 and 2-3, NUMA 1 has 4-5 and 6-7; core numbers repeat on each socket.
    """
    return [
        {"id": (zone * cores + core) * threads + thread, "core": core, "socket": zone, "node": zone}
        for zone in range(zones)
        for core in range(cores)
        for thread in range(threads)
    ]


def cpu_annotations(
    *,
    zones: int = 2,
    cores: int = 4,
    threads: int = 2,
    kubelet_reserved: str = "",
    node_reserved: str = "",
    system: Mapping[str, Any] | None = None,
    given: Sequence[tuple[str, str]] = (),
    full_cores_only: bool = False,
) -> dict[str, str]:
    """The annotations. given: (namespace/name, CPUs) of pods that the kubelet gave CPUs."""
    options = {"full-pcpus-only": "true"} if full_cores_only else {}
    kubelet = {"policy": "static", "options": options, "reservedCPUs": kubelet_reserved}
    allocations = [
        {
            "namespace": pod.partition("/")[0],
            "name": pod.partition("/")[2],
            "uid": pod,
            "cpuset": cpus,
            "managedByKubelet": True,
        }
        for pod, cpus in given
    ]
    return {
        KOORDLET_CPU_TOPOLOGY: json.dumps({"detail": cpu_detail(zones=zones, cores=cores, threads=threads)}),
        KOORDLET_KUBELET_CPU_POLICY: json.dumps(kubelet),
        KOORDLET_CPU_ALLOCS: json.dumps(allocations),
        KOORDINATOR_NODE_RESERVATION: json.dumps({"reservedCPUs": node_reserved}),
        KOORDLET_SYSTEM_QOS: json.dumps(system),
    }


def koordlet_nrt(
    *,
    node: str,
    zones: int = 2,
    cores: int = 4,
    threads: int = 2,
    policy: str = "none",
    metadata: Mapping[str, Any] | None = None,
    **cpus: Any,
) -> dict[str, Any]:
    """The NRT of a machine. cpus: as for `cpu_annotations`."""
    annotations = cpu_annotations(zones=zones, cores=cores, threads=threads, **cpus)
    written = {"labels": {MANAGED_BY_LABEL: MANAGED_BY_KOORDINATOR}, "annotations": annotations, **(metadata or {})}
    count = cores * threads
    return nrt(node=node, free=[count] * zones, cpus=count, policy=policy, metadata=written)


def bound_pod(
    cpu: str, required: str = "", *, policy: str = "", qos: str = "LSR", name: str = "p", **status: Any
) -> dict[str, Any]:
    """A pod of Koordinator's, which requires a CPU bind policy and a NUMA policy."""
    spec = {"requiredCPUBindPolicy": required, "numaTopologyPolicy": policy}
    amounts = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": {RESOURCE_SPEC: json.dumps(spec), **status},
        },
        "spec": {"containers": [{"name": "main", "image": "none", "resources": amounts}]},
    }


def resident(name: str, cpu: str, *, cpuset: str = "", numa: dict[int, str] | None = None) -> ResidentPod:
    """A pod on n0 with these CPUs, and these amounts of NUMA nodes."""
    zones = [{"node": zone, "resources": {"cpu": cpus}} for zone, cpus in (numa or {}).items()]
    status = {"cpuset": cpuset, "numaNodeResources": zones}
    raw = bound_pod(cpu, name=name, **{RESOURCE_STATUS: json.dumps(status)})
    raw["spec"]["nodeName"] = "n0"
    return ResidentPod.from_object(raw)
