"""The names in client certificates, over TLS against the real application."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from certs import Authority, CABundle, Leaf, ServerNames, server_context
from tests.client_certificates import client_context, client_leaf
from tests.handlers import HandlerOf
from tests.unit.metrics.sample import SAMPLE
from tests.unit.server.reviews import REVIEW
from webhook.metrics import Metrics
from webhook.server.health import Health
from webhook.server.listener import Listener
from webhook.server.routes import names_of, review_app

CA = Authority.create("webhook", datetime.now(UTC))
CLIENTS = Authority.create("clients", datetime.now(UTC))


@asynccontextmanager
async def serving(names: tuple[str, ...]) -> AsyncIterator[str]:
    """The URL of a webhook that answers clients with these names."""
    health, metrics = Health(lambda: (), lambda: True), Metrics(lambda: SAMPLE)
    app = review_app({"/mutate/pods": HandlerOf()}, health, metrics, names)
    listener = Listener(app, 1.0)
    leaf = CA.issue(ServerNames.of(["127.0.0.1"]), datetime.now(UTC))
    await listener.open("127.0.0.1", 0, server_context(leaf, CABundle.of([CLIENTS.certificate])))
    try:
        yield f"https://127.0.0.1:{listener.port}/mutate/pods"
    finally:
        await listener.close()


async def post(names: tuple[str, ...], shown: Leaf | None) -> tuple[int, str]:
    async with (
        serving(names) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=REVIEW, ssl=client_context(CA, shown)) as answer,
    ):
        return answer.status, await answer.text()


async def test_the_names_are_read_once_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(certificate: Mapping[str, Any]) -> Iterator[str]:
        read.append(certificate)
        return names_of(certificate)

    monkeypatch.setattr("webhook.server.routes.names_of", counted)
    context = client_context(CA, client_leaf(CLIENTS, "kube-apiserver"))
    async with serving(("kube-apiserver",)) as url:
        for _ in range(2):
            async with aiohttp.ClientSession() as session:
                for _ in range(3):
                    async with session.post(url, json=REVIEW, ssl=context) as answer:
                        assert answer.status == 200
        assert len(read) == 2
        other = client_leaf(CLIENTS, "other")
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=REVIEW, ssl=client_context(CA, other)) as answer,
        ):
            assert answer.status == 403


@pytest.mark.parametrize("names", [(), ("kube-apiserver",), ("x", "apiserver.internal")])
async def test_a_client_that_carries_one_of_the_names_is_answered(names: tuple[str, ...]) -> None:
    status, text = await post(names, client_leaf(CLIENTS, "kube-apiserver", "apiserver.internal"))
    assert (status, json.loads(text)["response"]["allowed"]) == (200, True)


async def test_a_client_of_the_ca_with_another_name_is_refused_and_told_which() -> None:
    status, text = await post(("kube-apiserver",), client_leaf(CLIENTS, "system:node:n1", "n1"))
    assert status == 403
    assert text == "none of the client certificate's names (n1, system:node:n1) is in --client-names\n"


async def test_a_client_without_a_certificate_does_not_get_as_far_as_a_request() -> None:
    with pytest.raises(aiohttp.ClientError):
        await post((), None)


def test_names_are_common_names_and_subject_alternative_names() -> None:
    subject = ((("organizationName", "system:masters"),), (("commonName", "a"),))
    assert list(names_of({"subject": subject, "subjectAltName": (("DNS", "b"), ("IP Address", "::1"))})) == [
        "a", "b", "::1",
    ]  # fmt: skip
    assert list(names_of({})) == []
