"""Hostile clients over real sockets. The real applications keep answering honest calls."""

import asyncio
import contextlib
import functools
import inspect
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import uvloop

from certs import Authority, ServerNames, server_context
from tests.handlers import HandlerOf
from tests.unit.metrics.sample import SAMPLE
from tests.unit.server.reviews import REVIEW
from webhook.metrics import Metrics
from webhook.server.health import Health
from webhook.server.listener import REVIEW_LIMITS, Connections, Limits, Listener, ServedConnection
from webhook.server.routes import observation_app, review_app

HEAD = b"POST /mutate/pods?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CA = Authority.create("webhook", datetime.now(UTC))
SERVER = CA.issue(ServerNames.of(["localhost", "127.0.0.1"]), datetime.now(UTC))
Open = Callable[[], Any]


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on each event loop that the service may use."""

    @functools.wraps(test)
    def run(loop: str, **more: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(test(**more))

    del run.__wrapped__  # pytest would find a coroutine
    own = inspect.signature(test).parameters.values()
    added = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*own, added])  # type: ignore[attr-defined]
    marked: Callable[..., None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return marked


class Port:
    """A listener, an attacker at 127.0.0.2 and an API server at 127.0.0.1."""

    def __init__(self, listener: Listener, metrics: Metrics, tls: bool) -> None:
        self.listener = listener
        self._metrics = metrics
        self._tls = ssl.create_default_context(cadata=CA.certificate_pem.decode()) if tls else None
        self._open: list[asyncio.StreamWriter] = []

    async def attack(self, sent: bytes = b"", *, tls: bool | None = None, source: str = "127.0.0.2") -> Any:
        """Send this on a new connection. Returns reader and writer."""
        context = self._tls if tls in {None, True} else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, ssl=context, local_addr=(source, 0)
        )
        self._open.append(writer)
        writer.write(sent)
        return reader, writer

    async def answers(self, body: object = REVIEW) -> bool:
        """Whether a call of an API server is answered."""
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.1", 0))
        scheme = "https" if self._tls else "http"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(
                f"{scheme}://127.0.0.1:{self.listener.port}/mutate/pods", json=body, ssl=self._tls or True
            ) as answer,
        ):
            return answer.status == 200 and json.loads(await answer.text())["response"]["allowed"] is True

    def closed(self, reason: str) -> float:
        labels = {"port": "reviews", "reason": reason}
        return self._metrics.registry.get_sample_value("topology_webhook_connections_closed_total", labels) or 0.0

    async def end(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        await self.listener.close()


@contextlib.asynccontextmanager
async def port(limits: Limits = REVIEW_LIMITS, tls: bool = True, observing: bool = False) -> AsyncIterator[Port]:
    metrics = Metrics(lambda: SAMPLE)
    health = Health(lambda: (), lambda: True)
    handlers = {"/mutate/pods": HandlerOf()}
    app = observation_app(health, metrics) if observing else review_app(handlers, health, metrics)
    count = metrics.connections_closed
    listener = Listener(app, 1.0, limits=limits, told=lambda why: count.labels("reviews", why.code).inc())
    await listener.open("127.0.0.1", 0, server_context(SERVER) if tls else None)
    running = Port(listener, metrics, tls)
    try:
        yield running
    finally:
        await running.end()


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """Everything that arrives until the connection ends in any way."""
    found = b""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(65536):
            found += chunk
    return found


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 # of the service nobody is told
        await asyncio.sleep(0.01)


@on_each_loop
async def test_a_head_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.server.listener.HEAD_SECONDS", 0.3)
    async with port() as running:
        reader, writer = await running.attack(HEAD)

        async def drip() -> None:
            with contextlib.suppress(OSError):
                while not writer.is_closing():
                    writer.write(b"X")
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await end_of(reader) == b""
        assert running.closed("slow-request") == 1
        assert len(running.listener.connections) == 0
        dripping.cancel()
        assert await running.answers()


@on_each_loop
async def test_a_body_that_never_ends_is_waited_for_until_its_deadline() -> None:
    async with port() as running:
        slow = HEAD.replace(b"30s", b"300ms")
        for how in (b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
            reader, _ = await running.attack(slow + how)
            assert (await end_of(reader)).startswith(b"HTTP/1.1 504")
        assert running.listener.connections.held == 0


@on_each_loop
async def test_chunks_without_end_are_cut_off_at_the_largest_body() -> None:
    async with port() as running:
        reader, writer = await running.attack(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

        async def distribute() -> None:
            with contextlib.suppress(OSError):
                while not writer.is_closing():
                    writer.write(chunk)
                    await writer.drain()

        pouring = asyncio.create_task(distribute())
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")
        await pouring


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{", 400),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 400),
        (HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n", 400),
        (HEAD + b"X: x\r\n" * 1000 + b"\r\n", 400),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"\x16\x03\x01 no HTTP\r\n\r\n", 400),
        (b"DELETE /mutate/pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
    ],
)
@on_each_loop
async def test_what_is_no_http_is_answered_and_given_up(sent: bytes, status: int) -> None:
    async with port() as running:
        reader, _ = await running.attack(sent)
        first = await reader.readline()
        assert first.split()[1] == str(status).encode(), first
        await end_of(reader)
        await until(lambda: len(running.listener.connections) == 0)
        assert await running.answers()


@on_each_loop
async def test_a_request_that_comes_before_the_answer_is_answered_in_its_turn() -> None:
    body = json.dumps(REVIEW).encode()
    whole = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with port() as running:
        last = whole.replace(b"Host: x", b"Host: x\r\nConnection: close")
        reader, _ = await running.attack(whole * 50 + last)
        assert (await end_of(reader)).count(b"HTTP/1.1 200") == 51


@on_each_loop
async def test_a_handshake_that_is_never_finished_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.server.listener._HANDSHAKE_SECONDS", 0.3)
    async with port() as running:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n"):
            reader, _ = await running.attack(sent, tls=False)
            await end_of(reader)
        await until(lambda: len(running.listener.connections) == 0)
        assert running.closed("handshake") == 3
        assert await running.answers()


@on_each_loop
async def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.server.listener.ANSWER_SECONDS", 0.3)
    async with port(tls=False, observing=True) as running:
        _, writer = await running.attack(b"")
        writer.transport.pause_reading()
        asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
        while not running.closed("slow-reader"):
            with contextlib.suppress(OSError):
                writer.write(asked)
            await asyncio.sleep(0.05)
        await until(lambda: len(running.listener.connections) == 0)


@on_each_loop
async def test_a_client_that_makes_room_in_time_is_served_for_as_long_as_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook.server.listener.ANSWER_SECONDS", 0.3)
    connections = Connections(Limits(connections=1, bytes=1024), lambda *_: None)
    connection = ServedConnection("127.0.0.2", connections, asyncio.Protocol)
    connections.admit(connection)
    connection.connection_made(asyncio.Transport())
    for _ in range(2):
        connection.pause_writing()
        connection.resume_writing()
    await asyncio.sleep(0.5)
    assert len(connections) == 1
    connection.pause_writing()
    connection.connection_lost(None)
    assert len(connections) == 0


@on_each_loop
async def test_a_thousand_connections_do_not_keep_an_api_server_out() -> None:
    async with port(Limits(connections=100, bytes=2**20), tls=False) as running:
        attackers = [await running.attack(HEAD) for _ in range(500)]
        attackers += [await running.attack() for _ in range(500)]
        assert len(running.listener.connections) <= 100
        assert await running.answers()
        assert running.closed("too-many-connections") >= 900


@on_each_loop
async def test_unfinished_bodies_hold_no_more_than_their_share_and_honest_ones_pass() -> None:
    limit = 2**21
    async with port(Limits(connections=100, bytes=limit)) as running:
        most = 0
        for _ in range(60):
            _, writer = await running.attack(HEAD + b"Content-Length: 7000000\r\n\r\n" + b"x" * 200_000)
            with contextlib.suppress(OSError):
                await writer.drain()
            await asyncio.sleep(0.01)
            most = max(most, running.listener.connections.held)
        await until(lambda: running.closed("too-many-bytes"))
        # What the last one sent comes in one go.
        assert most <= limit + 300_000
        large = {**REVIEW, "request": {**REVIEW["request"], "object": {"spec": {"x": "y" * 1_000_000}}}}
        assert await running.answers(large)


@on_each_loop
async def test_a_connection_that_is_closed_while_its_port_closes_is_no_fault() -> None:
    async with port() as running:
        await running.attack(HEAD)
        await running.attack(b"", tls=False)
        await asyncio.sleep(0.05)
    assert len(running.listener.connections) == 0
