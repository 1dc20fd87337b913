from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from tests.unit.metrics.sample import SAMPLE
from webhook.metrics import Metrics
from webhook.server.health import Check, Health
from webhook.server.routes import observation_app


@asynccontextmanager
async def observing(checks: list[Check]) -> AsyncIterator[tuple[TestClient[Any, Any], Health]]:
    health = Health(lambda: checks, lambda: True)
    async with TestClient(TestServer(observation_app(health, Metrics(lambda: SAMPLE)), host="127.0.0.1")) as client:
        yield client, health


async def test_ready_means_that_every_check_is_and_the_text_names_those_that_are_not() -> None:
    checks = [Check("informer pods", ready=False, detail="listing, 500 objects"), Check("certificate", ready=True)]
    async with observing(checks) as (client, _):
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "informer pods: listing, 500 objects\n")
        checks[0] = Check("informer pods", ready=True)
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_verbose_tells_every_check_as_json() -> None:
    checks = [Check("caBundle", ready=True, detail="written")]
    async with observing(checks) as (client, _), client.get("/readyz?verbose") as answer:
        told = await answer.json()
    assert told == {
        "ready": True,
        "checks": [
            {"name": "serving", "ready": True, "detail": ""},
            {"name": "caBundle", "ready": True, "detail": "written"},
        ],
    }


async def test_draining_is_not_ready_but_alive() -> None:
    async with observing([]) as (client, health):
        health.drain()
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "serving: draining\n")
        async with client.get("/healthz") as answer:
            assert answer.status == 200


async def test_metrics_are_served_in_prometheus_text_format() -> None:
    async with observing([]) as (client, _), client.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert "topology_webhook_ready 1.0" in await answer.text()
