"""A port that serves, and stops in two steps: first no new connections, then no requests in flight.

Connections are accepted here, not by an asyncio server: who is to go when there are too many (see `connections`) has to
be known before the TLS handshake, which costs a millisecond and a hundred kilobytes.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from aiohttp import web

from webhook.internal_errors import Where, internal_error
from webhook.log_limit import LogLimit
from webhook.server.connections import Closed, Connections, Limits
from webhook.server.protocol import ServedConnection

log = structlog.get_logger(__name__)

# The API server (Go's HTTP client) drops idle connections after 90 s. It must be the one to do so: a request sent into
# a connection that we are just closing would be lost.
_KEEPALIVE_SECONDS: Final = 120.0
# A handshake is two round trips and a millisecond of computing.
_HANDSHAKE_SECONDS: Final = 5.0
# A client that does not answer our goodbye is left.
_SHUTDOWN_SECONDS: Final = 1.0
# The rest of a body that was refused is read for so long, so that the client sees the answer and not a reset.
_LINGERING_SECONDS: Final = 1.0
# The API server opens as many connections as it has creates in flight (HTTP/1.1): 1,000 at once are not to be refused.
_BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 64
# What a connection holds without being asked: the kernel's buffer (it takes twice the number), read in one go, and
# what aiohttp keeps before a body is read (twice the number). A body of 20 KB, a large review, fits in one go.
_RECEIVE_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 16 * 1024
# The API server sends ten header fields of at most some hundred bytes.
_HEAD_LINE_BYTES: Final = 4096
_HEAD_LINES: Final = 32

REVIEW_LIMITS: Final = Limits(connections=1024, bytes=16 * 1024 * 1024)
"""An API server has at most some hundred requests in flight (--max-mutating-requests-inflight is 200, and 600 with all
priority levels) and 25 idle connections (client-go). Two of the largest reviews, of which there is hardly ever one,
fit at a time."""
OBSERVATION_LIMITS: Final = Limits(connections=64, bytes=1024 * 1024)
"""A kubelet and a few scrapers, whose requests have no body."""

Told = Callable[[Closed], None]
"""Counts a connection that was closed by us."""


# aiohttp writes a traceback for each request that is no HTTP.
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
    ) -> None:
        """`name` stands in log lines; `told` counts connections that are closed by us."""
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
            max_line_size=_HEAD_LINE_BYTES,
            max_field_size=_HEAD_LINE_BYTES,
            max_headers=_HEAD_LINES,
        )
        self._socket: socket.socket | None = None
        self._context: ssl.SSLContext | None = None
        self._establishing: set[asyncio.Task[None]] = set()
        self._log_limits = {why: LogLimit(1 / 60, 1) for why in Closed}
        self.port = 0

    async def open(self, address: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """Listen; port 0 takes a free one, which `port` then tells. Raises OSError that names address and port."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        self._context = context
        self._socket = listening = socket.socket(family, kind, protocol)
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        try:
            listening.bind(place)
        except OSError as error:
            listening.close()
            reason = f"cannot listen on {address} port {port}: {(error.strerror or '').lower()}"
            raise OSError(error.errno, reason) from error
        listening.listen(_BACKLOG)
        self.port = listening.getsockname()[1]
        loop.add_reader(listening.fileno(), self._accept)

    async def close(self) -> None:
        """Accept nothing more, close idle connections, and wait for requests in flight up to `finish_seconds`."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for task in list(self._establishing):
            task.cancel()
        await asyncio.gather(*self._establishing, return_exceptions=True)
        await self._runner.cleanup()

    def _accept(self) -> None:
        assert self._socket is not None  # noqa: S101 # there is a reader as long as there is a socket
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors left: those that end make room
                log.warning("connection.not_accepted", port=self._name, error=str(error))
                return
            accepted.setblocking(False)
            server = self._runner.server
            assert server is not None  # noqa: S101 # as long as there is a socket
            connection = ServedConnection(address[0], self.connections, server)
            if not self.connections.admit(connection):
                accepted.close()
                continue
            task = asyncio.get_running_loop().create_task(self._establish(accepted, connection))
            connection.establishing = task
            self._establishing.add(task)
            task.add_done_callback(partial(self._established, accepted, connection))

    async def _establish(self, accepted: socket.socket, connection: ServedConnection) -> None:
        """TLS, where the port speaks it; from then on the connection looks after itself."""
        secured = self._context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if secured else None,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if secured else None,
            )
        except OSError:  # among them those of TLS
            self.connections.close(connection, Closed.HANDSHAKE)
            accepted.close()

    def _established(self, accepted: socket.socket, connection: ServedConnection, task: asyncio.Task[None]) -> None:
        self._establishing.discard(task)
        connection.establishing = None
        if task.cancelled():  # displaced, or the port closes
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
