"""The scenarios on real kubelets: on each machine the unmodified kubelet, and beside it another project's exporter.

There are fewer machines, and their workloads shrink with them. A static CPU manager demands CPUs for the system, so one
CPU of each machine is not for pods.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.cluster.real_kubelets import ImpossibleError, require_possible
from tests.proof.dra import dra
from tests.proof.scenario import ProofScenario, RealExporter
from tests.proof.scenarios import churn, defaults, devices, gangs, mixed, replicaset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SOON: Final = 5
_DEFAULT: Final = 60
"""The period in seconds of both exporters unless one is set."""
_RESERVED: Final = "0"


def _real(like: Callable[[int], ProofScenario], exporter: str, seconds: int, seed: int) -> ProofScenario:
    scenario = like(seed)
    machines = [
        # of the CPUs for pods one is the system's, as measured; simulated machines have one more in each NUMA node
        replace(
            machine,
            cpus=machine.free_cpus[0],
            reserved_cpus=_RESERVED if machine.cpu_manager == "static" else "",
        )
        for machine in scenario.machines
    ]
    return replace(scenario, machines=machines, exporter=RealExporter(exporter, seconds))


REAL_SCENARIOS: Final[Mapping[str, Callable[[int], ProofScenario]]] = {
    "replicaset": partial(_real, partial(replicaset, machines=8), "rte", _SOON),
    "mixed": partial(_real, partial(mixed, of_each=2), "nfd", _SOON),
    "devices": partial(_real, partial(devices, machines=6), "rte", _SOON),
    "gangs": partial(_real, partial(gangs, per_rack=3), "nfd", _SOON),
    "churn": partial(_real, partial(churn, machines=8), "rte", _DEFAULT),
    "defaults": partial(_real, partial(defaults, machines=6), "nfd", _DEFAULT),
    "dra": partial(_real, partial(dra, machines=6), "rte", _SOON),
}
"""Each a function of the seed."""


def reason_against(scenarios: Sequence[ProofScenario]) -> str:
    """Why these cannot run on real kubelets here; empty: they can."""
    try:
        require_possible(max(len(scenario.machines) for scenario in scenarios))
    except ImpossibleError as error:
        return str(error)
    return ""
