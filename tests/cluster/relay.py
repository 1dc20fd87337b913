"""A loopback TCP relay in front of several replicas: what a Service does in a cluster.

1. Every `POLL_SECONDS` each backend's /readyz is asked; a backend is in turn while it answers 200.
2. A new connection goes to the next backend in turn and stays there until one side closes it, as with kube-proxy.
3. No backend ready, or none that accepts: the connection is closed.

TLS passes through untouched. Runs in a thread of its own, so that it serves whatever its owner waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

POLL_SECONDS = 0.2
CHUNK_BYTES = 65536


class Backend(NamedTuple):
    """Loopback ports of one replica."""

    port: int
    health_port: int


@contextlib.contextmanager
def relay(backends: Callable[[], Sequence[Backend]]) -> Iterator[int]:
    """Relay connections to whichever of `backends()` are ready; the port it listens on. The list may change."""
    loop = asyncio.new_event_loop()
    started: asyncio.Future[int] = loop.create_future()
    thread = threading.Thread(target=loop.run_until_complete, args=(_serve(backends, started),), name="relay")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(_result(started), loop).result(10)
    finally:
        loop.call_soon_threadsafe(_cancel_all, loop)
        thread.join()
        loop.close()


async def _result(started: asyncio.Future[int]) -> int:
    return await started


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


async def _serve(backends: Callable[[], Sequence[Backend]], started: asyncio.Future[int]) -> None:
    ready: list[Backend] = []
    turn = itertools.count()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await _connect(reader, writer, ready, next(turn))
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    started.set_result(server.sockets[0].getsockname()[1])
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            wanted = list(backends())
            answers = await asyncio.gather(*(_is_ready(backend) for backend in wanted))
            ready[:] = itertools.compress(wanted, answers)
            await asyncio.sleep(POLL_SECONDS)
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ready: Sequence[Backend], turn: int
) -> None:
    """Carry one connection. A backend that went away since it was last asked is passed over."""
    for offset in range(len(ready)):
        backend = ready[(turn + offset) % len(ready)]
        try:
            below_reader, below_writer = await asyncio.open_connection("127.0.0.1", backend.port)
        except OSError:
            continue
        try:
            await asyncio.gather(_pump(reader, below_writer), _pump(below_reader, writer))
        finally:
            below_writer.close()
        return


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction, and pass its end on."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _is_ready(backend: Backend) -> bool:
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection("127.0.0.1", backend.health_port)
            try:
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                status = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
    return b" 200 " in status
