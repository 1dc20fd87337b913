"""Requests to an API server: what is sent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from webhook.kube.client import Client, encoded
from webhook.kube.credentials import Credentials
from webhook.version import DISTRIBUTION, VERSION


class Key(StrEnum):
    A = "a"


@asynccontextmanager
async def asked(**settings: Any) -> AsyncIterator[tuple[Client, list[tuple[web.Request, bytes]]]]:
    """A client with this configuration, and the requests that its API server has received."""
    seen: list[tuple[web.Request, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request, await request.read()))
        return web.json_response({"metadata": {}}, headers={"Set-Cookie": "way=a; Path=/"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app, host="localhost") as server:
        configuration = Configuration(host=f"http://localhost:{server.port}")
        for name, value in settings.items():
            setattr(configuration, name, value)
        async with Client(Credentials(configuration, "test")) as client:
            yield client, seen


async def test_a_write_has_the_token_our_name_and_its_content_type() -> None:
    async with asked(api_key={"BearerToken": "Bearer secret"}) as (client, seen):
        await client.write("/api/v1/namespaces/a/pods/b", [{"op": "remove", "path": "/x"}])
    ((request, body),) = seen
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/a/pods/b")
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["User-Agent"] == f"{DISTRIBUTION}/{VERSION}"
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert request.headers["Accept"].startswith("application/json;as=PartialObjectMetadata;")
    assert json.loads(body) == [{"op": "remove", "path": "/x"}]


@pytest.mark.parametrize("kind", ["write", "merge", "add"])
async def test_a_write_whose_answer_is_not_read_asks_for_metadata_alone(kind: str) -> None:
    async with asked() as (client, seen):
        assert await getattr(client, kind)("/api/v1/namespaces/a/pods/b/status", {"status": {}}) is None
    ((request, body),) = seen
    assert request.headers["Accept"].startswith("application/json;as=PartialObjectMetadata;")
    assert json.loads(body) == {"status": {}}


async def test_without_a_token_no_authorization_is_sent_and_without_a_body_none() -> None:
    async with asked() as (client, seen):
        await client.get("/api/v1/pods", {"fieldSelector": "spec.nodeName=,a!=b&c", "limit": 5})
    ((request, body),) = seen
    assert "Authorization" not in request.headers
    assert dict(request.query) == {"fieldSelector": "spec.nodeName=,a!=b&c", "limit": "5"}
    assert body == b""


async def test_a_refreshed_token_is_sent() -> None:
    tokens = iter(["one", "two"])

    def refresh(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = next(tokens)

    async with asked(api_key={"BearerToken": "none"}, refresh_api_key_hook=refresh) as (client, seen):
        await client.get("/a")
        await client.get("/b")
    assert [request.headers["Authorization"] for request, _ in seen] == ["one", "two"]


async def test_cookies_are_not_kept() -> None:
    async with asked() as (client, seen):
        await client.get("/a")
        await client.get("/b")
    assert [request.headers.get("Cookie") for request, _ in seen] == [None, None]


async def test_a_proxy_gets_the_whole_address() -> None:
    async with asked() as (client, seen), asked(host="http://api.example.com:6443", proxy=client.host) as (proxied, _):
        await proxied.get("/a")
    ((request, _),) = seen
    assert request.raw_path == "http://api.example.com:6443/a"


@pytest.mark.parametrize("body", [{"a": [1, "ü", None]}, {Key.A: Key.A}, {"half": "\ud800"}])
def test_a_body_of_any_text_is_encoded(body: dict[str, Any]) -> None:
    assert json.loads(encoded(body)) == body
