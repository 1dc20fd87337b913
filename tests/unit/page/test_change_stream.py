"""Open pages are told of changes, each at most once a second, and no more pages than there are streams."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import ClientResponse, web
from pytest_aiohttp.plugin import AiohttpClient

from webhook.page import change_stream
from webhook.page.change_stream import MAX_STREAMS, ChangeStream
from webhook.signal import Signal

EVENT = b"event: changed\ndata: changed\n\n"


class Streams:
    """A server with a change stream at /."""

    def __init__(self, open_stream: Callable[[], Awaitable[ClientResponse]], changed: Signal[[]]) -> None:
        self.open = open_stream
        self.changed = changed


@pytest.fixture
async def streams(aiohttp_client: AiohttpClient, monkeypatch: pytest.MonkeyPatch) -> Streams:
    monkeypatch.setattr(change_stream, "PAUSE_SECONDS", 0.001)
    changed = Signal[[]]()
    stream = ChangeStream(changed)
    app = web.Application()
    app.router.add_get("/", stream.handle)
    app.on_shutdown.append(stream.close)
    client = await aiohttp_client(app)
    return Streams(lambda: client.get("/"), changed)


async def test_a_new_stream_and_every_change_send_an_event(streams: Streams) -> None:
    response = await streams.open()
    assert response.headers["Content-Type"] == "text/event-stream"
    assert await response.content.readexactly(len(EVENT)) == EVENT
    for _ in range(3):
        streams.changed.emit()
        assert await response.content.readexactly(len(EVENT)) == EVENT
    response.close()


async def test_changes_during_the_pause_send_one_event(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def pause(_: float) -> None:
        waiting.set()
        await go_on.wait()

    monkeypatch.setattr(change_stream, "pause", pause)
    monkeypatch.setattr(change_stream, "QUIET_SECONDS", 0.001)
    response = await streams.open()
    await response.content.readexactly(len(EVENT))
    await waiting.wait()
    for _ in range(5):
        streams.changed.emit()
    go_on.set()
    assert await response.content.readexactly(len(EVENT)) == EVENT
    assert await response.content.readuntil(b"\n\n") == b": no change\n\n"
    response.close()


async def test_a_quiet_stream_sends_comments(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "QUIET_SECONDS", 0.001)
    response = await streams.open()
    await response.content.readexactly(len(EVENT))
    assert await response.content.readuntil(b"\n\n") == b": no change\n\n"
    response.close()


async def test_more_pages_than_streams_are_told_to_try_again(streams: Streams) -> None:
    opened = [await streams.open() for _ in range(MAX_STREAMS)]
    refused = await streams.open()
    assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
    for response in opened:
        response.close()
    # A stream notices at its next write that its client is gone.
    async with asyncio.timeout(30):
        while (again := await streams.open()).status == 503:
            streams.changed.emit()
    again.close()
