"""One connection of a port: aiohttp's protocol with additional deadlines.

Phases (see `connections`): the handshake, then idle, reading and answering in turn.
- A request's head must be complete within seconds of its first byte; aiohttp waits as long as for an idle
  connection.
- The reader of a body has its own deadline (see `review_handler`); aiohttp closes idle connections
  (keepalive_timeout).
- A connection whose client does not read an answer is closed; aiohttp would wait without limit.

Under aiohttp's own TCPSite, a head that did not end and an answer that was not read each held a connection for as long
as was tried (25 s). All events are passed on to aiohttp's protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web

from webhook.server.connections import Closed, Connection, Connections, Phase

# Heads have a few hundred bytes in one packet. 10 s allow three retransmissions of it (1, 2 and 4 s).
HEAD_SECONDS: Final = 10.0
# The same for an answer of a few kilobytes, or metrics of a few hundred: so long may the client take to make room for
# what is left of it. An answer for which the client has room needs no deadline.
ANSWER_SECONDS: Final = 10.0

HTTPHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedConnection(Connection, asyncio.Protocol):
    """A layer between the transport and aiohttp's protocol."""

    __slots__ = (
        "_connections",
        "_inner",
        "_loop",
        "_make_inner",
        "_timer",
        "_transport",
        "_write_timer",
        "client_names",
        "establishing",
    )

    def __init__(self, source: str, connections: Connections, inner: Callable[[], asyncio.Protocol]) -> None:
        """inner: creates aiohttp's protocol when the first bytes arrive."""
        super().__init__(source)
        self._connections = connections
        self._make_inner = inner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self.client_names: frozenset[str] | None = None
        """The names in the client's certificate; None until a request needs them."""
        self.establishing: asyncio.Task[None] | None = None
        """None until the connection is made."""

    def close(self, why: Closed) -> None:
        """Close it at once."""
        del why
        self._stop_timers()
        if self._transport is not None:
            self._transport.abort()
        elif self.establishing is not None:
            self.establishing.cancel()

    def begin(self) -> None:
        """A request's head is complete."""
        self._stop_timer()

    def complete(self) -> None:
        """A request's body is complete, and we no longer hold it."""
        self._connections.enter(self, Phase.ANSWERING)

    def finish(self) -> None:
        """A request is answered."""
        self._connections.enter(self, Phase.IDLE)

    def give_up(self, why: Closed) -> None:
        """Close the connection: the client can no longer be served."""
        self._connections.close(self, why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is established."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports have another base class
        self._inner = self._make_inner()
        self._connections.enter(self, Phase.IDLE)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_timers()
        self._connections.remove(self)
        self._inner.connection_lost(exc)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self.phase is Phase.IDLE:
            self._connections.enter(self, Phase.READING)
            self._timer = self._loop.call_later(HEAD_SECONDS, self.give_up, Closed.SLOW_REQUEST)
        if self.phase is Phase.READING:
            self._connections.take(self, len(data))
        if self._transport is not None and not self._transport.is_closing():
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        if self._write_timer is None:
            self._write_timer = self._loop.call_later(ANSWER_SECONDS, self.give_up, Closed.SLOW_READER)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stop_write_timer()
        self._inner.resume_writing()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        self._stop_write_timer()


def connection_of(request: web.BaseRequest) -> ServedConnection | None:
    """The connection of a request; None if it was closed, or does not belong to a `Listener`."""
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, ServedConnection) else None


@web.middleware
async def within_deadlines(request: web.Request, handler: HTTPHandler) -> web.StreamResponse:
    """Track the connection's phase, and write the answer before the handler returns: the phase lasts until then."""
    connection = connection_of(request)
    if connection is None:
        return await handler(request)
    connection.begin()
    if not request.body_exists:
        connection.complete()
    try:
        response = await _answer(request, handler)
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError as error:
        error.with_traceback(None)  # the request keeps the exception, whose frames would keep all bytes read
        return web.Response(status=HTTPStatus.BAD_REQUEST)  # the client is gone; aiohttp notices by itself
    finally:
        connection.finish()
    return response


async def _answer(request: web.Request, handler: HTTPHandler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # unknown path or method
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return web.Response(status=error.status, text=f"{error.status}: {error.reason}\n", headers=allowed)
