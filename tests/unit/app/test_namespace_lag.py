"""A pod that comes with its namespace: what that says counts, and one that is not there holds up no review for long."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from tests.handlers import HandlerOf
from webhook.admission.response import Allowed, Denied, Response
from webhook.app.webhooks import MOST_PODS, namespace_lag
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.state.cluster_cache import ClusterCache

KNOWN = Allowed(("known: True",))


def request(namespace: str = "new") -> AdmissionRequest:
    body = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": namespace, "object": {}}
    return AdmissionRequest.from_object(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**body, "userInfo": {}}}
    )


class Namespaces:
    """Those that are known, and reviews that wait for others."""

    def __init__(self, *known: str, seconds: float = 60.0) -> None:
        self.cache = ClusterCache()
        self.response: Response | None = None
        self.lag = namespace_lag(HandlerOf(self._answer), self.cache, seconds)
        for name in known:
            self.arrive(name)

    def arrive(self, name: str) -> None:
        self.cache.namespaces.upsert(name, {"metadata": {"name": name}})

    def ask(self, name: str = "new", deadline: float = 60.0) -> asyncio.Future[Response]:
        """The response to a review in this namespace, which says whether it was known."""

        async def answered() -> Response:
            response = self.lag.handle(replace(request(name), deadline=_now() + deadline))
            return await response if isinstance(response, Awaitable) else response

        return asyncio.ensure_future(answered())

    def _answer(self, review: AdmissionRequest) -> Response:
        return self.response or Allowed((f"known: {self.cache.knows_namespace(review.namespace)}",))


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_known_namespace_is_decided_on_at_once() -> None:
    namespaces = Namespaces("new")
    assert namespaces.lag.handle(request()) == KNOWN


async def test_a_pod_waits_for_its_namespace_and_for_no_other() -> None:
    namespaces = Namespaces()
    answer = namespaces.ask()
    await _turn()
    namespaces.arrive("other")
    await _turn()
    assert not answer.done()
    namespaces.arrive("new")
    assert await answer == KNOWN


@pytest.mark.parametrize(("seconds", "deadline"), [(0.01, 60.0), (60.0, 0.51)])
async def test_one_that_does_not_come_is_told_in_time(seconds: float, deadline: float) -> None:
    response = await Namespaces(seconds=seconds).ask(deadline=deadline)
    assert isinstance(response, Allowed)
    said, warning = response.warnings
    assert said == "known: False"
    assert warning.startswith("topology-webhook does not know namespace new yet: ")


async def test_a_denial_stays_as_it_is() -> None:
    namespaces = Namespaces(seconds=0.01)
    namespaces.response = Denied("no")
    assert await namespaces.ask() == Denied("no")


async def test_few_wait_at_a_time() -> None:
    namespaces = Namespaces()
    waiting = [namespaces.ask() for _ in range(MOST_PODS)]
    await _turn()
    another = namespaces.ask("other")
    await _turn()
    assert another.done()
    assert not any(one.done() for one in waiting)
    namespaces.arrive("new")
    for one in waiting:
        assert await one == KNOWN
