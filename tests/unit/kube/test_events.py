"""Events that wait to be written: in a burst until it is over, by namespaces in turn, and none without limit."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from webhook.kube import events
from webhook.kube.events import EventRecorder, PodEvent, event_object

DELAY = 0.4


class FakeRecorder:
    """A recorder whose Events arrive in a list. busy: whether a burst goes on."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.busy = True
        self._changed = asyncio.Event()
        client: Any = self
        self.events = EventRecorder(client, "test")

    async def add(self, path: str, body: dict[str, Any]) -> None:
        del path
        self.arrived.append(body["reason"])
        self._changed.set()

    def tell(self, reason: str, number: int = 0, **how: Any) -> None:
        self.events.tell(PodEvent(f"team/p{number}", "u", reason, "text", "Assign", **how))

    async def until(self, done: Callable[[], bool]) -> None:
        run = asyncio.create_task(self.events.run(lambda: self.busy))
        async with asyncio.timeout(20):
            while not done():
                await self._changed.wait()
                self._changed.clear()
        run.cancel()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> FakeRecorder:
    monkeypatch.setattr(events, "_BUSY_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(events, "_LONGEST_DELAY_SECONDS", DELAY)
    return FakeRecorder()


async def test_they_are_written_when_the_burst_is_over(recorder: FakeRecorder) -> None:
    def the_burst_ends() -> None:
        assert recorder.arrived == []
        recorder.busy = False

    recorder.tell("Assigned")
    asyncio.get_running_loop().call_later(DELAY / 4, the_burst_ends)
    await recorder.until(lambda: recorder.arrived == ["Assigned"])


async def test_a_burst_that_goes_on_delays_them_for_a_while_only(recorder: FakeRecorder) -> None:
    began = asyncio.get_running_loop().time()
    recorder.tell("Assigned")
    recorder.tell("Assigned", 1)
    await recorder.until(lambda: len(recorder.arrived) == 2)
    assert asyncio.get_running_loop().time() - began >= DELAY


async def test_a_warning_does_not_wait_and_none_is_dropped_because_it_waits(
    recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_LONGEST_DELAY_SECONDS", 1000.0)
    recorder.tell("Assigned")
    recorder.tell("WaitsLong", type="Warning")
    await recorder.until(lambda: len(recorder.arrived) == 2)
    monkeypatch.setattr(events, "_WAITING", 4)
    for number in range(1, 3):
        recorder.tell("Assigned", number)
    await recorder.until(lambda: len(recorder.arrived) == 3)


def test_no_more_of_a_note_is_kept_than_an_event_takes() -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    for end in ("a", "b"):
        recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", "x" * 250_000 + end, "Assign"))
    recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", "short", "Assign"))
    cut = "x" * 1021 + "..."
    assert [recorder._waiting.pop()[0].note for _ in range(2)] == [cut, "short"]
    assert not recorder._waiting
    assert {event.note for event in recorder._told} == {cut, "short"}


@pytest.mark.parametrize("end", ["", "x", "xx", "xxx"])
def test_the_length_of_a_note_counts_bytes_and_no_character_is_cut_in_two(end: str) -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", end + "🌲" * 300, "Assign"))
    event, _ = recorder._waiting.pop()
    assert 1020 < len(event.note.encode()) <= 1024
    assert (end + "🌲" * 300).startswith(event.note.removesuffix("..."))


def test_the_name_of_an_event_about_a_long_name_is_valid() -> None:
    name = "a" * 229 + "." + "b" * 20
    event = event_object({"name": name, "namespace": "ns"}, "Assigned", "", "Assign", "Normal", "replica")
    assert re.fullmatch(r"a{229}\.[0-9a-f]{16}", event["metadata"]["name"])


def test_a_namespace_that_has_thousands_of_events_costs_another_ones_event_neither_its_place_nor_its_turn() -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    recorder.tell(PodEvent("honest/p", "u", "Assigned", "first", "Assign"))
    for number in range(5_000):
        recorder.tell(PodEvent(f"busy/p{number}", "u", "WaitingForPlacement", "waits", "Assign"))
    recorder.tell(PodEvent("honest/q", "u", "Assigned", "second", "Assign"))
    next_ones = [recorder._waiting.pop()[0].key for _ in range(3)]
    assert next_ones == ["honest/p", "busy/p4002", "honest/q"]
    assert len(recorder._waiting) == 997
