"""Tells open pages that the cluster has changed. They then read again what they show.

Server-sent events (HTML Living Standard, section 9.2). An event holds no data of the cluster, so a stream costs the
same on 5 and on 5,000 nodes:
1. A change marks all streams.
2. A marked stream sends `changed`, at once if its last event was sent over a second ago.
3. A stream without changes sends a comment every 15 s, so that proxies keep it open and a dead client is noticed.
"""

import asyncio
from asyncio import sleep as pause
from typing import Final

from aiohttp import web

from webhook.signal import Signal

PAUSE_SECONDS: Final = 1.0
"""Between two events of a stream. A person does not read faster, and a change must be seen within 2 s."""
QUIET_SECONDS: Final = 15.0
"""Recommended by the standard (9.2.7, authoring notes)."""
_WRITE_SECONDS: Final = 10.0
"""A client that does not read is given up after this time; see ANSWER_SECONDS of the server's protocol."""
MAX_STREAMS: Final = 32
"""People with the page open, each with a tab or two. The port takes twice as many connections."""


class ChangeStream:
    """The open streams."""

    def __init__(self, changed: Signal[[]]) -> None:
        self._marks: set[asyncio.Event] = set()
        self._closing = False
        changed.subscribe(self._mark)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send events until the client leaves. 503 if there are too many streams."""
        if len(self._marks) >= MAX_STREAMS:
            text = f"{MAX_STREAMS} pages are open; this one does not follow changes.\n"
            return web.Response(status=503, text=text, headers={"Retry-After": "30"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        mark = asyncio.Event()
        mark.set()  # what changed since the page was read
        self._marks.add(mark)
        try:
            await response.prepare(request)
            while not self._closing:
                await self._send_next(response, mark)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            self._marks.discard(mark)
        return response

    async def close(self, application: web.Application) -> None:
        """End all streams; for `Application.on_shutdown`."""
        del application
        self._closing = True
        self._mark()

    async def _send_next(self, response: web.StreamResponse, mark: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await mark.wait()
        except TimeoutError:
            await _write(response, b": no change\n\n")
            return
        mark.clear()
        if not self._closing:
            await _write(response, b"event: changed\ndata: changed\n\n")
            await pause(PAUSE_SECONDS)

    def _mark(self) -> None:
        for mark in self._marks:
            mark.set()


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await response.write(data)
