"""An informer on a scripted API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.kube.listwatch import ListWatch, serving
from webhook.kube.informer import Informer
from webhook.kube.large_field import LargeField
from webhook.kube.pacing import Backoff
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

NODES = Resource("", "v1", "nodes")


class Copy:
    """A handler that keeps everything and remembers the order."""

    def __init__(self) -> None:
        self.objects: dict[str, Raw] = {}
        self.log: list[str] = []

    def upsert(self, key: str, raw: Raw) -> None:
        self.objects[key] = raw
        self.log.append(f"+{key}")

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)
        self.log.append(f"-{key}")


@asynccontextmanager
async def informing(
    script: ListWatch, page_size: int = 500, copy: Copy | None = None, large_field: LargeField | None = None
) -> AsyncIterator[tuple[Informer, Copy]]:
    copy = copy or Copy()
    async with serving(script) as client:
        backoff = Backoff(base=0.001, cap=0.01)
        informer = Informer(client, NODES, copy, page_size=page_size, backoff=backoff, large_field=large_field)
        task = asyncio.create_task(informer.run())
        try:
            yield informer, copy
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 # nothing to wait on: the condition is any expression
            await asyncio.sleep(0.005)
