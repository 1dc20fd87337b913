"""From the histories of a run's pods to the row of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webhook.simulation.run_metrics import RunMetrics, in_fullest_domain, percentile, time_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.proof.allocations import ChosenNUMANodes
    from tests.proof.dra import Alignment
    from tests.proof.observe import History
    from tests.proof.scenario import ProofScenario


REAL, SIMULATED = "real", "simulated"


@dataclass(frozen=True, kw_only=True)
class ProofRow(RunMetrics):
    """The result of one run."""

    scenario: str
    kubelets: str
    """REAL or SIMULATED."""
    hints: int
    """Pods that a kubelet gave something of NUMA nodes and that have an allocation."""
    wrong_hints: int
    """Of these, those whose allocation names other NUMA nodes than the kubelet chose."""
    claims: int | None = None
    """Pods that a kubelet gave exclusive CPUs and that had devices of claims; None in a scenario without claims."""
    apart: int | None = None
    """Of these, those with a device on another NUMA node than their CPUs."""

    def to_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "scenario": self.scenario,
            "kubelets": self.kubelets,
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
            "claims": self.claims,
            "apart": self.apart,
        }


def measure(
    scenario: ProofScenario,
    pods: Sequence[History],
    allocations: Sequence[ChosenNUMANodes] = (),
    aligned: Sequence[Alignment] = (),
    *,
    webhook: bool,
    refused_binds: int,
) -> ProofRow:
    """The row of a run with these histories, allocations and devices of pods."""
    waits = waiting_times(scenario, pods)
    return ProofRow(
        scenario=scenario.name,
        kubelets=SIMULATED if scenario.exporter is None else REAL,
        webhook=webhook,
        created=len(pods),
        running=sum(pod.running is not None for pod in pods),
        rejected=sum(bool(pod.rejected) for pod in pods),
        in_domain=in_domain(scenario, pods),
        p50=percentile(waits, 50),
        p99=percentile(waits, 99),
        utilisation=utilisation(scenario, pods),
        refused_binds=refused_binds,
        hints=sum(choice.allocation is not None for choice in allocations),
        wrong_hints=sum(choice.wrong for choice in allocations),
        claims=len(aligned) if scenario.has_claims else None,
        apart=sum(each.apart for each in aligned) if scenario.has_claims else None,
    )


def waiting_times(scenario: ProofScenario, pods: Sequence[History]) -> list[float]:
    """Seconds from the request of each pod that ran until it ran.

    A workload wants all its pods from its creation on, so its first pod to run was waited for as long as that one took
    from there, however many a kubelet rejected in between, and likewise its second.
    """
    wanted = {workload.name: workload.at for workload in scenario.workloads}
    return [pod.running - wanted[pod.workload] for pod in pods if pod.running is not None]


def in_domain(scenario: ProofScenario, pods: Sequence[History]) -> int | None:
    """Pods that ran in the rack with most of their gang; None in a scenario without such gangs."""
    groups = {workload.name for workload in scenario.workloads if workload.one_rack}
    ran = (pod for pod in pods if pod.running is not None and pod.workload in groups)
    return in_fullest_domain((pod.workload, scenario.racks[pod.node]) for pod in ran) if groups else None


def utilisation(scenario: ProofScenario, pods: Sequence[History]) -> float:
    """The share of all CPUs that running pods requested, averaged from `steady_from` to the end."""
    millicores: Mapping[str, int] = {workload.name: workload.millicores for workload in scenario.workloads}
    spans = [(millicores[pod.workload], pod.running, pod.ended) for pod in pods if pod.running is not None]
    used = time_in_use(spans, scenario.steady_from, scenario.seconds)
    return used / (scenario.millicores * (scenario.seconds - scenario.steady_from))


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
