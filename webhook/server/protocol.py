"""One connection of a port: aiohttp's protocol with the deadlines that aiohttp does not have.

Phases (see `connections`): the handshake, then by turns idle, reading, answering.
- A request's head has to come within seconds of its first byte; aiohttp waits as long as for an idle connection.
- A body is waited for by who reads it (see `review_handler`), an idle connection by aiohttp (keepalive_timeout).
- An answer that the client does not read is given up; aiohttp would wait without limit.

aiohttp's protocol gets all events as if it stood here itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web

from webhook.server.connections import Closed, Connection, Connections, Phase

# Heads have some hundred bytes, which come in one packet. 10 s are three retransmissions of it (1, 2 and 4 s).
HEAD_SECONDS: Final = 10.0
# Likewise an answer, of some kilobytes; metrics of some hundred.
ANSWER_SECONDS: Final = 10.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedConnection(Connection, asyncio.Protocol):
    """Between the transport and aiohttp's protocol."""

    __slots__ = ("_connections", "_inner", "_loop", "_make_inner", "_timer", "_transport", "establishing")

    def __init__(self, source: str, connections: Connections, inner: Callable[[], asyncio.Protocol]) -> None:
        """Inner: makes aiohttp's protocol, once there is something for it to do."""
        super().__init__(source)
        self._connections = connections
        self._make_inner = inner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.establishing: asyncio.Task[None] | None = None
        """Until the connection is made."""

    def close(self, why: Closed) -> None:
        """End it at once."""
        del why
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()
        elif self.establishing is not None:
            self.establishing.cancel()

    def begin(self) -> None:
        """A request's head is complete."""
        self._stop_timer()

    def complete(self) -> None:
        """A request's body is complete, too, and is not kept."""
        self._connections.enter(self, Phase.ANSWERING)

    def finish(self) -> None:
        """A request is answered."""
        self._connections.enter(self, Phase.IDLE)

    def give_up(self, why: Closed) -> None:
        """Nothing more can be done for the client."""
        self._connections.close(self, why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is established."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's have another base
        self._inner = self._make_inner()
        self._connections.enter(self, Phase.IDLE)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._stop_timer()
        self._connections.remove(self)
        self._inner.connection_lost(exc)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Something came."""
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
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._inner.resume_writing()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection_of(request: web.BaseRequest) -> ServedConnection | None:
    """The connection that a request came by; None where it ended, or is not of a `Listener`."""
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, ServedConnection) else None


@web.middleware
async def within_deadlines(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep the connection's phase, and write the answer before the handler ends, so that it can be given up."""
    connection = connection_of(request)
    if connection is None:
        return await handler(request)
    connection.begin()
    if not request.body_exists:
        connection.complete()
    try:
        response = await _answer(request, handler)
        async with asyncio.timeout(ANSWER_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        connection.give_up(Closed.SLOW_READER)
    except ConnectionError as error:
        error.with_traceback(None)  # the request keeps the exception: its frames would keep all that was read
        return web.Response(status=HTTPStatus.BAD_REQUEST)  # the client has gone; aiohttp finds out for itself
    finally:
        connection.finish()
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # no such path, no such method
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return web.Response(status=error.status, text=f"{error.status}: {error.reason}\n", headers=allowed)
