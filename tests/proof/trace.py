"""A recorded cluster as a scenario: its nodes as machines, its pods in the order they came, on fewer nodes and faster.

1. Some of the nodes are drawn by the seed. The kubelets' policy is restricted, for some pods need more than one NUMA
   node.
2. Pods are taken in the order of their creation from a place drawn by the seed, until they ask for 90 % of the CPUs,
   the memory or the GPUs of those nodes. They come evenly over the first part of the run and stay: at the trace's own
   pace a cluster of this size is nearly empty, so arrivals are what is replayed, as in the paper the trace is from.
3. Latency-sensitive pods are services (a ReplicaSet of one), and annotated; best-effort ones are Jobs, and none of the
   webhook's business.

webhook/simulation/trace.py reads the lines, as for `topology-webhook simulate --trace`. data/ has a small trace of ours
in the same columns, drawn from distributions of our own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tests.cluster.kubelets import SimulatedMachine, even_machine
from tests.proof.scenario import ProofScenario, drawing
from tests.proof.scenarios import GPU
from tests.proof.workload import Burst, ControllerKind
from webhook.simulation.trace import RecordedNode, RecordedPod, TraceError, read_nodes, read_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SYNTHETIC = Path(__file__).parent / "data"
RECORDED = Path(__file__).parents[3] / "shared" / "traces" / "openb"
"""Where the real trace may lie, beside the checkout: it is too large, and not ours, to be part of it."""
FILL = 0.9
ARRIVALS_END, STEADY = 0.6, 0.75
"""The parts of the run after which no more pods come, and all that can run should."""
LAG = 5.0
_MIB_PER_GIB = 1024


def default_folder() -> Path:
    """The real trace if it is available, otherwise ours."""
    return RECORDED if RECORDED.is_dir() else SYNTHETIC


def replayed(folder: Path, *, seed: int, nodes: int, seconds: float) -> ProofScenario:
    """A scenario with this many nodes of the trace in `folder`, or all it has. Raises `TraceError`."""
    random = drawing(seed)
    with _file(folder, "node_list") as file:
        recorded = read_nodes(file, file.name)
    with _file(folder, "pod_list") as file:
        pods = read_pods(file, file.name)
    drawn = random.sample(recorded, min(nodes, len(recorded)))
    machines = [_machine(node) for node in drawn]
    taken = _filling(pods, drawn, random.randrange(len(pods)))
    step = ARRIVALS_END * seconds / len(taken)
    workloads = [_workload(pod, number, step * number) for number, pod in enumerate(taken)]
    return ProofScenario("trace", machines, workloads, seconds, STEADY * seconds, LAG)


def _file(folder: Path, kind: str) -> TextIO:
    files = sorted(folder.glob(f"*{kind}*.csv"))
    if len(files) != 1:
        raise TraceError(f"{folder} must hold one file *{kind}*.csv, it holds {len(files)}")
    return files[0].open(newline="")


def _machine(node: RecordedNode) -> SimulatedMachine:
    zones = node.numa_nodes
    return even_machine(
        node.name,
        numa_nodes=zones,
        cpus=node.cpus // zones,
        memory_gib=node.memory_gib // zones,
        devices={GPU: node.gpus_near()} if node.gpus else {},
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


def _workload(pod: RecordedPod, number: int, at: float) -> Burst:
    amounts = {"cpu": pod.cpu, "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus:
        amounts[GPU] = str(pod.gpus)
    kind, policy = (ControllerKind.JOB, None) if pod.best_effort else (ControllerKind.REPLICA_SET, "Restricted")
    return Burst(f"{pod.name}-{number}", 1, [amounts], kind, at, policy)
