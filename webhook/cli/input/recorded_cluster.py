"""A recorded cluster (webhook.simulation.trace) as the cluster and the workloads of a simulation.

Every kubelet has the policy restricted, because some pods need more than one NUMA node. Latency-sensitive pods request
the policy Restricted; the webhook does not manage the others.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from webhook.cli.input.documents import InputError
from webhook.cli.input.offline_cluster import Cluster
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.names import HOSTNAME_LABEL, NUMA_TOPOLOGY_SPEC
from webhook.model.raw import Raw
from webhook.simulation.trace import RecordedNode, RecordedPod, TraceError, read_nodes, read_pods
from webhook.simulation.workload import PodGroup, PodKind, SimulatedWorkload

GPU: Final = "nvidia.com/gpu"
_POLICY: Final = {NUMA_TOPOLOGY_SPEC: json.dumps({"numaTopologyPolicy": "Restricted"})}
_MAX_PODS: Final = "110"


def files_of(trace: str) -> tuple[str, str]:
    """The two files of `--trace nodes.csv,pods.csv`, the first one "" if only pods are given. Raises InputError."""
    nodes, comma, pods = trace.partition(",")
    if not comma or not pods or "," in pods:
        raise InputError(f"--trace: {trace!r} does not name two files. Write NODES.csv,PODS.csv, or ,PODS.csv")
    return nodes, pods


def recorded_nodes(path: str) -> list[RecordedNode]:
    """The nodes of a file. Raises InputError."""
    try:
        return read_nodes(_lines(path), path)
    except TraceError as error:
        raise InputError(str(error)) from error


def recorded_pods(path: str) -> list[RecordedPod]:
    """The pods of a file, in order of creation. Raises InputError."""
    try:
        return read_pods(_lines(path), path)
    except TraceError as error:
        raise InputError(str(error)) from error


def add_nodes(cluster: Cluster, nodes: Iterable[RecordedNode]) -> None:
    """Add the nodes with their NodeResourceTopologies."""
    for node in nodes:
        cluster.add_node(_node(node))
        cluster.add_node_topology(_node_topology(node))


def workloads_of(pods: Iterable[RecordedPod], speed: float) -> Iterator[SimulatedWorkload]:
    """A workload for each pod. speed: how many times as fast they are created."""
    kinds: dict[tuple[str, int, int, bool], PodKind] = {}
    for pod in pods:
        request = pod.cpu, pod.memory_mib, pod.gpus, pod.best_effort
        if request not in kinds:
            kinds[request] = _kind(pod)
        groups = (PodGroup(kinds[request], 1),)
        yield SimulatedWorkload(pod.name, pod.created / speed, groups, float(pod.run_seconds))


def _lines(path: str) -> Iterator[str]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte 0x{error.object[error.start]:02x} is not UTF-8 text") from error


def _node(node: RecordedNode) -> Raw:
    zones = node.numa_nodes
    allocatable = {
        "cpu": str(node.cpus // zones * zones),
        "memory": f"{node.memory_gib // zones * zones}Gi",
        "pods": _MAX_PODS,
        **({GPU: str(node.gpus)} if node.gpus else {}),
    }
    return {
        "metadata": {"name": node.name, "labels": {HOSTNAME_LABEL: node.name}},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _node_topology(node: RecordedNode) -> Raw:
    zones = node.numa_nodes
    policy = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "container"}
    near = [
        {"cpu": node.cpus // zones, "memory": f"{node.memory_gib // zones}Gi", **({GPU: gpus} if node.gpus else {})}
        for gpus in node.gpus_near()
    ]
    return {
        "metadata": {"name": node.name},
        "attributes": [{"name": name, "value": value} for name, value in policy.items()],
        "zones": [
            {"name": f"node-{number}", "type": "Node", "resources": list(map(_resource, amounts, amounts.values()))}
            for number, amounts in enumerate(near)
        ],
    }


def _resource(name: str, amount: object) -> dict[str, str]:
    return {"name": name, **dict.fromkeys(("capacity", "allocatable", "available"), str(amount))}


def _kind(pod: RecordedPod) -> PodKind:
    devices = {GPU: str(pod.gpus)} if pod.gpus else {}
    requests = {"cpu": pod.cpu, "memory": f"{pod.memory_mib}Mi", **devices}
    # Devices are given by their limits, whatever the pod's quality of service.
    resources = {"requests": requests, "limits": devices if pod.best_effort else requests}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    found = Pod.from_object({"metadata": {"name": pod.name, "namespace": "default"}, "spec": spec})
    return PodKind(found, None if pod.best_effort else parse_numa_intent(_POLICY)[0])
