"""A network to the API server that a test can stall: bytes wait, connections stay open, no side gets an error."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.cluster.relay import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Network:
    """`url` leads to the server as long as it is `open`."""

    def __init__(self) -> None:
        self.url = ""
        self.open = asyncio.Event()
        self.open.set()

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[Network]:
        network, target = cls(), urlsplit(url)
        carrying: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            carrying.add(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                below_reader, below_writer = await asyncio.open_connection(target.hostname, target.port)
                try:
                    await asyncio.gather(network._pump(reader, below_writer), network._pump(below_reader, writer))
                finally:
                    below_writer.close()
            writer.close()
            carrying.discard(task)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        network.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield network
        finally:
            server.close()
            left = set(carrying)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self.open.wait()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
