"""Replicas that ask the leader: by mutual TLS of a common key, once, and in time."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from certs import CABundle, ServerNames, client_context
from certs.authority import Authority
from tests.unit.metrics.sample import SAMPLE
from tests.unit.server.reviews import REVIEW
from webhook.admission.handler import LeaderNeededError
from webhook.admission.response import Allowed, Denied, Response
from webhook.app.peers import Peers
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.metrics import Metrics
from webhook.server.health import Health
from webhook.server.listener import Listener
from webhook.server.routes import BINDINGS, review_app

KEY = AllocationKey(b"k" * 32)
OTHER_KEY = AllocationKey(b"o" * 32)


def peers(address: str = "", key: AllocationKey = KEY, **how: Any) -> Peers:
    """A replica that has this key and finds the leader there."""
    made = Peers(lambda _: address, **how)
    made.use(key)
    return made


@asynccontextmanager
async def leader(app: web.Application, key: AllocationKey = KEY) -> AsyncIterator[str]:
    """Listens as the leader does for other replicas; its address."""
    port = Listener(app, finish_seconds=0.1)
    await port.open("127.0.0.1", 0, (await peers(key=key).context()).listening)
    try:
        yield f"127.0.0.1:{port.port}"
    finally:
        await port.close()


class Answers:
    """A handler that gives this answer or raises this error, and counts the reviews."""

    def __init__(self, answer: Response | Exception) -> None:
        self._answer = answer
        self.reviews = 0

    def handle(self, request: AdmissionRequest) -> Response:
        del request
        self.reviews += 1
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def replica(handler: Answers, asks: Peers | None = None) -> web.Application:
    """The reviews of a replica that asks the leader, or of the port for other replicas."""
    metrics = Metrics(lambda: SAMPLE)
    return review_app({BINDINGS: handler}, Health(list, lambda: True), metrics, (), asks.ask if asks else None)


def with_body(body: bytes = b"{}", status: int = 200, seconds: float = 0.0) -> web.Application:
    """A server that answers this, late."""

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        return web.Response(body=body, status=status)

    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_post(BINDINGS, answer)
    return app


async def asked(asks: Peers, seconds: float = 5.0, review: Any = REVIEW) -> bytes | None:
    try:
        return await asks.ask(BINDINGS, review, "n0", asyncio.get_running_loop().time() + seconds)
    finally:
        await asks.close()


async def test_what_only_the_leader_can_answer_it_answers_whoever_was_called() -> None:
    leading = Answers(Denied("by the leader", "Full"))
    async with leader(replica(leading)) as address:
        asks = peers(address)
        needs = Answers(LeaderNeededError("n0", Denied("alone", "NotLeader")))
        port = Listener(replica(needs, asks), finish_seconds=0.1)
        await port.open("127.0.0.1", 0)
        async with aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{port.port}{BINDINGS}"
            async with client.post(url, json=REVIEW) as answer:
                assert (await answer.json())["response"]["status"]["message"] == "by the leader"
        await port.close()
        await asks.close()
    assert (leading.reviews, needs.reviews) == (1, 1)


async def test_what_was_passed_on_is_not_passed_on_again() -> None:
    needs = Answers(LeaderNeededError("n0", Denied("alone", "NotLeader")))
    async with leader(replica(needs)) as address:
        answer = await asked(peers(address))
    assert answer is not None
    assert b'"alone"' in answer
    assert needs.reviews == 1


@pytest.mark.parametrize("key", [None, OTHER_KEY])
async def test_nobody_without_the_key_is_heard_as_a_replica(key: AllocationKey | None) -> None:
    leading = Answers(Allowed())
    authority = Authority.derived("topology-webhook replicas", KEY.secret, datetime.now(UTC))
    async with leader(replica(leading)) as address:
        if key is not None:
            assert await asked(peers(address, key)) is None
        else:
            context = ssl.create_default_context(cadata=CABundle.of((authority.certificate,)).pem.decode())
            context.check_hostname = False
            async with aiohttp.ClientSession() as client:
                with pytest.raises(aiohttp.ClientError):
                    await client.post(f"https://{address}{BINDINGS}", json=REVIEW, ssl=context)
    assert leading.reviews == 0


async def test_a_certificate_for_the_api_server_does_not_open_the_port() -> None:
    now = datetime.now(UTC)
    authority = Authority.derived("topology-webhook replicas", KEY.secret, now)
    serves_only = authority.issue(ServerNames.of(("replica.topology-webhook.dev",)), now)
    leading = Answers(Allowed())
    async with leader(replica(leading)) as address, aiohttp.ClientSession() as client:
        context = client_context(serves_only, CABundle.of((authority.certificate,)))
        with pytest.raises(aiohttp.ClientError):
            await client.post(
                f"https://{address}{BINDINGS}",
                json=REVIEW,
                ssl=context,
                server_hostname="replica.topology-webhook.dev",
            )
    assert leading.reviews == 0


async def test_nobody_without_the_key_is_asked_as_the_leader() -> None:
    async with leader(with_body(), OTHER_KEY) as address:
        assert await asked(peers(address)) is None


@pytest.mark.parametrize("status", [307, 403, 413, 503, 504])
async def test_an_error_of_the_leader_is_no_answer(status: int) -> None:
    async with leader(with_body(status=status)) as address:
        assert await asked(peers(address)) is None


async def test_a_leader_that_hangs_or_answers_too_much_or_is_gone_or_unknown_is_not_waited_for() -> None:
    loop = asyncio.get_running_loop()
    async with leader(with_body(seconds=60)) as address:
        began = loop.time()
        assert await asked(peers(address), seconds=0.2) is None
        assert loop.time() - began < 10
    async with leader(with_body(b"x" * (2**20 + 1))) as address:
        assert await asked(peers(address)) is None
    assert await asked(peers(address)) is None
    assert await asked(peers("")) is None
    assert await asked(peers(address), seconds=-1) is None


async def test_a_review_of_three_megabytes_is_passed_on() -> None:
    large = {**REVIEW, "padding": "x" * (3 * 2**20)}
    async with leader(with_body(b"answer")) as address:
        assert await asked(peers(address), review=large) == b"answer"


async def test_a_new_key_counts_from_the_next_handshake_on_and_certificates_are_renewed() -> None:
    now = [datetime.now(UTC)]
    asks = peers("", OTHER_KEY, clock=lambda: now[0])
    before = (await asks.context())._current
    asks.use(KEY)
    assert (await asks.context())._current is not before
    renewed = (await asks.context())._current
    asks.renew()
    assert (await asks.context())._current is renewed
    now[0] += timedelta(days=1)
    asks.renew()
    assert (await asks.context())._current is not renewed
