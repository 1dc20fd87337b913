"""Events of a burst wait until it is over, and nothing waits without limit."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from webhook.kube import events
from webhook.kube.events import EventRecorder, PodEvent

DELAY = 0.4


class Recorder:
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
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(events, "_BUSY_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(events, "_LONGEST_DELAY_SECONDS", DELAY)
    return Recorder()


async def test_they_are_written_when_the_burst_is_over(recorder: Recorder) -> None:
    def the_burst_ends() -> None:
        assert recorder.arrived == []
        recorder.busy = False

    recorder.tell("Assigned")
    asyncio.get_running_loop().call_later(DELAY / 4, the_burst_ends)
    await recorder.until(lambda: recorder.arrived == ["Assigned"])


async def test_a_burst_that_goes_on_delays_them_for_a_while_only(recorder: Recorder) -> None:
    began = asyncio.get_running_loop().time()
    recorder.tell("Assigned")
    recorder.tell("Assigned", 1)
    await recorder.until(lambda: len(recorder.arrived) == 2)
    assert asyncio.get_running_loop().time() - began >= DELAY


async def test_a_warning_does_not_wait(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LONGEST_DELAY_SECONDS", 1000.0)
    recorder.tell("Assigned")
    recorder.tell("WaitsLong", type="Warning")
    await recorder.until(lambda: len(recorder.arrived) == 2)


async def test_none_is_dropped_because_it_waits(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LONGEST_DELAY_SECONDS", 1000.0)
    monkeypatch.setattr(events, "_WAITING", 4)
    recorder.tell("Assigned")
    recorder.tell("Assigned", 1)
    await recorder.until(lambda: len(recorder.arrived) == 1)
