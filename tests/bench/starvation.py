"""How long gangs wait, and what is in use, when a rack is kept for those that wait long: a simulated day.

    python -m tests.bench.starvation PODS.csv [--reserve-after 0,600] [--json]

1. The pods are those of the last 28 days of a recorded pod list (the columns of `simulate --trace`), in one day, each
   running a fourth of its time: openb's then use 142 GPUs on average.
2. The cluster is 40 nodes of 8 GPUs, 96 CPUs and 768 GiB in racks of 5.
3. Gangs of 8 pods of 4 GPUs, four nodes of one rack, come every 13 minutes in turns of 4 namespaces, and run for an
   hour: 143 GPUs on average. Small pods seldom leave four nodes of a rack empty together by chance.

Each line is one run. GPUs in use: GPU seconds of running pods, of the whole day.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from statistics import quantiles
from typing import Any, Final

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import guaranteed
from tests.builders.topologies import topology
from tests.builders.workloads import workload
from webhook.cli.input.recorded_cluster import recorded_pods, workloads_of
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.workload.readers import read_workload
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, NUMA_TOPOLOGY_SPEC
from webhook.simulation.run import run
from webhook.simulation.trace import RecordedPod
from webhook.simulation.workload import GangRequest, PodGroup, PodKind, Scenario, SimulatedWorkload, WantedPod
from webhook.state.rules import Rules

DAY: Final = 86_400
_SPEED, _SHORTER = 28, 4
_NODES, _RACK = 40, 5
_GANG, _GPUS, _GANG_SECONDS, _EVERY, _NAMESPACES = 8, 4, 3600.0, 780, 4
_GPU: Final = "nvidia.com/gpu"
_LABEL: Final = "example.com/rack"
_POLICY: Final = '{"numaTopologyPolicy": "Restricted"}'
"""As the recorded pods have it."""


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.starvation")
    parser.add_argument("pods", help="the recorded pod list")
    parser.add_argument("--reserve-after", default="0,600", help="seconds, separated by commas")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    for line in lines(list(recorded_pods(arguments.pods)), list(map(float, arguments.reserve_after.split(",")))):
        sys.stdout.write((json.dumps(line) if arguments.json else text(line)) + "\n")
        sys.stdout.flush()


def lines(recorded: list[RecordedPod], settings: list[float], seconds: int = DAY) -> Iterator[dict[str, Any]]:
    """A run for each setting."""
    workloads = [*_singles(recorded), *_gangs(seconds)]
    for reserve_after in settings:
        scenario = Scenario(_cluster(), workloads, Rules(), float(seconds), reserve_after=reserve_after)
        yield _measured(run(scenario, webhook=True).pods, reserve_after, seconds)


def text(line: dict[str, Any]) -> str:
    """A line for people."""
    return (
        f"kept after {line['reserveAfter']:g} s: gangs {line['gangs']}, started {line['started']}, waited p50"
        f" {line['p50']:.0f} s, p99 {line['p99']:.0f} s, at most {line['longest']:.0f} s;"
        f" small pods waited p99 {line['smallP99']:.0f} s; GPUs in use {line['gpusInUse']:.1%}"
    )


def _measured(pods: list[WantedPod], reserve_after: float, seconds: int) -> dict[str, Any]:
    gangs: dict[str, list[WantedPod]] = {}
    for pod in pods:
        if pod.name:
            gangs.setdefault(pod.workload.name, []).append(pod)
    waits = [_wait(members[0], seconds) for members in gangs.values()]
    small = [_wait(pod, seconds) for pod in pods if not pod.name]
    used = sum(_ran(pod, seconds) * pod.kind.pod.requests.get(_GPU, 0) for pod in pods)
    cuts = quantiles(waits, n=100, method="inclusive")
    return {
        "bench": "starvation",
        "reserveAfter": reserve_after,
        "gangs": len(gangs),
        "started": sum(all(pod.running is not None for pod in members) for members in gangs.values()),
        "p50": cuts[49],
        "p99": cuts[98],
        "longest": max(waits),
        "smallP99": quantiles(small, n=100, method="inclusive")[98],
        "gpusInUse": used / (_NODES * 8 * seconds),
    }


def _wait(pod: WantedPod, seconds: int) -> float:
    """Until it ran, or the end of the day."""
    return (seconds if pod.running is None else pod.running) - pod.workload.at


def _ran(pod: WantedPod, seconds: int) -> float:
    return 0.0 if pod.running is None else min(seconds, pod.ended or seconds) - pod.running


def _singles(recorded: list[RecordedPod]) -> Iterator[SimulatedWorkload]:
    begin = max(pod.created for pod in recorded) - _SPEED * DAY
    for one in workloads_of((pod for pod in recorded if pod.created >= begin), 1.0):
        assert one.run_seconds is not None
        yield SimulatedWorkload(one.name, (one.at - begin) / _SPEED, one.groups, one.run_seconds / _SHORTER)


def _gangs(seconds: int) -> Iterator[SimulatedWorkload]:
    """Gangs by now and then; none in the last hour, which could not end."""
    container = guaranteed(cpu=32, memory="64Gi", devices={_GPU: _GPUS})
    asked = {KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: _LABEL, NUMA_TOPOLOGY_SPEC: _POLICY}
    for number, at in enumerate(range(0, seconds - int(_GANG_SECONDS), _EVERY)):
        metadata = {"namespace": f"team-{number % _NAMESPACES}", "name": f"gang-{number}"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"parallelism": _GANG, "completions": _GANG, "template": template}
        job = workload(kind="Job", api_version="batch/v1", annotations=asked, metadata=metadata, spec=spec)
        read = read_workload(job)
        assert read is not None
        pod = Pod.from_object({"metadata": metadata, "spec": template["spec"]})
        kind = PodKind(pod, parse_numa_intent({NUMA_TOPOLOGY_SPEC: _POLICY})[0])
        names = tuple(name for gang in read.gangs for pods in gang.pod_sets for name in pods.pods)
        request = GangRequest(read, (_LABEL,))
        yield SimulatedWorkload(
            f"gang-{number}", float(at), (PodGroup(kind, _GANG, names),), _GANG_SECONDS, gang=request
        )


def _cluster() -> Any:
    objects: list[dict[str, Any]] = [topology(name="racks", labels=(_LABEL,))]
    for number in range(_NODES):
        name, rack = f"n{number:02}", f"rack-{number // _RACK}"
        objects.append(node(name=name, cpus=96, memory="768Gi", devices={_GPU: 8}, labels={_LABEL: rack}))
        objects.append(
            nrt(node=name, cpus=48, free=(48, 48), memory="384Gi", devices={_GPU: (4, 4)}, policy="restricted")
        )
    return cluster_snapshot(*objects)


if __name__ == "__main__":
    main()
