"""The synthetic API server: it answers as a real one does, from objects that are written when they are asked for.

It serves list and watch, patches of pods, the Lease, the Secret of the allocation key, owners, and discovery.
Everything else
is answered with 404, as by a cluster without those CRDs. It stores no object that never changed.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from tests.scale.objects import replica_set
from tests.scale.storage import Storage, Watch
from webhook.codec import dumps, loads
from webhook.formats.patches.json_patch import PatchError, apply
from webhook.kube.client import APPLY_PATCH, JSON_PATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from webhook.model.raw import Draft

_DISCOVERY: Final = {
    "topology.node.k8s.io": ("v1alpha2", "noderesourcetopologies"),
    "kai.scheduler": ("v1alpha1", "topologies"),
}
_FIELD_SELECTOR_OF_FAILED_PODS: Final = "status.phase=Failed"
_BOOKMARK_SECONDS: Final = 20.0


class ApiServer:
    """The answers."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._others: dict[str, Draft] = {}
        """The Lease and the Secrets, by path."""
        self._versions = itertools.count(1)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        match request.method, parts:
            case "GET", ["apis", group]:
                return _discovered(group)
            case "GET", ["apis", group, version] if group in _DISCOVERY:
                return _answer({"resources": [{"name": _DISCOVERY[group][1]}], "groupVersion": version})
            case "GET", ["apis", "apps", "v1", "namespaces", namespace, "replicasets", name]:
                return _answer(replica_set(name, namespace))
            case "GET", [*_, "namespaces", namespace, "pods", name]:
                return _found(self._storage.created.get(f"{namespace}/{name}"))
            case "GET", [*_, "secrets" | "leases", _]:
                return _found(self._others.get(request.path))
            case "GET", [*_, plural]:
                return await self._read(request, plural)
            case "POST", [*_, "selfsubjectreviews"]:
                return _answer({"status": {"userInfo": {"username": "system:serviceaccount:tw:tw"}}})
            case "POST", _:
                return _answer(loads(await request.read()), status=201)
            case "PATCH", [*_, "namespaces", namespace, "pods", name]:
                return await self._patch_pod(request, f"{namespace}/{name}")
            case "PATCH", [*_, "namespaces", namespace, "pods", name, "status"]:
                return await self._patch_pod(request, f"{namespace}/{name}")
            case "PATCH", _:
                return await self._patch_other(request)
        return _status(404)

    async def _read(self, request: web.Request, plural: str) -> web.StreamResponse:
        is_empty = request.query.get("fieldSelector") == _FIELD_SELECTOR_OF_FAILED_PODS or plural == "leases"
        if "watch" in request.query:
            return await self._watch(request, "" if is_empty else plural)
        start, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", 500))
        page = self._storage.pages("" if is_empty else plural, start, limit)
        return web.Response(body=page, content_type="application/json")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        watch = Watch()
        self._storage.watches[plural].append(watch)
        try:
            while True:
                await response.write(await watch.next())
        except ConnectionResetError:
            return response  # the replica has ended
        finally:
            self._storage.watches[plural].remove(watch)

    async def _patch_pod(self, request: web.Request, key: str) -> web.Response:
        body = loads(await request.read())
        pod = self._storage.created.get(key)
        if pod is None:
            return _status(404)
        version = pod["metadata"]["resourceVersion"]
        if request.content_type == JSON_PATCH:
            try:
                pod = apply(pod, body)
            except PatchError:
                return _status(422)
        else:
            pod = _merged(pod, body)
        if pod["metadata"]["resourceVersion"] != version:
            return _status(409)
        return _answer(self._storage.put_pod(key, pod))

    async def _patch_other(self, request: web.Request) -> web.Response:
        body = loads(await request.read())
        found = self._others.get(request.path)
        if found is None and request.content_type != APPLY_PATCH:
            return _status(404)
        stored = _merged(found or {}, body)
        stored["metadata"]["resourceVersion"] = str(next(self._versions))
        self._others[request.path] = stored
        return _answer(stored)


def _merged(old: Draft, patch: Draft) -> Draft:
    """A merge patch; conditions are merged by type, as by a strategic merge patch."""
    merged = dict(old)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif name == "conditions":
            types = {one["type"] for one in value}
            merged[name] = [*(one for one in merged.get(name, ()) if one["type"] not in types), *value]
        else:
            merged[name] = _merged(merged.get(name) or {}, value) if isinstance(value, dict) else value
    return merged


def _discovered(group: str) -> web.Response:
    if group not in _DISCOVERY:
        return _status(404)
    version, _ = _DISCOVERY[group]
    return _answer({"versions": [{"version": version}], "preferredVersion": {"version": version}})


def _found(raw: Draft | None) -> web.Response:
    return _status(404) if raw is None else web.json_response(raw)


def _answer(raw: Draft, status: int = 200) -> web.Response:
    return web.Response(body=dumps(raw), status=status, content_type="application/json")


def _status(code: int) -> web.Response:
    return _answer({"kind": "Status", "code": code, "reason": "", "message": "synthetic"}, status=code)


@asynccontextmanager
async def serving(storage: Storage) -> AsyncIterator[str]:
    """Serve the objects on loopback. Returns the URL."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", ApiServer(storage).handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    bookmarks = asyncio.create_task(_bookmarks(storage))
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        bookmarks.cancel()
        await runner.cleanup()


async def _bookmarks(storage: Storage) -> None:
    while True:
        await asyncio.sleep(_BOOKMARK_SECONDS)
        storage.bookmark()
