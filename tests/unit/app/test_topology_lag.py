"""What a review waits for: a Topology that was created just before the workload that names it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from webhook.admission.response import Allowed, Denied, Response
from webhook.admission.workload.validate import WorkloadValidator
from webhook.app.webhooks import MOST_WORKLOADS, topology_lag
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation, User
from webhook.formats.topology import TopologySource
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

if TYPE_CHECKING:
    from webhook.admission.handler import Handler

RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
NETWORK = topology(labels=["example.com/rack"])


def creation(annotations: dict[str, str]) -> AdmissionRequest:
    raw = workload(kind="Job", name="train", annotations=annotations, spec={"template": template()})
    names = ("u", "batch", "v1", "Job", "jobs", "")
    return AdmissionRequest(*names, Operation.CREATE, "team", "train", raw, {}, User("someone", ()), False)


def handler_of(cache: ClusterCache, seconds: float = 60.0) -> Handler:
    return topology_lag(WorkloadValidator(cache.snapshot, Rules()), cache, seconds)


def asked(handler: Handler, annotations: dict[str, str]) -> Response | Awaitable[Response]:
    return handler.handle(creation(annotations))


async def test_a_workload_waits_for_the_topology_that_it_names() -> None:
    cache = ClusterCache()
    answer = asked(handler_of(cache), RACK)
    assert isinstance(answer, Awaitable)
    review = asyncio.ensure_future(answer)
    await asyncio.sleep(0)
    assert not review.done()
    cache.topologies[TopologySource.KAI].upsert("network", NETWORK)
    assert await review == Allowed()


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
    assert {await review for review in waiting} == {Allowed()}


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
