"""The owners of waiting pods: read once, in turns by namespace, from an API server that answers as the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from time import thread_time
from typing import Any

import pytest

from tests.builders.workloads import job, owned
from webhook.controllers import owner_chains
from webhook.controllers.owner_chains import Key, OwnerChains, ReadQueue
from webhook.formats.kubernetes.pod import Owner
from webhook.internal_errors import Where, internal_error_counts
from webhook.kube.api_errors import UnreachableError
from webhook.model.names import KAI_TOPOLOGY

JOB = Owner("batch/v1", "Job", "w", "uid-Job", True)


class FakeServer:
    """Objects by kind; a kind that is not there is gone, and an exception is what the call meets with."""

    def __init__(self, **objects: dict[str, Any] | Exception) -> None:
        self.objects = objects
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.hanging: set[str] = set()
        """Namespaces in which no call is answered."""

    async def read(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        self.asked.append(f"{owner.kind}/{owner.name}")
        await asyncio.sleep(0)
        if namespace in self.hanging:
            await asyncio.Event().wait()
        found = self.objects.get(owner.kind)
        if isinstance(found, Exception):
            raise found
        return found


def nothing() -> None:
    """Nobody is woken."""


@asynccontextmanager
async def reading(server: FakeServer, changed: Callable[[], None] = nothing) -> AsyncIterator[OwnerChains]:
    known = OwnerChains(server.read, changed)
    task = asyncio.create_task(known.run())
    try:
        async with asyncio.timeout(60):
            yield known
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 # what is waited for is no event
        await asyncio.sleep(0.001)


async def test_an_owner_is_read_once_for_all_its_pods_and_those_above_it() -> None:
    server = FakeServer(Job=job("JobSet"), JobSet=owned("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": []}))
    async with reading(server) as known:
        for _ in range(3):
            known.want([("ns", JOB)] * 5)
            await until(lambda: known.get("ns", JOB))
        owner_chain = known.get("ns", JOB)
        assert owner_chain is not None
        assert (owner_chain.top.kind, server.asked) == ("JobSet", ["Job/w", "JobSet/above"])


async def test_who_asks_never_waits_and_is_told_that_owners_are_being_read() -> None:
    async with reading(FakeServer(Job=job())) as known:
        known.want([("ns", JOB)])
        assert known.get("ns", JOB) is None
        assert known.why_not("ns", JOB) == "they are being read"
        await until(lambda: known.get("ns", JOB))
        assert known.why_not("ns", JOB) == ""


async def test_a_ring_of_owners_ends() -> None:
    server = FakeServer(Job=job("Job"))
    async with reading(server) as known:
        known.want([("ns", JOB)])
        await until(lambda: known.get("ns", JOB))
    assert len(server.asked) == 8


async def test_a_call_that_fails_is_told_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_chains, "_FAILED_BASE", 0.001)
    server = FakeServer(Job=UnreachableError("down"))
    async with reading(server) as known:
        known.want([("ns", JOB)])
        await until(lambda: known.why_not("ns", JOB) == "down; they are read again")
        server.objects["Job"] = job()
        await until(lambda: known.get("ns", JOB))


async def test_an_owner_that_hangs_is_given_up_and_holds_up_no_other_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_chains, "_ANSWER_SECONDS", 0.5)
    server = FakeServer(Job=job())
    server.hanging.add("slow")
    hanging = [("slow", Owner("example.com/v1", "Thing", f"t{number}", f"uid-{number}", True)) for number in range(500)]
    async with reading(server) as known:
        known.want([*hanging, ("ns", JOB)])
        await until(lambda: known.get("ns", JOB))
        # Of 500 that hang only a few were begun before the honest one was done.
        assert len(server.asked) <= 8
        await until(lambda: any("no answer within" in known.why_not(*key) for key in hanging))


async def test_a_reference_that_names_no_object_is_never_read_and_says_why() -> None:
    server = FakeServer(Job=job())
    bad = Owner("batch/v1", "Pods?watch=1&x=", "w", "uid", True)
    async with reading(server) as known:
        known.want([("ns", bad), ("ns", JOB)])
        await until(lambda: known.get("ns", JOB))
        assert "kind: 'Pods?watch=1&x=' names no object" in known.why_not("ns", bad)
    assert server.asked == ["Job/w"]


async def test_a_fault_of_ours_with_one_owner_is_counted_and_that_of_its_pods() -> None:
    before = internal_error_counts().get(Where.OWNER, 0)
    server = FakeServer(Job=job(), Broken={"kind": "Broken"})
    broken = Owner("batch/v1", "Broken", "w", "uid", True)
    async with reading(server) as known:
        known.want([("ns", broken), ("ns", JOB)])
        await until(lambda: known.get("ns", JOB) and "internal error: KeyError" in known.why_not("ns", broken))
    assert internal_error_counts()[Where.OWNER] > before


async def test_a_change_that_matters_is_followed_while_pods_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_chains, "_READ_AGAIN_SECONDS", 0.001)
    server = FakeServer(Job=job())
    woken = asyncio.Event()
    async with reading(server, woken.set) as known:
        known.want([("ns", JOB)])
        await woken.wait()
        woken.clear()
        server.objects["Job"] = {**job(), "status": {"active": 1}}
        asked = len(server.asked)
        await until(lambda: len(server.asked) > asked + 2)
        assert not woken.is_set()
        server.objects["Job"] = job(**{KAI_TOPOLOGY: "t"})
        await woken.wait()
        owner_chain = known.get("ns", JOB)
        assert owner_chain is not None
        assert owner_chain.annotations == {KAI_TOPOLOGY: "t"}


async def test_what_counts_no_more_is_unknown_until_it_is_read_again() -> None:
    server = FakeServer(Job=job())
    async with reading(server) as known:
        known.want([("ns", JOB)])
        await until(lambda: known.get("ns", JOB))
        known.read_again([("ns", JOB), ("ns", replace(JOB, name="unwanted"))])
        assert (known.get("ns", JOB), known.why_not("ns", JOB)) == (None, "they are being read")
        await until(lambda: known.get("ns", JOB))
        assert server.asked == ["Job/w"] * 2


async def test_owners_that_take_long_to_decode_are_read_again_for_a_share_of_a_processor_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_chains, "_READ_AGAIN_SECONDS", 0.001)
    server = FakeServer(Job=job())

    async def read(namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        found = await server.read(namespace, owner)
        begin = thread_time()
        while namespace == "large" and thread_time() - begin < 0.01:
            pass
        return found

    large = [("large", replace(JOB, uid=f"uid-{number}")) for number in range(10)]
    known = OwnerChains(read, nothing)
    task = asyncio.create_task(known.run())
    known.want(large)
    await until(lambda: all(known.get(*key) for key in large))
    await asyncio.sleep(0.5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    # 10 ms of each 10 owners would make 50 reads in this time.
    assert len(server.asked) <= 2 * len(large)


async def test_what_is_known_stays_when_it_cannot_be_read_again_until_no_pod_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_chains, "_READ_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(owner_chains, "_FAILED_BASE", 0.001)
    server = FakeServer(Job=job())
    async with reading(server) as known:
        known.want([("ns", JOB)])
        await until(lambda: known.get("ns", JOB))
        server.objects["Job"] = UnreachableError("down")
        asked = len(server.asked)
        await until(lambda: len(server.asked) > asked + 2)
        assert known.get("ns", JOB) is not None
        known.want([])
        assert known.get("ns", JOB) is None


def job_of(namespace: str, number: int) -> Key:
    return namespace, Owner("batch/v1", "Job", f"j{number}", f"uid-{number}", True)


def test_a_namespace_has_a_few_reads_at_a_time_and_the_next_when_one_ends() -> None:
    queue = ReadQueue()
    for number in range(10):
        queue.put(job_of("a", number), 0.0)
    begun = list(queue.take(0.0))
    assert begun == [job_of("a", number) for number in range(4)]
    assert list(queue.take(0.0)) == []
    assert queue.next_at() is None
    queue.done(begun[2], 0.0, in_time=True)
    assert list(queue.take(0.0)) == [job_of("a", 4)]


def test_namespaces_have_their_turn_one_after_the_other_and_all_together_a_bound() -> None:
    queue, crowd = ReadQueue(), ReadQueue()
    for number in range(1000):
        queue.put(job_of("hostile", number), 0.0)
        crowd.put(job_of(f"ns{number}", 0), 0.0)
    queue.put(job_of("honest", 0), 0.0)
    assert [one[0] for one in queue.take(0.0)] == ["hostile", "honest", "hostile", "hostile", "hostile"]
    assert len(list(crowd.take(0.0))) == 16


def test_slow_namespaces_leave_places_to_the_others_however_many_they_are() -> None:
    queue = ReadQueue()
    slow = [job_of(f"slow{namespace}", number) for namespace in range(40) for number in range(4)]
    for one in slow:
        queue.put(one, 0.0)
    begun = list(queue.take(0.0))
    while begun:
        for one in begun:
            queue.done(one, 5.0, in_time=False)
        begun = list(queue.take(5.0))
        if {one[0] for one in begun} and len(begun) <= 4:
            break
    assert len(begun) == 4  # of all that are slow together
    for number in range(12):
        queue.put(job_of(f"honest{number}", 0), 5.0)
    assert len(list(queue.take(5.0))) == 12


def test_a_slow_namespace_is_as_the_others_after_a_while() -> None:
    queue = ReadQueue()
    queue.put(job_of("a", 0), 0.0)
    (begun,) = queue.take(0.0)
    queue.done(begun, 5.0, in_time=False)
    for number in range(10):
        queue.put(job_of("a", number), 5.0)
        queue.put(job_of("b", number), 5.0)
    assert len(list(queue.take(66.0))) == 8


def test_what_is_due_later_or_was_forgotten_is_not_read_now() -> None:
    queue = ReadQueue()
    queue.put(job_of("a", 0), 3.0)
    queue.put(job_of("a", 1), 0.0)
    queue.forget(job_of("a", 1))
    assert list(queue.take(0.0)) == []
    assert queue.next_at() == 3.0
    queue.put(job_of("a", 0), 7.0)
    assert queue.next_at() == 7.0
    assert list(queue.take(7.0)) == [job_of("a", 0)]
