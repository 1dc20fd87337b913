"""Scenarios `beside-<name>`: another project's component runs on the same machines, with workloads of its own.

    node-000 .. node-007      [2 NUMA nodes of 16 CPUs each]

Its workloads and ours take turns, 4 pods at a time, until every NUMA node has one pod. None may be given twice: the
kubelet would reject the second pod. After the run, what one of the two wrote on a pod of the other is reported.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.cluster.kubelets import even_machine
from tests.neighbours.beside import BESIDE
from tests.neighbours.untouched import touched_by, touched_by_us
from tests.proof.scenario import ProofScenario
from tests.proof.workload import Burst, ControllerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.proof.observe import PodObserver

PREFIX = "beside-"
_OWN, _THEIR = "own", "their"
_TURN_SECONDS = 5.0
# KAI-Scheduler fits pods by the sums of nodes alone: its pods take whole NUMA nodes, so that a sum is enough.
_CPUS = {"kai": 16}


def _scenario(component: str, seed: int) -> ProofScenario:
    del seed  # the order of the turns is the point
    beside = BESIDE[component]
    workloads = []
    for turn in range(2):
        at = 2 * turn * _TURN_SECONDS
        workloads.append(Burst(f"{_OWN}-{turn}", 4, [_amounts(10)], at=at))
        workloads.append(
            Burst(
                f"{_THEIR}-{turn}",
                4,
                [_amounts(_CPUS.get(component, 10))],
                kind=ControllerKind.JOB,
                at=at + _TURN_SECONDS,
                labels=beside.labels,
                scheduler=beside.scheduler,
            )
        )
    machines = [even_machine(f"node-{number:03}") for number in range(8)]
    return ProofScenario(f"{PREFIX}{component}", machines, workloads, 35.0, 25.0, lag=0.5, beside=component)


BESIDE_SCENARIOS: Mapping[str, Callable[[int], ProofScenario]] = {
    f"{PREFIX}{component}": partial(_scenario, component) for component in BESIDE
}


def tell_touched(scenario: ProofScenario, observer: PodObserver, tell: Callable[[str], None]) -> None:
    """Report for each pod what the component to which it does not belong wrote on it, and how many have nothing."""
    beside = BESIDE[scenario.beside]
    names = [history.name for history in observer.histories()]
    ours, theirs = ([name for name in names if name.startswith(kind)] for kind in (_OWN, _THEIR))
    found = {name: touched_by(dict(observer.last_seen(name)), beside.keys, beside.programs) for name in ours}
    if beside.scheduler:  # else the service places them
        found |= {name: touched_by_us(dict(observer.last_seen(name))) for name in theirs}
    for name, what in _touched(found.items()):
        tell(f"{name} was touched: {', '.join(what)}")
    untouched = len(found) - len(_touched(found.items()))
    tell(f"{scenario.name}: {untouched} of {len(found)} pods were not touched by the one that they do not belong to")


def _touched(found: Iterable[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    return [(name, what) for name, what in found if what]


def _amounts(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{cpu}Gi"}
