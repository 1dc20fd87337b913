"""From the histories of a run's pods to the row of the table."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.proof.hints import Choice
    from tests.proof.observe import History
    from tests.proof.scenario import Scenario


@dataclass(frozen=True)
class Row:
    """The result of one run."""

    scenario: str
    webhook: bool
    created: int
    """Pods that controllers made."""
    running: int
    """Pods that ran."""
    rejected: int
    """Pods that a kubelet rejected; each was made for nothing, and another in its place."""
    in_domain: int | None
    """Of the pods that ran and whose group is to stand in one rack: those in the rack with most of it.
    None in a scenario without such groups."""
    p50: float | None
    """Seconds from the workload's creation to a pod of it running, median; rejected ones before it count as waiting."""
    p99: float | None
    utilisation: float
    """CPUs of running pods over CPUs of all machines, on average over the steady part of the run."""
    refused_binds: int
    """Bindings that the webhook refused; the scheduler tries again."""
    hints: int
    """Pods that a kubelet gave something of NUMA nodes and that have a hint."""
    wrong_hints: int
    """Of these, those whose hint names other NUMA nodes than the kubelet chose."""

    def to_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "scenario": self.scenario,
            "webhook": self.webhook,
            "created": self.created,
            "running": self.running,
            "rejected": self.rejected,
            "inDomain": self.in_domain,
            "p50": _rounded(self.p50, 2),
            "p99": _rounded(self.p99, 2),
            "utilisation": _rounded(self.utilisation, 3),
            "refusedBinds": self.refused_binds,
            "hints": self.hints,
            "wrongHints": self.wrong_hints,
        }


def measure(
    scenario: Scenario, pods: Sequence[History], hints: Sequence[Choice] = (), *, webhook: bool, refused_binds: int
) -> Row:
    """The row of a run with these histories and hints of pods."""
    waits = waiting_times(scenario, pods)
    return Row(
        scenario=scenario.name,
        webhook=webhook,
        created=len(pods),
        running=sum(pod.running is not None for pod in pods),
        rejected=sum(bool(pod.rejected) for pod in pods),
        in_domain=in_domain(scenario, pods),
        p50=percentile(waits, 50),
        p99=percentile(waits, 99),
        utilisation=utilisation(scenario, pods),
        refused_binds=refused_binds,
        hints=sum(choice.hint is not None for choice in hints),
        wrong_hints=sum(choice.wrong for choice in hints),
    )


def waiting_times(scenario: Scenario, pods: Sequence[History]) -> list[float]:
    """Seconds from the request of each pod that ran until it ran.

    A workload wants all its pods from its creation on, so its first pod to run was waited for as long as that one took
    from there, however many a kubelet rejected in between, and likewise its second.
    """
    wanted = {workload.name: workload.at for workload in scenario.workloads}
    return [pod.running - wanted[pod.workload] for pod in pods if pod.running is not None]


def in_domain(scenario: Scenario, pods: Sequence[History]) -> int | None:
    """Pods that ran in the rack with most of their gang; None in a scenario without such gangs."""
    groups = {workload.name for workload in scenario.workloads if workload.one_rack}
    racks: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if pod.running is not None and pod.workload in groups:
            racks[pod.workload][scenario.racks[pod.node]] += 1
    return sum(max(counts.values()) for counts in racks.values()) if groups else None


def utilisation(scenario: Scenario, pods: Sequence[History]) -> float:
    """The share of all CPUs that running pods requested, averaged from `steady_from` to the end."""
    millicores: Mapping[str, int] = {workload.name: workload.millicores for workload in scenario.workloads}
    used = sum(
        millicores[pod.workload] * _overlap(pod, scenario.steady_from, scenario.seconds)
        for pod in pods
        if pod.running is not None
    )
    return used / (scenario.millicores * (scenario.seconds - scenario.steady_from))


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that at least this many percent do not exceed (nearest rank); None of no values."""
    if not values:
        return None
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def _overlap(pod: History, start: float, end: float) -> float:
    """Seconds of a time span in which a pod ran."""
    if pod.running is None:
        return 0.0
    return max(0.0, min(end, end if pod.ended is None else pod.ended) - max(start, pod.running))


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
