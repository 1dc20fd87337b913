"""A port that stops in two steps: first it accepts no new connections, then it finishes requests in flight.

We accept connections here instead of in an asyncio server: which one to close above the limit (see `connections`) must
be decided before the TLS handshake, which costs a millisecond and a hundred kilobytes. aiohttp's own server has no
limit: when one client held 1,500 idle connections and all file descriptors, an honest call got no answer within 10 s.
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
