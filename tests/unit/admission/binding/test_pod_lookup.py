"""The pod of a Binding: when the API server is asked for it, and how often at most."""

import asyncio

import pytest

from tests.builders import pods
from tests.builders.pods import GATES
from webhook.admission.binding.pod_lookup import PodLookup
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache


class Cluster:
    def __init__(self, **on_the_server: Raw) -> None:
        self.cache = ClusterCache()
        self.on_the_server = on_the_server
        self.asked = 0
        self.asking = self.most = 0

    def show(self, raw: Raw) -> None:
        self.cache.pods.upsert("ns/a", dict(raw))

    async def fetch(self, namespace: str, name: str) -> Raw | None:
        assert namespace == "ns"
        self.asked += 1
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        return self.on_the_server.get(name)

    async def find(self, name: str, uid: str = "u", seconds: float = 5.0) -> Raw | None:
        return await self.lookup.find("ns", name, uid, asyncio.get_running_loop().time() + seconds)

    @property
    def lookup(self) -> PodLookup:
        if not hasattr(self, "_lookup"):
            self._lookup = PodLookup(self.cache, self.fetch)
        return self._lookup


def pod(uid: str = "u", gated: bool = False) -> Raw:
    """The pod ns/a, which is managed."""
    gates = GATES if gated else []
    return pods.pod(name="a", namespace="ns", metadata={"uid": uid}, schedulingGates=gates)


async def test_a_pod_that_is_seen_a_moment_later_costs_no_call() -> None:
    cluster = Cluster()
    cluster.show(pod(gated=True))
    finding = asyncio.create_task(cluster.find("a"))
    await asyncio.sleep(0)
    cluster.show(pod())
    assert (await finding, cluster.asked) == (pod(), 0)


async def test_a_pod_that_is_not_seen_is_asked_for() -> None:
    cluster = Cluster(a=pod())
    assert (await cluster.find("a"), cluster.asked) == (pod(), 1)


async def test_an_incarnation_that_is_not_there_is_asked_for_once_and_a_name_each_time() -> None:
    cluster = Cluster(a=pod("another"))
    for _ in range(3):
        assert await cluster.find("a") is None
    assert cluster.asked == 1
    for _ in range(3):
        assert await cluster.find("b", uid="") is None
    assert cluster.asked == 4


async def test_however_many_ask_the_api_server_answers_a_few_at_a_time() -> None:
    cluster = Cluster()
    answers = await asyncio.gather(*(cluster.find(f"p{number}", str(number)) for number in range(40)))
    assert (answers, cluster.asked, cluster.most <= 4) == ([None] * 40, 40, True)


async def test_who_cannot_be_asked_for_in_time_is_not_taken_for_absent() -> None:
    cluster = Cluster()
    held = asyncio.Event()

    async def stuck(*_: str) -> None:
        await held.wait()

    lookup = PodLookup(cluster.cache, stuck)
    deadline = asyncio.get_running_loop().time() + 0.2
    others = [asyncio.create_task(lookup.find("ns", f"p{number}", "u", deadline)) for number in range(4)]
    await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        await lookup.find("ns", "a", "u", deadline)
    held.set()
    await asyncio.gather(*others)
