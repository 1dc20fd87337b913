"""A leader that preempts. Victims end, and their exporters show it, when the test says so, or after some time."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Self

from tests.builders.clusters import put
from tests.builders.pods import gated
from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.leader import TERM, Leader, metrics
from tests.unit.views.one_node import WRITTEN_AT
from webhook.controllers.preemption.controller import PreemptionController
from webhook.controllers.preemption.wave import Waves
from webhook.model.names import MIN_MEMBER, NUMA_ALLOCATION

NOW: Final = WRITTEN_AT + 4_000
SETTLE: Final = 130.0


class PreemptingLeader(Leader):
    """Also shows what its API server was told."""

    def __init__(self, cluster: FullCluster, *waiting: Mapping[str, Any]) -> None:
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
            self.cache, self.controller.planner, waves, self.metrics, self.is_leader, SETTLE
        )
        self.api.has(*(pod.raw() for pod in cluster.pods), *waiting)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def holds(self) -> Mapping[str, frozenset[str]]:
        """The nodes that are held, by the preemptor's name."""
        return {hold.name: hold.nodes for hold in self.controller.planner.preemptors.holds}

    async def round(self) -> None:
        """A cycle, then what follows from it for preemption."""
        await self.cycle()
        self.preemption.check_holds(self.now)
        await self.preemption.choose(inf)
        await self.preemption.settle()
        await self.cycle()

    def searches(self) -> list[tuple[Any, Any]]:
        """The preemptors that are searched for from now on, and what is found for each."""
        found: list[tuple[Any, Any]] = []
        run = self.preemption._search.run

        def noted(preemptor: Any, closed: Any) -> Any:
            result = yield from run(preemptor, closed)
            found.append((preemptor, result))
            return result

        self.preemption._search.run = noted  # type: ignore[method-assign,assignment]
        return found

    def nominated(self) -> dict[str, str]:
        """The nominated node of each pod that has one."""
        nodes = {key: (raw.get("status") or {}).get("nominatedNodeName") for key, raw in self.api.pods.items()}
        return {key: node for key, node in nodes.items() if node}

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


class LaggingLeader(PreemptingLeader):
    """Victims end a second after their eviction, and an exporter publishes `lag` seconds after a change.

    A pod that got its node is bound at once, to the NUMA node of its allocation.
    """

    def __init__(self, cluster: FullCluster, *waiting: Mapping[str, Any], lag: float) -> None:
        super().__init__(cluster, *waiting)
        self.lag = lag
        self.placed: dict[str, Holder] = {}
        self._ends: dict[str, float] = {}
        self._reports: dict[str, float] = {}
        self.cache._clock = lambda: NOW + self.now
        self.controller.planner.preemptors._delays._clock = lambda: self.now

    async def run(self, seconds: float) -> None:
        """Let time pass, half a second at a time."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            self._let_things_happen()
            await self.round()

    async def run_until_ended(self, count: int) -> None:
        """Let time pass until so many victims are gone."""
        while len(self.ended) < count:
            assert self.now < 600
            await self.run(0.5)

    def _let_things_happen(self) -> None:
        for key in (*self.api.evicted, *self.api.deleted):
            if key not in self.ended and self._ends.setdefault(key, self.now + 1.0) <= self.now:
                self._changed(next(pod.node for pod in (*self.cluster.pods, *self.placed.values()) if pod.key == key))
                self.end(key, shown=False)
        for key, raw in list(self.api.pods.items()):
            if key not in self.placed and not raw["spec"].get("nodeName"):
                self._bind(key, raw)
        for node in [node for node, at in self._reports.items() if at <= self.now]:
            del self._reports[node]
            self._publish(node)

    def _bind(self, key: str, raw: Mapping[str, Any]) -> None:
        if not (allocation := raw["metadata"]["annotations"].get(NUMA_ALLOCATION)):
            return
        read = json.loads(allocation)
        (given,) = read["numaNodeResources"]
        spec, cpus = raw["spec"], int(given["resources"]["cpu"])
        self.placed[key] = Holder(key.partition("/")[2], read["node"], cpus, spec["priority"], numa=given["node"])
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._time()}
        status = {"phase": "Running", "conditions": [condition]}
        self.api.has({**raw, "spec": {**spec, "nodeName": read["node"], "schedulingGates": []}, "status": status})
        self._changed(read["node"])

    def _changed(self, node: str) -> None:
        self._reports.setdefault(node, self.now + self.lag)

    def _publish(self, node: str) -> None:
        running = [pod for pod in (*self.cluster.pods, *self.placed.values()) if pod.key not in self.ended]
        raw = self.cluster.nrt(node, running)
        fields = [{**field, "time": self._time()} for field in raw["metadata"]["managedFields"]]
        put(self.cache, {**raw, "metadata": {**raw["metadata"], "managedFields": fields}})

    def _time(self) -> str:
        return datetime.fromtimestamp(NOW + self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_node() -> FullCluster:
    """n0 ── NUMA 0 [0 of 8: a]  NUMA 1 [0 of 8: b]."""
    return FullCluster(("n0",), (Holder("a", "n0", 8, 0, numa=0), Holder("b", "n0", 8, 10, numa=1)))


def high(name: str = "high", *, cpu: int = 8, priority: int = 100, **how: Any) -> dict[str, Any]:
    return gated(name=name, cpu=cpu, priority=priority, **how)


def member(number: int, minimum: int = 4, **how: Any) -> dict[str, Any]:
    return high(f"g-{number}", group="g", annotations={MIN_MEMBER: str(minimum)}, second=number, **how)


def members(count: int = 4, minimum: int = 4, **how: Any) -> list[dict[str, Any]]:
    return [member(number, minimum, **how) for number in range(count)]


async def begun(cluster: FullCluster, *waiting: Mapping[str, Any]) -> PreemptingLeader:
    """A leader, one round after these pods have come."""
    leader = PreemptingLeader(cluster, *waiting)
    await leader.round()
    return leader


def two_nodes(priority: int = 0) -> FullCluster:
    pods = (Holder(f"v{n}{z}", f"n{n}", 8, priority, numa=z) for n in range(2) for z in range(2))
    return FullCluster(("n0", "n1"), tuple(pods))
