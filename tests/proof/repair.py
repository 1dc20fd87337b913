"""The scenario `repair`: kubelets reject pods because of static pods that exporters show late.

    node-000 .. node-007      [6 6]      free CPUs from second 3 on; their NRTs show 16 and 16 for 5 to 15 s more
    node-008 .. node-019      [16 16]

A small pod runs on each of the first machines, so that these are the fuller ones and are filled first. At second 6 come
24 pods of 10 CPUs: each of the other machines has room for two.
"""

from __future__ import annotations

from tests.cluster.kubelets import even_machine
from tests.proof.scenario import PlantedPod, ProofScenario
from tests.proof.workload import Burst

_MACHINES = 20
_PLANTED = 8


def repair(seed: int) -> ProofScenario:
    """Eight of 20 machines have static pods that nothing in the API server shows at first."""
    del seed  # nothing is random here but the exporters' lags
    machines = [even_machine(f"node-{number:03}") for number in range(_MACHINES)]
    planted = [
        PlantedPod(machine.name, f"static-{numa}", 10, at=3.0) for machine in machines[:_PLANTED] for numa in range(2)
    ]
    small, large = {"cpu": "1", "memory": "1Gi"}, {"cpu": "10", "memory": "10Gi"}
    return ProofScenario(
        "repair",
        machines,
        [
            *(
                Burst(f"small-{number}", 1, [small], node_selector={"kubernetes.io/hostname": machine.name})
                for number, machine in enumerate(machines[:_PLANTED])
            ),
            Burst("large", 2 * (_MACHINES - _PLANTED), [large], at=6.0),
        ],
        seconds=40.0,
        steady_from=30.0,
        lag=10.0,
        planted=planted,
    )
