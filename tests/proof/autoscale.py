"""The scenario `autoscale`: the real Cluster Autoscaler adds machines for what does not fit.

    pool ── 4 machines [16 16] at first, up to 20

20 large pods of 10 CPUs, then 20 small ones of 6: each NUMA node holds one of both, so 10 machines hold all. By sums a
machine holds three large pods, but by NUMA node two.

The autoscaler counts by sums, as kube-scheduler does. While large pods wait and the sums of nodes would take them, it
adds none, whether they are behind our gate or not. So the small pods are as many: they take the rest of each NUMA node.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from tests.cluster.kubelets import even_machine
from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import CLUSTER_AUTOSCALER
from tests.neighbours.cluster_autoscaler import cluster_autoscaler, create_nodes
from tests.neighbours.new_nodes import BootedNodes, booting
from tests.neighbours.node_groups import GroupOfMachines, nodes_of
from tests.proof.scenario import ProofScenario
from tests.proof.workload import Burst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

_INITIAL: Final = 4
_LARGE, _SMALL = 10, 6
_PODS: Final = 20
# As real machines do, but sooner.
_BOOT_SECONDS, _EXPORTER_SECONDS = 2.0, 2.0


def autoscale(seed: int) -> ProofScenario:
    """Four machines, and pods for ten."""
    del seed  # nothing is random here but the exporters' lags
    return ProofScenario(
        "autoscale",
        [],
        [
            Burst("large", _PODS, [_amounts(_LARGE)]),
            Burst("small", _PODS, [_amounts(_SMALL)], at=4.0),
        ],
        seconds=75.0,
        steady_from=60.0,
        lag=1.0,
        settings={"autoscaler": "ClusterAutoscaler"},
        group=GroupOfMachines("pool", even_machine("sample"), minimum=_INITIAL),
    )


@contextlib.contextmanager
def autoscaled_machines(
    plane: ControlPlane,
    group: GroupOfMachines,
    tell: Callable[[str], None],
    *,
    lag: float,
    seed: int,
    publisher: str,
) -> Iterator[BootedNodes]:
    """The machines that the group begins with, ready, and the autoscaler that may add more.

    lag, seed, publisher: of their exporters, as for `kubelets`.
    """
    files = find_neighbour(CLUSTER_AUTOSCALER, tell)
    with booting(
        plane, [group], boot=_BOOT_SECONDS, exporter=_EXPORTER_SECONDS, lag=lag, seed=seed, publisher=publisher
    ) as machines:
        create_nodes(plane, group, group.minimum)
        plane.wait_for("the first machines", lambda: len(machines.publishing()) == group.minimum)
        with cluster_autoscaler(plane, files, [group]):
            yield machines


def tell_nodes(plane: ControlPlane, group: GroupOfMachines, tell: Callable[[str], None]) -> None:
    """Report how many machines there are in the end."""
    count = len(nodes_of(plane, [group]))
    tell(f"cluster-autoscaler: {group.minimum} machines at first, {count} in the end")


def _amounts(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{cpu}Gi"}
