"""The owners of waiting pods, against an API server that answers as the test says."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.model.test_lineage import job, owned
from webhook.cluster.errors import UnreachableError
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.pod import Owner
from webhook.placement import lineages
from webhook.placement.lineages import Lineages

JOB = Owner("batch/v1", "Job", "w", "uid-Job", True)


class Server:
    """Objects by kind; a kind that is not there is gone, and an exception is what the call meets with."""

    def __init__(self, **objects: dict[str, Any] | Exception) -> None:
        self.objects = objects
        self.asked: list[str] = []

    async def read(self, api_version: str, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        assert (api_version, namespace) != ("", "")
        self.asked.append(f"{kind}/{name}")
        await asyncio.sleep(0)
        found = self.objects.get(kind)
        if isinstance(found, Exception):
            raise found
        return found


def nothing() -> None:
    """Nobody is woken."""


async def test_an_owner_is_read_once_for_all_its_pods_and_those_above_it() -> None:
    server = Server(Job=job("JobSet"), JobSet=owned("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": []}))
    known = Lineages(server.read, nothing)
    for _ in range(3):
        assert await known.learn([("ns", JOB)] * 5) == {}
    lineage = known.get("ns", JOB)
    assert lineage is not None
    assert (lineage.top.kind, server.asked) == ("JobSet", ["Job/w", "JobSet/above"])


async def test_the_chain_ends_where_an_owner_is_gone_or_another_of_the_same_name() -> None:
    other = owned("JobSet", "jobset.x-k8s.io/v1alpha2", {})
    other["metadata"]["uid"] = "another"
    for server in (Server(Job=job("JobSet")), Server(Job=job("JobSet"), JobSet=other)):
        known = Lineages(server.read, nothing)
        await known.learn([("ns", JOB)])
        lineage = known.get("ns", JOB)
        assert lineage is not None
        assert lineage.top.kind == "Job"


async def test_a_ring_of_owners_ends() -> None:
    server = Server(Job=job("Job"))
    await Lineages(server.read, nothing).learn([("ns", JOB)])
    assert len(server.asked) == 8


async def test_a_call_that_fails_is_told_and_made_again() -> None:
    server = Server(Job=UnreachableError("down"))
    known = Lineages(server.read, nothing)
    failures = await known.learn([("ns", JOB)])
    assert str(failures["ns", "uid-Job"]) == "down"
    server.objects["Job"] = job()
    assert await known.learn([("ns", JOB)]) == {}


async def test_a_change_that_matters_is_followed_while_pods_wait(monkeypatch: Any) -> None:
    monkeypatch.setattr(lineages, "_READ_AGAIN_SECONDS", 0.001)
    server = Server(Job=job())
    woken = asyncio.Event()
    known = Lineages(server.read, woken.set)
    await known.learn([("ns", JOB)])
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(known.run())
        server.objects["Job"] = {**job(), "status": {"active": 1}}
        while len(server.asked) < 5:  # noqa: ASYNC110 # the server is no event
            await asyncio.sleep(0)
        assert not woken.is_set()
        server.objects["Job"] = job(**{KAI_TOPOLOGY: "t"})
        await woken.wait()
        task.cancel()
    lineage = known.get("ns", JOB)
    assert lineage is not None
    assert lineage.annotations == {KAI_TOPOLOGY: "t"}


async def test_what_nobody_waits_for_is_forgotten() -> None:
    known = Lineages(Server(Job=job()).read, nothing)
    await known.learn([("ns", JOB)])
    await known.learn([])
    assert known.get("ns", JOB) is None
