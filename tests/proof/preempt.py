"""The scenario `preempt`: pods of higher priority come to machines that are full by NUMA nodes, but not by sums.

    rack-0 .. rack-3, three machines each      [6 6]      free CPUs beside two pods of low priority, 10 CPUs each

At second 6 come 6 single pods of 8 CPUs, and a gang of 6 pods of 12 CPUs that needs all NUMA nodes of a rack. Each fits
the sum of a machine, 12 CPUs, so kube-scheduler preempts none and kubelets reject them. With the webhook nine pods of
low priority end: two of the single pods fit in one freed NUMA node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.cluster.kubelets import even_machine
from tests.cluster.nodes import RACK_LABEL
from tests.proof.scenario import ProofScenario
from tests.proof.workload import Burst, ControllerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.control_plane import ControlPlane
    from tests.proof.observe import PodObserver

PRIORITIES: Final[Mapping[str, int]] = {"low": 0, "high": 1000}
"""PriorityClass -> value."""


def preempt(seed: int) -> ProofScenario:
    """12 machines, 24 pods of low priority, then 12 of high priority."""
    del seed  # nothing is random here but the exporters' lags
    machines = [
        even_machine(f"rack-{rack}-node-{number}", labels={RACK_LABEL: f"rack-{rack}"})
        for rack in range(4)
        for number in range(3)
    ]
    return ProofScenario(
        "preempt",
        machines,
        [
            Burst("low", 24, [_amounts(10)], priority="low"),
            Burst("single", 6, [_amounts(8)], priority="high", at=6.0),
            Burst("gang", 6, [_amounts(12)], kind=ControllerKind.JOB, priority="high", at=6.0, one_rack=True),
        ],
        seconds=45.0,
        steady_from=30.0,
        lag=2.0,
    )


def create_priorities(plane: ControlPlane, scenario: ProofScenario) -> None:
    """Create the PriorityClasses that the scenario's workloads name."""
    for name in {workload.priority for workload in scenario.workloads} - {""}:
        body = {"metadata": {"name": name}, "value": PRIORITIES[name]}
        plane.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def tell_preempted(scenario: ProofScenario, observer: PodObserver, tell: Callable[[str], None]) -> None:
    """Report how many pods of each priority started, and how many of these ended again."""
    for workload in scenario.workloads:
        if workload.priority:
            started = [pod for pod in observer.histories() if pod.workload == workload.name and pod.running is not None]
            ended = sum(pod.ended is not None for pod in started)
            tell(f"{workload.name} ({workload.priority}): {len(started)} of {workload.pods} started, {ended} ended")


def _amounts(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{cpu}Gi"}
