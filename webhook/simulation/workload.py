"""What a simulation is given, a cluster and workloads with their times, and what has happened to the pods they want."""

from collections.abc import Iterator, Sequence
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


Order = tuple[int, float, int]
"""Sorts what waits: the negative priority, the time of creation, the position."""


@dataclass(slots=True)
class WantedPod:
    """One pod that a workload wants, and what has happened to it and to the pods that were created for it.

    Times are seconds after the start; None for a state that it did not reach.
    """

    key: int
    """Its position among all wanted pods."""
    workload: SimulatedWorkload
    kind: PodKind
    name: str
    """Its name in its gang; empty if it is in none."""
    created: int = 0
    """Pods that were created for it."""
    rejected: int = 0
    """Pods of these that a kubelet rejected."""
    in_a_row: int = 0
    """Rejections since something changed."""
    node: str = ""
    running: float | None = None
    ended: float | None = None

    @property
    def order(self) -> Order:
        """Pods that wait are tried by priority, then by age."""
        return -self.kind.pod.priority, self.workload.at, self.key


@dataclass(slots=True)
class WantedGang:
    """The gangs of a workload, with their pods by name."""

    request: GangRequest
    members: dict[str, WantedPod]

    @property
    def order(self) -> Order:
        """The order of its first member."""
        return min(member.order for member in self.members.values())

    @property
    def namespace(self) -> str:
        """The namespace of its members."""
        return next(iter(self.members.values())).kind.pod.namespace

    def begun(self) -> dict[str, str]:
        """Member -> node, of those that have or had one."""
        return {name: member.node for name, member in self.members.items() if member.node}

    def waiting(self) -> list[WantedPod]:
        """The members without a node."""
        return [member for member in self.members.values() if not member.node]


Unit = WantedPod | WantedGang
"""What is placed in one step."""


class Wanted:
    """All wanted pods of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.pods: list[WantedPod] = []
        self.of: list[list[WantedPod]] = []
        """For each workload, in the order of the scenario."""
        for workload in scenario.workloads:
            made = [WantedPod(0, workload, group.kind, name) for group in workload.groups for name in _names(group)]
            for pod in made:
                pod.key = len(self.pods)
                self.pods.append(pod)
            self.of.append(made)


def units_of(pods: list[WantedPod], *, webhook: bool) -> Iterator[Unit]:
    """The pods of one workload as they are placed: without the webhook each by itself."""
    gang = pods[0].workload.gang if pods and webhook else None
    if gang is not None:
        members = {pod.name: pod for pod in pods if pod.name}
        if members:
            yield WantedGang(gang, members)
        pods = [pod for pod in pods if not pod.name]
    yield from pods


def _names(group: PodGroup) -> Iterator[str]:
    yield from group.names or ("" for _ in range(group.count))
