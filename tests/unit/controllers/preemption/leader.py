"""A leader that preempts. Victims end, and their exporters show it, when the test says so."""

from collections.abc import Mapping
from typing import Any, Final, Self

from tests.builders.clusters import put
from tests.builders.pods import gated
from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.leader import Leader
from tests.unit.controllers.site import TERM, metrics
from tests.unit.views.one_node import WRITTEN_AT
from webhook.controllers.preemption.controller import PreemptionController
from webhook.controllers.preemption.wave import Waves
from webhook.model.names import MIN_MEMBER
from webhook.model.rules import Rules

NOW: Final = WRITTEN_AT + 4_000
SETTLE: Final = 130.0


class PreemptingLeader(Leader):
    """Also shows what its API server was told."""

    def __init__(self, cluster: Cluster, *waiting: Mapping[str, Any]) -> None:
        super().__init__(preempting=cluster.cache())
        self.cluster = cluster
        self.ended: set[str] = set()
        self.now = 0.0
        self.slept: list[float] = []
        events: Any = self.api
        self.api.ends_gracefully = True
        self.metrics = metrics()
        waves = Waves(self.api, events, self.metrics, self.is_leader, 4, self._sleep)
        self.preemption = PreemptionController(
            self.cache, self.controller.preemptors, waves, self.metrics, Rules(), self.is_leader, SETTLE
        )
        self.api.has(*(pod.raw() for pod in cluster.pods), *waiting)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def holds(self) -> Mapping[str, frozenset[str]]:
        """The nodes that are held, by the preemptor's name."""
        return {hold.name: hold.nodes for hold in self.controller.preemptors.holds}

    async def round(self) -> None:
        """A cycle, then what follows from it for preemption."""
        await self.cycle()
        self.preemption.check_holds(self.now)
        await self.preemption.choose()
        await self.preemption.settle()
        await self.cycle()

    def end(self, *keys: str, shown: bool = True) -> None:
        """These pods end. shown: whether their exporters have seen that."""
        for key in keys:
            self.api.delete(key)
        self.ended |= set(keys)
        if shown:
            self.show_nodes()

    def show_nodes(self) -> None:
        """The exporters publish what runs."""
        left = [pod for pod in self.cluster.pods if pod.key not in self.ended]
        put(self.cache, *(self.cluster.nrt(name, left) for name in self.cluster.nodes))

    def text(self, name: str) -> str:
        """What the reporter would write about a pod."""
        report = self.reporter._to_report.get("default", f"default/{name}")
        return "" if report is None else report.why.text

    def replaced_by(self) -> Self:
        """The next leader: it knows what the API server knows."""
        other = type(self)(self.cluster)
        other.ended = self.ended
        for key in self.ended:
            other.api.delete(key)
        other.api.has(*self.api.pods.values())
        other.show_nodes()
        other.controller.started(TERM)
        return other


def one_node() -> Cluster:
    """n0 ── NUMA 0 [0 of 8: a]  NUMA 1 [0 of 8: b]."""
    return Cluster(("n0",), (Placed("a", "n0", 8, 0, numa=0), Placed("b", "n0", 8, 10, numa=1)))


def high(name: str = "high", *, cpu: int = 8, priority: int = 100, **how: Any) -> dict[str, Any]:
    return gated(name=name, cpu=cpu, priority=priority, **how)


def member(number: int, minimum: int = 4, **how: Any) -> dict[str, Any]:
    return high(f"g-{number}", group="g", annotations={MIN_MEMBER: str(minimum)}, second=number, **how)


def two_nodes(priority: int = 0) -> Cluster:
    pods = (Placed(f"v{n}{z}", f"n{n}", 8, priority, numa=z) for n in range(2) for z in range(2))
    return Cluster(("n0", "n1"), tuple(pods))
