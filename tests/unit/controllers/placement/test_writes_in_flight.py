"""The order and limit of writes, in which order pods are ungated, and how long those of a node wait for a binding."""

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from webhook.controllers.placement.writes_in_flight import (
    LEAST_SECONDS,
    MOST_SECONDS,
    BindingPace,
    UngateOrder,
    WritesInFlight,
)


class FakeApi:
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

    def is_full(self) -> bool:
        return self.writes.full

    async def has_sent(self, count: int) -> None:
        for _ in range(count):
            await self._sent.acquire()

    async def settle(self) -> None:
        self.goes.set()
        await self.writes.settle()


# Pods that come to one node one after the other wait for each other there: the kubelet's order counts.
async def test_nodes_have_turns_and_the_order_on_each_stays() -> None:
    api = FakeApi(1)
    for node in ("n0", "n1", "n2"):
        for number in range(3):
            api.start(f"{node}-{number}", node)
    await api.settle()
    assert api.sent == [f"n{node}-{number}" for number in range(3) for node in range(3)]


async def test_no_more_writes_are_sent_than_the_limit_and_all_end() -> None:
    api = FakeApi(2)
    for number in range(5):
        api.start(f"p{number}")
    await api.has_sent(2)
    assert api.sent == ["p0", "p1"]
    assert all(f"p{number}" in api.writes for number in range(5))
    await api.settle()
    assert api.ended == [f"uid of p{number}" for number in range(5)]
    assert "p0" not in api.writes


async def test_many_writes_are_too_many_to_start_others_until_a_quarter_of_a_full_queue_is_free() -> None:
    api = FakeApi(1)
    for number in range(16):
        assert not api.is_full()
        api.start(f"p{number}")
    assert api.is_full()
    waiting = asyncio.create_task(api.writes.wait_for_room())
    await api.has_sent(1)
    assert not waiting.done()
    api.goes.set()
    await waiting
    assert 4 <= len(api.ended) < 16
    await api.settle()
    assert not api.is_full()
    await asyncio.wait_for(api.writes.wait_for_room(), 10)


async def test_pods_that_must_arrive_later_are_written_when_the_ones_before_are_bound_or_take_too_long() -> None:
    api = FakeApi(4)
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
    api, timers = FakeApi(4), list[Callable[[], object]]()
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
    api = FakeApi(4)
    api.goes.set()
    api.is_written = False
    api.start("a1", "n0", "first")
    api.start("b1", "n0", "second")
    await api.has_sent(2)
    assert api.sent == ["a1", "b1"]


@pytest.mark.parametrize("cancelled", ["the write", "all"])
async def test_a_cancelled_write_is_followed_by_none(cancelled: str) -> None:
    api = FakeApi(1)
    for number in range(2):
        api.start(f"p{number}")
    await api.has_sent(1)
    (write,) = (task for task in asyncio.all_tasks() if task.get_name() == "write of p0")
    if cancelled == "all":
        api.writes.cancel()
        await api.settle()
        assert "p1" not in api.writes
    else:
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


def pace_after(*seconds: float) -> BindingPace:
    """Pods that were bound after these times, one after the other."""
    pace, now = BindingPace(), 0.0
    for number, each in enumerate(seconds):
        pace.ungated(f"p{number}", now)
        now += each
        pace.bound_or_gone(f"p{number}", now)
    return pace


def test_without_a_binding_the_wait_is_short() -> None:
    assert BindingPace().patience == LEAST_SECONDS
    assert pace_after(0.02, 0.03).patience == LEAST_SECONDS


def test_the_wait_is_twice_what_the_last_ones_took_within_bounds() -> None:
    assert pace_after(1.0).patience == pytest.approx(2.0)
    assert pace_after(4.0).patience == MOST_SECONDS


def test_after_a_slow_one_the_wait_shrinks_again() -> None:
    assert pace_after(1.0, *[0.02] * 5).patience == pytest.approx(2 * 0.9**5)
    assert pace_after(4.0, *[0.02] * 40).patience == LEAST_SECONDS


def test_a_pod_that_is_never_bound_is_forgotten() -> None:
    pace = BindingPace()
    pace.ungated("never", 0.0)
    pace.ungated("next", MOST_SECONDS + 1)
    pace.bound_or_gone("never", 1000.0)
    assert pace.patience == LEAST_SECONDS
    pace.bound_or_gone("unknown", 1000.0)
    assert pace.patience == LEAST_SECONDS


def all_now(order: UngateOrder[None]) -> Iterator[str]:
    """The pods that may go now."""
    while (following := order.pop()) is not None:
        yield following[0]


def queued_pods(*pods: tuple[str, str, str | None]) -> UngateOrder[None]:
    """Queued pods: (node, pod, arrival class)."""
    order = UngateOrder[None]()
    for node, pod, arrival in pods:
        order.put(node, pod, None, arrival)
    return order


# n0: a1 a2 before b1, n1: a3 before b2
def test_a_node_s_next_class_goes_when_all_of_the_one_before_have_arrived() -> None:
    order = queued_pods(("n0", "a1", "a"), ("n0", "a2", "a"), ("n0", "b1", "b"), ("n1", "a3", "a"), ("n1", "b2", "b"))
    assert list(all_now(order)) == ["a1", "a3", "a2"]
    assert order.held == 2
    assert not order.arrived("a1")
    assert list(all_now(order)) == []
    assert order.arrived("a2")
    assert list(all_now(order)) == ["b1"]
    assert order.arrived("a3")
    assert (list(all_now(order)), order.held) == (["b2"], 0)


def test_a_class_that_comes_back_waits_for_the_one_between() -> None:
    order = queued_pods(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "a2", "a"))
    assert list(all_now(order)) == ["a1"]
    order.arrived("a1")
    assert list(all_now(order)) == ["b1"]
    assert order.held == 1


def test_a_pod_without_a_class_waits_for_none_and_holds_up_none() -> None:
    order = queued_pods(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "free", None))
    assert list(all_now(order)) == ["a1", "free"]
    order.arrived("a1")
    assert list(all_now(order)) == ["b1"]


def test_a_pod_that_arrived_before_it_was_queued_again_is_waited_for_again() -> None:
    order = queued_pods(("n0", "a1", "a"))
    assert list(all_now(order)) == ["a1"]
    order.arrived("a1")
    order.put("n0", "a1", None, "a")
    order.put("n0", "b1", None, "b")
    assert list(all_now(order)) == ["a1"]
    assert not order.arrived("unknown")


def test_when_none_is_waited_for_the_next_class_goes() -> None:
    order = queued_pods(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "c1", "c"))
    assert list(all_now(order)) == ["a1"]
    order.let_all_go()
    assert list(all_now(order)) == ["b1"]
    order.clear()
    order.let_all_go()
    assert (list(all_now(order)), order.held) == ([], 0)


def test_in_any_sequence_each_pod_goes_once_in_order_and_beside_its_own_class_only() -> None:
    dice = random.Random(3)  # noqa: S311 - not for cryptography
    order, gone = UngateOrder[None](), []
    queued: dict[str, tuple[str, str | None]] = {}
    on_way: dict[str, tuple[str, str | None]] = {}
    for turn in range(3000):
        what = dice.random()
        if what < 0.4:
            node, arrival = f"n{dice.randrange(4)}", dice.choice(["a", "b", None])
            order.put(node, str(turn), None, arrival)
            queued[str(turn)] = node, arrival
        elif what < 0.8 and (following := order.pop()) is not None:
            pod = following[0]
            node, arrival = lane = queued.pop(pod)
            earlier = [one for one, at in queued.items() if at[0] == node and (at[1] is None) == (arrival is None)]
            assert all(int(pod) < int(one) for one in earlier)
            gone.append(pod)
            if arrival is not None:
                assert {at for at in on_way.values() if at[0] == node} <= {lane}
                on_way[pod] = lane
        elif on_way:
            pod = dice.choice(sorted(on_way))
            del on_way[pod]
            order.arrived(pod)
    held = sum(
        arrival is not None and any(at[0] == node for at in on_way.values()) for node, arrival in queued.values()
    )
    assert order.held <= held
    assert len(gone) > 500
