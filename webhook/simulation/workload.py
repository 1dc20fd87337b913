"""What a simulation is given: a cluster, and workloads with their times."""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.workload.record import Workload
from webhook.model.resources import CPU
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class PodKind:
    """What equal pods of a workload request."""

    pod: Pod
    intent: NUMAIntent | None
    """What they request of NUMA placement; None: the webhook does not manage them."""

    @property
    def millicores(self) -> int:
        """The CPU request of one pod."""
        return self.pod.requests.get(CPU, 0)


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pods of one template."""

    kind: PodKind
    count: int
    names: Sequence[str] = ()
    """The names of the pods in their gang; empty if each is placed by itself."""


@dataclass(frozen=True, slots=True)
class GangRequest:
    """The gangs of a workload, which the webhook places together."""

    workload: Workload
    levels: tuple[str, ...] = ()
    """The node labels of the requested level and of the coarser ones, coarse to fine; empty if none is requested."""


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """Pods that are created at the same time."""

    name: str
    at: float
    """Seconds after the start."""
    groups: tuple[PodGroup, ...]
    run_seconds: float | None = None
    """How long each pod runs; None: until the end of the simulation."""
    recreates: bool = True
    """Whether a controller recreates a pod that its kubelet rejects."""
    gang: GangRequest | None = None
    denied: bool = False
    """Whether the webhook denies it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and what is created in it."""

    cluster: ClusterSnapshot
    workloads: Sequence[SimulatedWorkload]
    """In the order in which they are created if their times are equal."""
    rules: Rules
    seconds: float
    """The length of the simulation."""
    steady_from: float = 0.0
    """The second from which utilisation is measured."""
    recreations: int = 10
    """How often a rejected pod is recreated in a row while nothing changes."""
    recreate_seconds: float = 1.0
    """From the creation of a pod that is rejected to the creation of the next one."""
    reserve_after: float = 0.0
    """Seconds that a gang waits until the domain that can hold it soonest is reserved for it; 0: never."""
    seed: int = 0
    """Of the scheduler's choice among equal nodes."""
