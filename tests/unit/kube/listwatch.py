"""A server for the exact list/watch protocol. On demand it does what a real API server does only by chance.

`objects` is what a LIST shows, in pages. A WATCH plays the next script of `watches`: lines are sent as chunks, `HOLD`
keeps the stream open until the test ends, `BREAK` cuts the connection; a script that ends closes the watch in order.
`refusals` are sent first, each once.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from webhook.kube.client import Client
from webhook.kube.credentials import Credentials
from webhook.kube.informer import Informer
from webhook.kube.large_field import LargeField
from webhook.kube.pacing import Backoff
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

HOLD = object()
BREAK = object()


@dataclass
class ServerError:
    """An error answer to the next request of its kind: "list" (its first page), "page" (a further one) or "watch"."""

    to: Literal["list", "page", "watch"]
    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ListWatch:
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 100
    watches: deque[list[object]] = field(default_factory=deque)
    refusals: deque[ServerError] = field(default_factory=deque)
    requests: list[dict[str, str]] = field(default_factory=list)

    def put(self, name: str, **labels: str) -> dict[str, Any]:
        """Create or change an object, with a new version."""
        self.version += 1
        self.objects[name] = {
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "resourceVersion": str(self.version), "managedFields": [{}]},
        }
        return self.objects[name]

    @property
    def lists(self) -> list[dict[str, str]]:
        return [query for query in self.requests if "watch" not in query]

    @property
    def watch_versions(self) -> list[str]:
        return [query["resourceVersion"] for query in self.requests if "watch" in query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append(query)
        kind = "watch" if "watch" in query else "page" if "continue" in query else "list"
        if self.refusals and self.refusals[0].to == kind:
            refusal = self.refusals.popleft()
            return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
        return await self._watch(request) if kind == "watch" else self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        names = sorted(self.objects)
        begin = int(query.get("continue", 0))
        end = begin + int(query["limit"])
        metadata = {"resourceVersion": str(self.version)}
        if end < len(names):
            metadata["continue"] = str(end)
        items = [self.objects[name] for name in names[begin:end]]
        return web.json_response({"metadata": metadata, "items": items}, dumps=compact)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for step in self.watches.popleft() if self.watches else [HOLD]:
            if step is HOLD:
                await asyncio.Event().wait()
            elif step is BREAK:
                assert request.transport is not None
                request.transport.abort()
            else:
                assert isinstance(step, bytes)
                await response.write(step)
                await asyncio.sleep(0.01)  # so that the next step is a chunk of its own
        await response.write_eof()
        return response


def event(kind: str, raw: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return compact({"type": kind, "object": raw}).encode() + b"\n"


def compact(value: Any) -> str:
    """JSON as the API server writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": str(version)}})


def status(code: int, reason: str, message: str = "as scripted", causes: Iterable[str] = ()) -> dict[str, Any]:
    details = {"causes": [{"reason": cause} for cause in causes]}
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


@asynccontextmanager
async def serving(script: ListWatch) -> AsyncIterator[Client]:
    """Serve the script on a socket. Returns a client."""
    app = web.Application()
    app.router.add_get("/api/v1/nodes", script.handle)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    client = Client(Credentials(Configuration(host=str(server.make_url("")).rstrip("/")), "test"))
    try:
        yield client
    finally:
        await client.close()
        await server.close()


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
