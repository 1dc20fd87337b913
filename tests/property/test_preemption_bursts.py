"""Random bursts of pods and gangs over full clusters: no pod ends for a preemptor that does not get its place.

The leader is real, the API server a fake. Victims end in random order, and their exporters show that at once.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.clusters import put
from tests.property.preemptors import CPUS, FullCluster, Holder, random_cluster
from tests.unit.controllers.preemption.leader import SETTLE, PreemptingLeader, high
from webhook.model.names import MIN_MEMBER, NUMA_ALLOCATION

STEPS = 40


@dataclass
class Burst:
    """A cluster and what comes to it."""

    random: Random
    cluster: FullCluster
    leader: PreemptingLeader
    placed: dict[str, Holder] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    """The victims whose room others have used since."""

    @classmethod
    def of(cls, seed: int) -> "Burst":
        random = Random(seed)  # noqa: S311 - reproducible, not secret
        cluster = random_cluster(random, nodes=random.randint(2, 4))
        if random.random() < 0.5:
            cluster = replace(cluster, allowed={})
        return cls(random, cluster, PreemptingLeader(cluster))

    def waiting(self) -> list[dict[str, Any]]:
        """Two to five single pods and gangs of several priorities."""
        pods = []
        for number in range(self.random.randint(2, 5)):
            how: dict[str, Any] = {"priority": self.random.choice((20, 50, 50, 200)), "cpu": self.random.randint(3, 8)}
            if self.random.random() < 0.4:
                size = self.random.randint(2, 3)
                how |= {"group": f"w{number}", "annotations": {MIN_MEMBER: str(size)}}
                pods += [high(f"w{number}-{rank}", second=number, **how) for rank in range(size)]
            else:
                pods.append(high(f"w{number}", second=number, **how))
        return pods

    async def run(self) -> None:
        leader = self.leader
        leader.controller.planner.preemptors._delays._clock = lambda: leader.now
        leader.api.has(*self.waiting())
        for _ in range(STEPS):
            await self._step(1.0)
        # A preemptor whose place went to one of a higher priority waits no longer than this for reports of its node.
        for _ in range(STEPS):
            await self._step(SETTLE / 4)

    async def _step(self, seconds: float) -> None:
        leader = self.leader
        leader.now += seconds
        await leader.round()
        for key, raw in list(leader.api.pods.items()):
            if key not in self.placed and not raw["spec"].get("nodeName"):
                self._bind(key, raw)
        self.replaced |= set(self._without_room())
        self._end_some()
        for name in self.cluster.nodes:
            put(leader.cache, self.cluster.nrt(name, self.running()))

    def running(self) -> list[Holder]:
        return [pod for pod in (*self.cluster.pods, *self.placed.values()) if pod.key not in self.leader.ended]

    def in_vain(self) -> set[str]:
        """The victims whose room was never used: they would have had room where they ran."""
        return self._victims().keys() - self.replaced

    def _victims(self) -> dict[str, Holder]:
        return {pod.key: pod for pod in self.cluster.pods if pod.key in self.leader.ended and not pod.gang}

    def _without_room(self) -> list[str]:
        """Those without room now. A gang ends whole, whatever room that leaves: its members count as if they ran."""
        used: Counter[tuple[str, int | None]] = Counter()
        for pod in (*self.running(), *(pod for pod in self.cluster.pods if pod.gang and pod.key in self.leader.ended)):
            used[pod.node, pod.numa] += pod.cpus
        return [key for key, pod in self._victims().items() if used[pod.node, pod.numa] + pod.cpus > CPUS]

    def _end_some(self) -> None:
        api = self.leader.api
        # The whole gang of a victim may end, on the nodes of another preemptor, too: then both end these pods.
        ending = [key for key in dict.fromkeys((*api.evicted, *api.deleted)) if key in api.pods]
        self.random.shuffle(ending)
        for key in ending[: self.random.randint(0, len(ending))]:
            api.delete(key)
            self.leader.ended.add(key)

    def _bind(self, key: str, raw: Mapping[str, Any]) -> None:
        if not (allocation := raw["metadata"]["annotations"].get(NUMA_ALLOCATION)):
            return
        read = json.loads(allocation)
        (given,) = read["numaNodeResources"]
        cpus, spec = int(given["resources"]["cpu"]), raw["spec"]
        name = key.partition("/")[2]
        self.placed[key] = Holder(name, read["node"], cpus, spec["priority"], numa=given["node"])
        bound = {**spec, "nodeName": read["node"], "schedulingGates": []}
        self.leader.api.has({**raw, "spec": bound, "status": {"phase": "Running"}})


@settings(max_examples=24, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=202)  # a pod of another NUMA node only helped a gang to stay
@example(seed=343)  # a pod of higher priority waited for its turn
def test_every_preemptor_gets_its_place_and_no_pod_ends_in_vain(seed: int) -> None:
    burst = Burst.of(seed)
    asyncio.run(burst.run())
    assert burst.leader.holds == {}
    assert burst.in_vain() == set()
