"""A loopback TCP relay in front of several servers: what kube-proxy does for one Service.

1. A new connection goes to the next endpoint in turn. It stays there until one side closes it, even if the endpoint is
   removed, as with kube-proxy.
2. No endpoint, or none that accepts: the connection is closed.

TLS passes through unchanged. The relay runs in its own thread, so it also serves while its owner waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CHUNK_BYTES = 65536


@contextlib.contextmanager
def relay(endpoints: Callable[[], Sequence[int]]) -> Iterator[int]:
    """Relay each new connection to one of the ports `endpoints()`. Yields the port that it listens on."""
    loop = asyncio.new_event_loop()
    started: asyncio.Future[int] = loop.create_future()
    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(_serve(endpoints, started, stop),), name="relay")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(_result(started), loop).result(10)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _result(started: asyncio.Future[int]) -> int:
    return await started


async def _serve(endpoints: Callable[[], Sequence[int]], started: asyncio.Future[int], stop: asyncio.Event) -> None:
    turn = itertools.count()
    transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
    # The loop holds only weak references: a task whose connections are half closed or paused would be collected.
    ours: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ours.add(task)
        task.add_done_callback(ours.discard)
        transports.add(writer.transport)
        try:
            await _connect(reader, writer, endpoints(), next(turn), transports)
        except* (OSError, asyncio.CancelledError):
            writer.transport.abort()  # one side is broken, or the relay ends: drop what is not written yet
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    started.set_result(server.sockets[0].getsockname()[1])
    await stop.wait()
    server.close()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in list(ours):
            task.cancel()
        # The other tasks are connections about to be accepted: each starts, registers its writer, and ends.
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    for transport in transports:
        transport.abort()  # a closed transport may still wait for its peer to read
    await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn


async def _connect(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    ports: Sequence[int],
    turn: int,
    transports: weakref.WeakSet[asyncio.WriteTransport],
) -> None:
    """Carry one connection. An endpoint that has gone since `endpoints()` was read is skipped."""
    for offset in range(len(ports)):
        try:
            below_reader, below_writer = await asyncio.open_connection("127.0.0.1", ports[(turn + offset) % len(ports)])
        except OSError:
            continue
        transports.add(below_writer.transport)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, below_writer))
                pumps.create_task(_pump(below_reader, writer))
        except BaseException:
            below_writer.transport.abort()
            raise
        below_writer.close()
        return


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction, including its end of file."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
