"""Components of other projects that place or queue pods, each as a context that runs it beside the webhook."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import KAI, KUEUE, SCHEDULER_PLUGINS, Neighbour
from tests.neighbours.kueue import QUEUE, kueue, queue
from tests.neighbours.schedulers import KAI_NAME, KAI_QUEUE, SCHEDULER_PLUGINS_NAME, kai_scheduler, scheduler_plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles


class Beside(NamedTuple):
    """A component, and what marks its pods."""

    neighbour: Neighbour
    run: Callable[[ControlPlane, NeighbourFiles], AbstractContextManager[None]]
    scheduler: str = ""
    """`schedulerName` of its pods; empty: they are ours to place."""
    labels: Mapping[str, str] = {}
    """Labels of its workloads."""
    keys: tuple[str, ...] = ()
    """How its annotations, labels and gates begin."""
    programs: tuple[str, ...] = ()
    """Its programs, as managed fields name them."""


QUOTA_CPUS: Final = 1000
BESIDE: Final[Mapping[str, Beside]] = {
    "kueue": Beside(KUEUE, kueue, labels=QUEUE, keys=("kueue.x-k8s.io/",), programs=("kueue",)),
    "scheduler-plugins": Beside(
        SCHEDULER_PLUGINS,
        scheduler_plugins,
        SCHEDULER_PLUGINS_NAME,
        keys=("scheduling.x-k8s.io/",),
        programs=("scheduler-plugins",),
    ),
    # The service itself reads and writes KAI-Scheduler's annotations.
    "kai": Beside(KAI, kai_scheduler, KAI_NAME, KAI_QUEUE, programs=("kai", "binder", "podgrouper")),
}


@contextlib.contextmanager
def running_beside(plane: ControlPlane, name: str, namespace: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Run a component of BESIDE, with a queue in this namespace if it has queues of namespaces."""
    beside = BESIDE[name]
    files = find_neighbour(beside.neighbour, tell)
    queues = queue(plane, namespace, QUOTA_CPUS) if beside.neighbour is KUEUE else contextlib.nullcontext()
    with beside.run(plane, files), queues:
        yield
