"""The order of writes, and their limit."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from webhook.controllers.placement.writes_in_flight import LEAST_SECONDS, WritesInFlight


class Api:
    """Writes that end when they are told to."""

    def __init__(self, at_a_time: int) -> None:
        self.sent: list[str] = []
        self.ended: list[str] = []
        self.goes = asyncio.Event()
        self.is_written = True
        self._sent = asyncio.Semaphore(0)
        self.writes = WritesInFlight(at_a_time, lambda uid, _: self.ended.append(uid), lambda *_: None)

    def start(self, pod: str, node: str = "", arrival: str | None = None, uid: str = "") -> None:
        async def write() -> bool:
            self.sent.append(pod)
            self._sent.release()
            await self.goes.wait()
            return self.is_written

        self.writes.start(pod, uid or f"uid of {pod}", write, node=node, arrival=arrival)

    async def has_sent(self, count: int) -> None:
        for _ in range(count):
            await self._sent.acquire()

    async def settle(self) -> None:
        self.goes.set()
        await self.writes.settle()


# Pods that come to one node one after the other wait for each other there: the kubelet's order counts.
async def test_nodes_have_turns_and_the_order_on_each_stays() -> None:
    api = Api(1)
    for node in ("n0", "n1", "n2"):
        for number in range(3):
            api.start(f"{node}-{number}", node)
    await api.settle()
    assert api.sent == [f"n{node}-{number}" for number in range(3) for node in range(3)]


async def test_no_more_writes_are_sent_than_the_limit_and_all_end() -> None:
    api = Api(2)
    for number in range(5):
        api.start(f"p{number}")
    await api.has_sent(2)
    assert api.sent == ["p0", "p1"]
    assert all(f"p{number}" in api.writes for number in range(5))
    await api.settle()
    assert api.ended == [f"uid of p{number}" for number in range(5)]
    assert "p0" not in api.writes


async def test_many_writes_are_too_many_to_start_others() -> None:
    api = Api(1)
    for number in range(16):
        assert not api.writes.full
        api.start(f"p{number}")
    assert api.writes.full
    await api.settle()
    assert not api.writes.full


async def test_there_is_room_when_a_quarter_of_a_full_queue_is_free() -> None:
    api = Api(1)
    for number in range(16):
        api.start(f"p{number}")
    waiting = asyncio.create_task(api.writes.wait_for_room())
    await api.has_sent(1)
    assert not waiting.done()
    api.goes.set()
    await waiting
    assert 4 <= len(api.ended) < 16
    await api.settle()
    await asyncio.wait_for(api.writes.wait_for_room(), 10)


async def test_a_cancelled_write_is_followed_by_none() -> None:
    api = Api(1)
    api.start("p0")
    api.start("p1")
    await api.has_sent(1)
    api.writes.cancel()
    await api.settle()
    await asyncio.sleep(0)
    assert (api.sent, "p1" in api.writes) == (["p0"], False)


async def test_pods_that_must_arrive_later_are_written_when_the_ones_before_are_bound_or_take_too_long() -> None:
    api = Api(4)
    api.goes.set()
    for pod, arrival in (("a1", "first"), ("a2", "first"), ("b1", "second"), ("c1", "third")):
        api.start(pod, "n0", arrival)
    await api.has_sent(2)
    await asyncio.sleep(0)
    assert (api.sent, "b1" in api.writes) == (["a1", "a2"], True)
    api.writes.bound_or_gone("a1", "uid of an earlier a1")
    api.writes.bound_or_gone("a2", "uid of a2")
    await asyncio.sleep(0)
    assert api.sent == ["a1", "a2"]
    api.writes.bound_or_gone("a1", "uid of a1")
    await api.has_sent(1)
    assert api.sent == ["a1", "a2", "b1"]
    await asyncio.wait_for(api.has_sent(1), LEAST_SECONDS + 1)  # b1 is never bound
    assert api.sent == ["a1", "a2", "b1", "c1"]


async def test_a_pod_that_was_recreated_under_its_name_is_waited_for_as_long_as_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, timers = Api(4), list[Callable[[], object]]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _, timer, *about: timers.append(partial(timer, *about)))
    api.goes.set()
    api.start("a1", "n0", "first")
    await api.has_sent(1)
    await asyncio.sleep(0)
    api.writes.bound_or_gone("a1", "uid of a1")
    api.start("a1", "n0", "second", uid="uid of the next a1")
    api.start("b1", "n0", "third")
    await api.has_sent(1)
    await asyncio.sleep(0)
    of_the_first, of_the_next = timers
    of_the_first()
    await asyncio.sleep(0)
    assert api.sent == ["a1", "a1"]
    of_the_next()
    await api.has_sent(1)
    assert api.sent == ["a1", "a1", "b1"]


async def test_a_pod_that_was_not_written_holds_up_none() -> None:
    api = Api(4)
    api.goes.set()
    api.is_written = False
    api.start("a1", "n0", "first")
    api.start("b1", "n0", "second")
    await api.has_sent(2)
    assert api.sent == ["a1", "b1"]


async def test_a_write_that_is_cancelled_sends_no_other() -> None:
    api = Api(1)
    for number in range(2):
        api.start(f"p{number}")
    await api.has_sent(1)
    (write,) = (task for task in asyncio.all_tasks() if task.get_name() == "write of p0")
    write.cancel()
    await asyncio.wait([write])
    await asyncio.sleep(0)
    assert (api.sent, api.ended) == (["p0"], [])
    api.writes.cancel()


async def test_pods_are_under_way_until_they_are_bound() -> None:
    writes = WritesInFlight(4, lambda *_: None, lambda *_: None)

    async def write() -> bool:
        return True

    for number in range(3):
        writes.start(f"team/p{number}", f"u{number}", write, "n0", arrival="alike")
    assert writes.under_way == 3
    await asyncio.sleep(0.01)
    assert writes.under_way == 3
    writes.bound_or_gone("team/p0", "u0")
    assert writes.under_way == 2
