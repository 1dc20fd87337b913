"""A port that stops in two steps: first it accepts no new connections, then it finishes requests in flight.

We accept connections here instead of in an asyncio server: which one to close above the limit (`Connections`) must
be decided before the TLS handshake, which costs a millisecond and a hundred kilobytes. aiohttp's own server has no
limit: when one client held 1,500 idle connections and all file descriptors, an honest call got no answer within 10 s.

Phases of a connection (`Phase`): the handshake, then idle, reading and answering in turn. To aiohttp's protocol,
`ServedConnection` adds deadlines.
"""

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import structlog
from aiohttp import web

from webhook.internal_errors import LogLimit, Where, internal_error

# Usually the first address has a connection to close. It has none only while all of them wait for answers.
_LOOKED_AT: Final = 3
# Heads have a few hundred bytes in one packet. 10 s allow three retransmissions of it (1, 2 and 4 s).
HEAD_SECONDS: Final = 10.0
# The same for an answer of a few kilobytes, or metrics of a few hundred: so long may the client take to make room for
# what is left of it. An answer for which the client has room needs no deadline.
ANSWER_SECONDS: Final = 10.0
# The API server (Go's HTTP client) drops idle connections after 90 s. It must close them first: a request sent into a
# connection that we are closing would be lost.
_KEEPALIVE_SECONDS: Final = 120.0
# A handshake takes two round trips and a millisecond of computing.
_HANDSHAKE_SECONDS: Final = 5.0
# A client that does not answer our closing message is disconnected after this time.
_SHUTDOWN_SECONDS: Final = 1.0
# After rejecting a body we read its rest for this long, so that the client sees the answer and not a reset.
_LINGERING_SECONDS: Final = 1.0
# The API server opens one connection for each create in flight (HTTP/1.1): we must accept 1,000 at once.
_BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 64
# Memory that each connection can fill: the kernel's buffer (it takes twice the number), read at once, and aiohttp's
# buffer before a body is read (twice the number). A body of 20 KB, a large review, fits.
_RECEIVE_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 16 * 1024
# The API server sends ten header fields of at most a few hundred bytes.
_HEAD_LINE_BYTES: Final = 4096
_HEAD_LINES: Final = 32
# How a socket for both families shows an IPv4 client.
_IPV4_IN_IPV6: Final = "::ffff:"


class Phase(IntEnum):
    """What a connection is doing; the lowest phase is closed first."""

    HANDSHAKE = 0
    """TLS is not established, or a required client certificate is not verified yet."""
    READING = 1
    """A request is partly received."""
    IDLE = 2
    """Nothing was received since the last answer."""
    ANSWERING = 3
    """A request is received completely, but not answered."""


class Closed(Enum):
    """Why we closed a connection: the label in metrics, and a sentence."""

    HANDSHAKE = "handshake", "its TLS handshake failed or did not end in time"
    SLOW_REQUEST = "slow-request", "its request did not come in time"
    SLOW_READER = "slow-reader", "it did not read its answer in time"
    TOO_MANY = "too-many-connections", "the port has too many connections, and this address has most of them"
    TOO_MUCH = "too-many-bytes", "unfinished requests hold too much memory, and this address holds most of it"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


class Connection(ABC):
    """One connection and its share of the limits."""

    __slots__ = ("held", "phase", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.phase = Phase.HANDSHAKE
        self.held = 0
        """Bytes of its unfinished request."""

    @abstractmethod
    def close(self, why: Closed) -> None:
        """Close it at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one port."""

    connections: int
    bytes: int
    """Bytes of all unfinished requests together."""


class Connections:
    """The connections of one port: their number, the bytes of unfinished requests, and what to close above the limits.

    The source address that uses most loses a connection. If a full port rejected new connections instead, any client
    could lock out the API server by opening enough of them:
    - too many connections: the address with most of them loses the least valuable one (see `Phase`);
    - too many bytes: the address that holds most of them loses its oldest unfinished request.
    An API server sends a request at once and has few connections. It is affected only if it shares an address with the
    attacker, and then last, because its requests are complete within milliseconds.

    A connection that waits for our answer is never closed. If there is nothing else to close, a new one is rejected.
    """

    def __init__(self, limits: Limits, closed: Callable[[Closed, str], None]) -> None:
        """closed: called for each connection that we close, with the reason and the source address."""
        self._limits = limits
        self._closed = closed
        # For each address and phase, in the order in which they entered it: the first one is the oldest.
        self._of: dict[str, tuple[dict[Connection, None], ...]] = {}
        self._count: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._total = self._total_held = 0

    def __len__(self) -> int:
        return self._total

    @property
    def held(self) -> int:
        """Bytes of unfinished requests."""
        return self._total_held

    def admit(self, connection: Connection) -> bool:
        """Add a connection; False if it must be closed at once because nothing else can be."""
        source = connection.source
        self._of.setdefault(source, tuple({} for _ in Phase))[connection.phase][connection] = None
        self._count[source] += 1
        self._total += 1
        if self._total <= self._limits.connections:
            return True
        # The new connection is the last candidate of its own address, and another address may have more.
        for most, _ in self._count.most_common(_LOOKED_AT):
            for phase in (Phase.HANDSHAKE, Phase.READING, Phase.IDLE):
                oldest = next(iter(self._of[most][phase]), None)
                if oldest is connection:
                    continue
                if oldest is not None:
                    self.close(oldest, Closed.TOO_MANY)
                    return True
            if most == source:
                break
        self.remove(connection)
        self._closed(Closed.TOO_MANY, source)
        return False

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Move the connection to another phase. Its bytes stay counted until its request is complete."""
        phases = self._of.get(connection.source)
        if phases is None or connection not in phases[connection.phase]:
            return  # closed in the meantime
        del phases[connection.phase][connection]
        connection.phase = phase
        phases[phase][connection] = None
        if phase is not Phase.READING:
            self._hold(connection, -connection.held)

    def take(self, connection: Connection, size: int) -> None:
        """Count bytes received for the connection's request."""
        self._hold(connection, size)
        while self._total_held > self._limits.bytes:
            most = max(self._held, key=self._held.__getitem__)
            oldest = next(iter(self._of[most][Phase.READING]), None)
            if oldest is None:
                return
            self.close(oldest, Closed.TOO_MUCH)

    def close(self, connection: Connection, why: Closed) -> None:
        """Close a connection."""
        self.remove(connection)
        self._closed(why, connection.source)
        connection.close(why)

    def remove(self, connection: Connection) -> None:
        """The connection was closed by either side."""
        source = connection.source
        phases = self._of.get(source)
        if phases is None or connection not in phases[connection.phase]:
            return
        self._hold(connection, -connection.held)
        del phases[connection.phase][connection]
        self._total -= 1
        self._count[source] -= 1
        if not self._count[source]:
            del self._of[source], self._count[source]

    def _hold(self, connection: Connection, size: int) -> None:
        source = connection.source
        connection.held += size
        self._held[source] += size
        self._total_held += size
        if not self._held[source]:
            del self._held[source]


HTTPHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedConnection(Connection, asyncio.Protocol):
    """One connection of a port: a layer between the transport and aiohttp's protocol, with additional deadlines.

    - A request's head must be complete within seconds of its first byte; aiohttp waits as long as for an idle
      connection.
    - The reader of a body has its own deadline (see `review_handler`); aiohttp closes idle connections
      (keepalive_timeout).
    - A connection whose client does not read an answer is closed; aiohttp would wait without limit.

    Under aiohttp's own TCPSite, a head that did not end and an answer that was not read each held a connection for as
    long as was tried (25 s). All events are passed on to aiohttp's protocol.
    """

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


log = structlog.get_logger(__name__)


REVIEW_LIMITS: Final = Limits(connections=1024, bytes=16 * 1024 * 1024)
"""An API server has at most a few hundred requests in flight (--max-mutating-requests-inflight is 200, and 600 with all
priority levels) and 25 idle connections (client-go). The limit fits two of the largest reviews, which are very rare,
at a time.
"""
OBSERVATION_LIMITS: Final = Limits(connections=64, bytes=1024 * 1024)
"""For a kubelet and a few scrapers, whose requests have no body."""

Told = Callable[[Closed], None]
"""Counts a connection that we closed."""


# aiohttp would log a traceback for each request that is not HTTP.
_http_log: Final = logging.getLogger(f"{__name__}.http")
_http_lines: Final = LogLimit(1 / 60, 1)
_http_log.addFilter(lambda _: _http_lines.take() is not None)


class Listener:
    """One aiohttp application on one port."""

    def __init__(
        self,
        application: web.Application,
        finish_seconds: float,
        *,
        name: str = "reviews",
        limits: Limits = REVIEW_LIMITS,
        told: Told | None = None,
        head_line_bytes: int = _HEAD_LINE_BYTES,
    ) -> None:
        """`name` is used in log lines; `told` counts connections that we close. head_line_bytes: of a header field."""
        self._name = name
        self._told = told
        self.connections = Connections(limits, self._closed)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_http_log,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            shutdown_timeout=finish_seconds,
            read_bufsize=_READ_BYTES,
            auto_decompress=False,  # the API server compresses nothing, and a bomb would
            max_line_size=head_line_bytes,
            max_field_size=head_line_bytes,
            max_headers=_HEAD_LINES,
        )
        self._socket: socket.socket | None = None
        self._context: ssl.SSLContext | None = None
        self._establishing: set[asyncio.Task[None]] = set()
        self._log_limits = {why: LogLimit(1 / 60, 1) for why in Closed}
        self.port = 0

    async def open(self, address: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """Listen; port 0 takes a free port, which `port` then returns. Raises OSError with address and port.

        `::` takes IPv4 as well, and IPv4 alone on a host without IPv6.
        """
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        if address == "::" and not socket.has_dualstack_ipv6():
            address = "0.0.0.0"  # noqa: S104 # what :: means where there is no IPv6
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        self._context = context
        listening = socket.socket(family, kind, protocol)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # else a sysctl decides
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        try:
            listening.bind(place)
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            reason = f"cannot listen on {address} port {port}: {(error.strerror or '').lower()}"
            raise OSError(error.errno, reason) from error
        self._socket = listening
        self.port = listening.getsockname()[1]
        loop.add_reader(listening.fileno(), self._accept)

    async def close(self) -> None:
        """Accept nothing more, close idle connections, and wait up to `finish_seconds` for requests in flight."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for task in list(self._establishing):
            task.cancel()
        await asyncio.gather(*self._establishing, return_exceptions=True)
        await self._runner.cleanup()

    def _accept(self) -> None:
        assert self._socket is not None  # noqa: S101 # the reader exists as long as the socket
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors left: retry when connections end
                log.warning("connection.not_accepted", port=self._name, error=str(error))
                return
            accepted.setblocking(False)
            server = self._runner.server
            assert server is not None  # noqa: S101 # as long as there is a socket
            source = address[0].removeprefix(_IPV4_IN_IPV6)
            connection = ServedConnection(source, self.connections, server)
            if not self.connections.admit(connection):
                accepted.close()
                continue
            task = asyncio.get_running_loop().create_task(self._establish(accepted, connection))
            connection.establishing = task
            self._establishing.add(task)
            task.add_done_callback(partial(self._established, accepted, connection))

    async def _establish(self, accepted: socket.socket, connection: ServedConnection) -> None:
        """Do the TLS handshake if the port uses TLS; after that the connection runs by itself."""
        secured = self._context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if secured else None,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if secured else None,
            )
        except OSError:  # includes TLS errors
            self.connections.close(connection, Closed.HANDSHAKE)
            accepted.close()

    def _established(self, accepted: socket.socket, connection: ServedConnection, task: asyncio.Task[None]) -> None:
        self._establishing.discard(task)
        connection.establishing = None
        if task.cancelled():  # closed above the limit, or the port closes
            self.connections.remove(connection)
            accepted.close()
        elif (error := task.exception()) is not None:
            internal_error(Where.CONNECTION, error, port=self._name)
            self.connections.remove(connection)
            accepted.close()

    def _closed(self, why: Closed, source: str) -> None:
        if self._told is not None:
            self._told(why)
        if (left_out := self._log_limits[why].take()) is not None:
            log.warning("connection.closed", port=self._name, source=source, reason=why.sentence, left_out=left_out)
