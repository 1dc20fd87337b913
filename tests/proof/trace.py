"""A recorded cluster as a scenario: its nodes as machines, its pods in the order they came, on fewer nodes and faster.

1. Some of the nodes are drawn by the seed. Each gets two NUMA nodes, large ones without GPUs eight; CPUs, memory and
   GPUs are shared out evenly; the kubelets' policy is restricted, for some pods need more than one NUMA node. Eight
   NUMA nodes with GPUs are beyond a kubelet's own means: it merges the hints for CPUs, memory and GPUs one with each
   other, 255^3 combinations or several seconds a pod.
2. Pods are taken in the order of their creation from a place drawn by the seed, until they ask for 90 % of the CPUs,
   the memory or the GPUs of those nodes. They come evenly over the first part of the run and stay: at the trace's own
   pace a cluster of this size is nearly empty, so arrivals are what is replayed, as in the paper the trace is from.
3. Latency-sensitive pods are services (a ReplicaSet of one) and Guaranteed with whole CPUs, and annotated; best-effort
   ones are Jobs, not Guaranteed, and none of the webhook's business. A share of a GPU takes a whole one, since device
   plugins give no less.

The columns are those of Alibaba's cluster-trace-gpu-v2023 ("openb"; Weng et al., USENIX ATC '23). data/ has a small
trace of ours in the same columns, drawn from distributions of our own.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.kubelets import SimulatedMachine
from tests.proof.scenario import Scenario, drawing
from tests.proof.scenarios import GPU
from tests.proof.workload import Kind, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SYNTHETIC = Path(__file__).parent / "data"
RECORDED = Path(__file__).parents[3] / "shared" / "traces" / "openb"
"""Where the real trace may lie, beside the checkout: it is too large, and not ours, to be part of it."""
FILL = 0.9
LARGE_CPUS = 64
"""Machines of fewer CPUs have two NUMA nodes in any case."""
ARRIVALS_END, STEADY = 0.6, 0.75
"""The parts of the run after which no more pods come, and all that can run should."""
LAG = 5.0
_MIB_PER_GIB = 1024


def default_folder() -> Path:
    """The real trace if it is available, otherwise ours."""
    return RECORDED if RECORDED.is_dir() else SYNTHETIC


class TraceError(Exception):
    """A folder holds no trace. The message says what is missing."""


@dataclass(frozen=True)
class RecordedNode:
    """A line of the node list."""

    name: str
    cpus: int
    memory_gib: int
    gpus: int


@dataclass(frozen=True)
class RecordedPod:
    """A line of the pod list."""

    name: str
    millicores: int
    memory_mib: int
    gpus: int
    best_effort: bool

    @property
    def cpu(self) -> str:
        """The request in this scenario: whole CPUs unless the pod is best-effort."""
        return f"{self.millicores}m" if self.best_effort else str(math.ceil(self.millicores / 1000))


def replayed(folder: Path, *, seed: int, nodes: int, seconds: float) -> Scenario:
    """A scenario with this many nodes of the trace in `folder`, or all it has. Raises `TraceError`."""
    random = drawing(seed)
    recorded = [_node(line) for line in _lines(folder, "node_list")]
    drawn = random.sample(recorded, min(nodes, len(recorded)))
    machines = [_machine(node) for node in drawn]
    pods = sorted(_lines(folder, "pod_list"), key=lambda line: int(line["creation_time"]))
    taken = _filling([_pod(line) for line in pods], drawn, random.randrange(len(pods)))
    step = ARRIVALS_END * seconds / len(taken)
    workloads = [_workload(pod, number, step * number) for number, pod in enumerate(taken)]
    return Scenario("trace", machines, workloads, seconds, STEADY * seconds, LAG)


def _lines(folder: Path, kind: str) -> Sequence[Mapping[str, str]]:
    files = sorted(folder.glob(f"*{kind}*.csv"))
    if len(files) != 1:
        raise TraceError(f"{folder} must hold one file *{kind}*.csv, it holds {len(files)}")
    with files[0].open(newline="") as file:
        return list(csv.DictReader(file))


def _node(line: Mapping[str, str]) -> RecordedNode:
    cpus, memory = int(line["cpu_milli"]) // 1000, int(line["memory_mib"]) // _MIB_PER_GIB
    return RecordedNode(line["sn"], cpus, memory, int(line["gpu"]))


def _pod(line: Mapping[str, str]) -> RecordedPod:
    best_effort = line["qos"] in {"BE", "Burstable"}
    cpu, memory, gpus = (int(line[column]) for column in ("cpu_milli", "memory_mib", "num_gpu"))
    return RecordedPod(line["name"], cpu, memory, gpus, best_effort)


def _machine(node: RecordedNode) -> SimulatedMachine:
    zones = 8 if node.cpus >= LARGE_CPUS and not node.gpus else 2
    gpus = [node.gpus // zones + (zone < node.gpus % zones) for zone in range(zones)]
    return SimulatedMachine(
        node.name,
        numa_nodes=zones,
        cpus=node.cpus // zones,
        memory_gib=node.memory_gib // zones,
        devices={GPU: gpus} if node.gpus else {},
        policy="restricted",
    )


def _filling(pods: Sequence[RecordedPod], nodes: Sequence[RecordedNode], first: int) -> list[RecordedPod]:
    """Pods from the first on, in a circle, until they would request more than FILL of a resource."""
    room = Counter(
        cpu=sum(node.cpus for node in nodes) * 1000,
        memory=sum(node.memory_gib for node in nodes) * _MIB_PER_GIB,
        gpu=sum(node.gpus for node in nodes),
    )
    asked: Counter[str] = Counter()
    taken: list[RecordedPod] = []
    for pod in _circle(pods, first):
        asked.update(cpu=pod.millicores, memory=pod.memory_mib, gpu=pod.gpus)
        if any(asked[name] > FILL * room[name] for name in room):
            break
        taken.append(pod)
    return taken


def _circle(pods: Sequence[RecordedPod], first: int) -> Iterator[RecordedPod]:
    while True:
        yield from pods[first:]
        yield from pods[:first]


def _workload(pod: RecordedPod, number: int, at: float) -> Workload:
    amounts = {"cpu": pod.cpu, "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus:
        amounts[GPU] = str(pod.gpus)
    kind, policy = (Kind.JOB, None) if pod.best_effort else (Kind.REPLICA_SET, "Restricted")
    return Workload(f"{pod.name}-{number}", 1, [amounts], kind, at, policy)
