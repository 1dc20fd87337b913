"""What a review waits for: objects created just before it. One that does not come holds up no review for long."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.builders.reviews import review
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.handlers import HandlerOf
from webhook.admission.handler import Handler
from webhook.admission.response import Allowed, Denied, Response
from webhook.admission.workload.validate import WorkloadValidator
from webhook.app.webhooks import MOST_PODS, MOST_WORKLOADS, WatchLag, namespace_lag, topology_lag
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.topology import TopologySource
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


class FakeObjects:
    """A kind of objects, of which the third one to arrive is the one that is waited for."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.asked = 0
        self.there = 0
        self.arrived = Signal[[]]()
        self.lag = WatchLag(self, self.arrived, self.is_missing, most=1, seconds=seconds)

    def handle(self, request: AdmissionRequest) -> Response:
        del request
        return Allowed((f"there: {self.there}",))

    def is_missing(self, request: AdmissionRequest, response: Response) -> bool:
        del request, response
        self.asked += 1
        return self.there < 3

    def arrive(self) -> None:
        self.there += 1
        self.arrived.emit()

    def request(self) -> asyncio.Future[Response]:
        answered = self.lag.handle(review({}, deadline=asyncio.get_running_loop().time() + 60.0))
        assert isinstance(answered, Awaitable)
        return asyncio.ensure_future(answered)


async def test_a_request_asks_once_for_each_object_that_arrives() -> None:
    objects = FakeObjects()
    response = objects.request()
    for _ in range(3):
        await asyncio.sleep(0)
        objects.arrive()
    assert await response == Allowed(("there: 3",))
    assert objects.asked == 4


async def test_an_object_that_arrives_before_the_wait_begins_ends_it() -> None:
    objects = FakeObjects()
    objects.there = 2
    response = objects.request()
    objects.arrive()
    assert await response == Allowed(("there: 3",))
    assert objects.asked == 2


@pytest.mark.parametrize("there", [0, 3])
async def test_after_the_longest_wait_it_asks_once_more(there: int) -> None:
    objects = FakeObjects(seconds=0.0)
    response = objects.request()
    objects.there = there
    assert await response == Allowed((f"there: {there}",))
    assert objects.asked == 2


KNOWN = Allowed(("known: True",))


class FakeNamespaces:
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
            response = self.lag.handle(review({}, namespace=name, deadline=_now() + deadline))
            return await response if isinstance(response, Awaitable) else response

        return asyncio.ensure_future(answered())

    def _answer(self, request: AdmissionRequest) -> Response:
        return self.response or Allowed((f"known: {self.cache.knows_namespace(request.namespace)}",))


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_known_namespace_is_decided_on_at_once() -> None:
    namespaces = FakeNamespaces("new")
    assert namespaces.lag.handle(review({}, namespace="new")) == KNOWN


async def test_a_pod_waits_for_its_namespace_and_for_no_other() -> None:
    namespaces = FakeNamespaces()
    answer = namespaces.ask()
    await _turn()
    namespaces.arrive("other")
    await _turn()
    assert not answer.done()
    namespaces.arrive("new")
    assert await answer == KNOWN


@pytest.mark.parametrize(("seconds", "deadline"), [(0.01, 60.0), (60.0, 0.51)])
async def test_one_that_does_not_come_is_told_in_time(seconds: float, deadline: float) -> None:
    response = await FakeNamespaces(seconds=seconds).ask(deadline=deadline)
    assert isinstance(response, Allowed)
    said, warning = response.warnings
    assert said == "known: False"
    assert warning.startswith("topology-webhook does not know namespace new yet: ")


async def test_a_denial_stays_as_it_is() -> None:
    namespaces = FakeNamespaces(seconds=0.01)
    namespaces.response = Denied("no")
    assert await namespaces.ask() == Denied("no")


async def test_few_wait_at_a_time() -> None:
    namespaces = FakeNamespaces()
    waiting = [namespaces.ask() for _ in range(MOST_PODS)]
    await _turn()
    another = namespaces.ask("other")
    await _turn()
    assert another.done()
    assert not any(one.done() for one in waiting)
    namespaces.arrive("new")
    for one in waiting:
        assert await one == KNOWN


RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
NETWORK = topology(labels=["example.com/rack"])


def creation(annotations: dict[str, str]) -> AdmissionRequest:
    raw = workload(kind="Job", name="train", annotations=annotations, spec={"template": template()})
    return review(raw, namespace="team", name="train")


def handler_of(cache: ClusterCache, seconds: float = 60.0) -> Handler:
    return topology_lag(WorkloadValidator(cache.snapshot, Rules()), cache, seconds)


def asked(handler: Handler, annotations: dict[str, str]) -> Response | Awaitable[Response]:
    return handler.handle(creation(annotations))


async def test_a_workload_waits_for_the_topology_that_it_names() -> None:
    cache = ClusterCache()
    answer = asked(handler_of(cache), RACK)
    assert isinstance(answer, Awaitable)
    pending = asyncio.ensure_future(answer)
    await asyncio.sleep(0)
    assert not pending.done()
    cache.topologies[TopologySource.KAI].upsert("network", NETWORK)
    assert await pending == Allowed()


async def test_and_is_denied_when_that_does_not_come() -> None:
    answer = asked(handler_of(ClusterCache(), 0.1), RACK)
    assert isinstance(answer, Awaitable)
    response = await answer
    assert isinstance(response, Denied)
    assert 'There is no topology "network"' in response.message


async def test_only_a_few_wait_at_a_time() -> None:
    cache = ClusterCache()
    handler = handler_of(cache)
    waiting = []
    while isinstance(answer := asked(handler, RACK), Awaitable):
        waiting.append(asyncio.ensure_future(answer))
        await asyncio.sleep(0)
        assert len(waiting) <= MOST_WORKLOADS
    assert isinstance(answer, Denied)
    cache.topologies[TopologySource.KAI].upsert("network", NETWORK)
    assert {await one for one in waiting} == {Allowed()}


@pytest.mark.parametrize(
    "annotations", [{}, {**RACK, "kai.scheduler/topology": "other"}, {**RACK, "kai.scheduler/segment-size": "x"}]
)
async def test_any_other_workload_is_answered_at_once(annotations: dict[str, Any]) -> None:
    cache = ClusterCache()
    for name in ("network", "other"):
        raw = {**NETWORK, "metadata": {"name": name}}
        cache.topologies[TopologySource.KAI].upsert(name, raw)
    answer = asked(handler_of(cache), annotations)
    assert answer == WorkloadValidator(cache.snapshot, Rules()).handle(creation(annotations))
