"""The page's port answers for this machine and allowed hosts only. Browsers are told to load nothing else."""

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpClient

from webhook.page.protection import HEADERS, add_headers, host_of, only_for


@pytest.fixture
async def get(aiohttp_client: AiohttpClient):  # type: ignore[no-untyped-def]
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application(middlewares=[only_for(["topology.example.com"])])
    app.on_response_prepare.append(add_headers)
    app.router.add_get("/", hello)
    client = await aiohttp_client(app)

    async def get(host: str) -> tuple[int, str, dict[str, str]]:
        response = await client.get("/", headers={"Host": host})
        return response.status, await response.text(), dict(response.headers)

    return get


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:80", "[::1]:8443", "topology.example.com"])
async def test_this_machine_and_allowed_hosts_are_answered(get, host: str) -> None:  # type: ignore[no-untyped-def]
    status, text, headers = await get(host)
    assert (status, text) == (200, "hello")
    assert headers.items() >= HEADERS.items()


@pytest.mark.parametrize("host", ["evil.example.com", "localhost.evil.example.com:80", "10.0.0.1", "[fe80::1]", ":80"])
async def test_other_hosts_are_refused(get, host: str) -> None:  # type: ignore[no-untyped-def]
    status, text, headers = await get(host)
    assert status == 421
    assert text.endswith("is not allowed. Use localhost, or name it in --page-hosts.\n")
    assert headers.items() >= HEADERS.items()


def test_the_host_of_a_header_has_no_port() -> None:
    assert [host_of(header) for header in ("a:1", "A", "[::1]:2", "[::1]", "")] == ["a", "a", "::1", "::1", ""]
