"""The scenario `starve`: small pods that come all the time, and gangs that each need a rack of their own.

    rack-0 ── 2 machines [16 16]      rack-1 ── 2 machines [16 16]      rack-2 …      rack-3 …

A gang needs every NUMA node of a rack. Small pods of 7 CPUs take all of the 32 places on average and run for 6 to 10 s:
no rack is ever empty by chance. Without the webhook the members of a gang start wherever one has room.
"""

from __future__ import annotations

from tests.cluster.kubelets import even_machine
from tests.cluster.nodes import RACK_LABEL
from tests.proof.scenario import ProofScenario, drawing
from tests.proof.workload import Burst, ControllerKind

_SECONDS, _MEAN_RUN = 75.0, 8.0
_RACKS, _MACHINES, _NUMA_NODES = 4, 2, 2
_PLACES = _RACKS * _MACHINES * _NUMA_NODES * 2


def starve(seed: int) -> ProofScenario:
    """Two gangs in a stream of small pods. A rack is kept for a gang after five seconds."""
    random = drawing(seed)
    machines = [
        even_machine(f"rack-{rack}-node-{number}", labels={RACK_LABEL: f"rack-{rack}"})
        for rack in range(_RACKS)
        for number in range(_MACHINES)
    ]
    small, large = {"cpu": "7", "memory": "7Gi"}, {"cpu": "10", "memory": "10Gi"}
    workloads: list[Burst] = []
    at = 0.0
    while at < _SECONDS:
        run = random.uniform(_MEAN_RUN - 2, _MEAN_RUN + 2)
        workloads.append(
            Burst(f"small-{len(workloads):03}", 1, [small], kind=ControllerKind.JOB, at=at, run_seconds=run)
        )
        at += random.expovariate(_PLACES / _MEAN_RUN)  # Little's law
    gangs = [
        Burst(
            f"gang-{number}",
            _MACHINES * _NUMA_NODES,
            [large],
            kind=ControllerKind.JOB,
            at=12.0 + 2.0 * number,
            run_seconds=_MEAN_RUN,
            one_rack=True,
        )
        for number in range(2)
    ]
    return ProofScenario("starve", machines, [*workloads, *gangs], _SECONDS, 12.0, settings={"reserveAfterSeconds": 5})
