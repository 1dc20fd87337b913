"""The result of a simulation as people and programs read it."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from webhook.simulation.run import RunResult
from webhook.simulation.run_metrics import RunMetrics, Sample, in_fullest_domain, percentile, time_in_use
from webhook.simulation.workload import Scenario, WantedPod

# For people; a plot has more.
_JSON_SAMPLES: Final = 200


@dataclass(frozen=True)
class RunView(RunMetrics):
    """The result of one run."""

    pods: int
    """Pods that the workloads want."""
    waiting: int
    """Pods that did not run before the end."""
    denied: int
    """Pods of workloads that the webhook denied."""
    samples: tuple[Sample, ...]
    """Utilisation and waiting pods over time."""


@dataclass(frozen=True, slots=True)
class SimulationView:
    """The result of a simulation."""

    nodes: int
    """Nodes of the cluster."""
    seconds: float
    """Its length."""
    steady_from: float
    """The second from which utilisation is measured."""
    seed: int
    """What it was run with."""
    runs: tuple[RunView, ...]
    """Without the webhook, then with it."""


def view_of(scenario: Scenario, result: RunResult) -> RunView:
    """The result of a run."""
    waits = [pod.running - pod.workload.at for pod in result.pods if pod.running is not None]
    spans = [(pod.kind.millicores, pod.running, pod.ended) for pod in result.pods if pod.running is not None]
    length = scenario.seconds - scenario.steady_from
    used = time_in_use(spans, scenario.steady_from, scenario.seconds) + result.held * length
    denied = sum(result.webhook and pod.workload.denied for pod in result.pods)
    return RunView(
        webhook=result.webhook,
        pods=len(result.pods),
        created=sum(pod.created for pod in result.pods),
        running=len(waits),
        rejected=sum(pod.rejected for pod in result.pods),
        waiting=len(result.pods) - len(waits) - denied,
        denied=denied,
        in_domain=_in_domain(scenario, result.pods),
        p50=_rounded(percentile(waits, 50), 2),
        p99=_rounded(percentile(waits, 99), 2),
        utilisation=round(used / (result.millicores * length), 3) if result.millicores else 0.0,
        refused_binds=result.refused_binds,
        samples=result.samples,
    )


def as_printed(view: SimulationView) -> SimulationView:
    """The same with as many samples as a program reads comfortably, rounded."""
    runs = [replace(run, samples=_thinned(run.samples)) for run in view.runs]
    return replace(view, seconds=round(view.seconds, 2), steady_from=round(view.steady_from, 2), runs=tuple(runs))


def _thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    step = max(1, math.ceil(len(samples) / _JSON_SAMPLES))
    return tuple(Sample(round(one.at, 2), round(one.utilisation, 3), one.waiting) for one in samples[::step])


def _in_domain(scenario: Scenario, pods: Iterable[WantedPod]) -> int | None:
    if not any(workload.gang is not None and workload.gang.levels for workload in scenario.workloads):
        return None
    node_arrays = scenario.cluster.nodes.node_arrays

    def domain(node: str, levels: Sequence[str]) -> Hashable:
        labels: Mapping[str, str] = node_arrays.labels.rows[node_arrays.index[node]]
        return tuple(labels.get(label) for label in levels)

    return in_fullest_domain(
        (id(pod.workload), domain(pod.node, pod.workload.gang.levels))
        for pod in pods
        if pod.running is not None and pod.name and pod.workload.gang is not None and pod.workload.gang.levels
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
