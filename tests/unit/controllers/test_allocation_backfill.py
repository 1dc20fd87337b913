"""Allocations on their way into pods that were bound without one; the API server answers as the test says."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.controllers.pod_api import Server, Told, bound
from webhook.controllers.allocation_backfill import AllocationBackfiller
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.patches.json_patch import apply
from webhook.kube.events import ObjectEvent
from webhook.kube.write import Outcome
from webhook.metrics import PlacementMetrics
from webhook.model.names import NUMA_ALLOCATION, RESOURCE_STATUS
from webhook.state.cluster_cache import ClusterCache
from webhook.state.kubelet_predictions import AllocationBackfill

ALLOCATION = NUMAAllocation("n0", ((1, {"cpu": 8000}),))
LATE = AllocationBackfill("default/p", "u", ALLOCATION)
COUNTED = "topology_webhook_hints_backfilled_total"


class FakeCache(ClusterCache):
    """A cluster in which allocations are missing."""

    def __init__(self, *backfill: AllocationBackfill) -> None:
        super().__init__()
        self._missing = backfill

    def allocation_backfills(self) -> Iterator[AllocationBackfill]:
        return iter(self._missing)


def sweep(server: Server, backfill: AllocationBackfill = LATE) -> tuple[Sequence[ObjectEvent], float | None]:
    """What was told, and how many allocations were counted."""
    registry, told = CollectorRegistry(), Told()
    metrics = PlacementMetrics(registry, "topology_webhook")
    allocations = AllocationBackfiller(FakeCache(backfill), server, told, lambda: True, metrics, concurrency=2)
    asyncio.run(allocations.sweep(0))
    return told.events, registry.get_sample_value(COUNTED)


def test_an_allocation_goes_into_the_pod_as_it_was_just_read_and_is_counted() -> None:
    server = Server(Outcome.WRITTEN, now=bound())
    assert sweep(server) == ([], 1.0)
    (patch,) = server.sent
    assert patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    annotations = apply(bound(), patch)["metadata"]["annotations"]
    assert annotations[NUMA_ALLOCATION] == ALLOCATION.to_json()
    assert RESOURCE_STATUS in annotations


def test_a_cpuset_that_koordinator_wrote_stays() -> None:
    raw = bound(**{RESOURCE_STATUS: '{"cpuset": "0-3"}'})
    server = Server(Outcome.WRITTEN, now=raw)
    sweep(server)
    (patch,) = server.sent
    assert apply(raw, patch)["metadata"]["annotations"][RESOURCE_STATUS] == '{"cpuset": "0-3"}'


@pytest.mark.parametrize(
    "forged", [{NUMA_ALLOCATION: "{"}, {NUMA_ALLOCATION: '{"node": "n9"}'}, {RESOURCE_STATUS: "["}]
)
def test_what_nobody_believes_is_written_over(forged: dict[str, str]) -> None:
    server = Server(Outcome.WRITTEN, now=bound(**forged))
    sweep(server)
    (patch,) = server.sent
    annotations = apply(bound(**forged), patch)["metadata"]["annotations"]
    assert annotations[NUMA_ALLOCATION] == ALLOCATION.to_json()
    assert json.loads(annotations[RESOURCE_STATUS])["numaNodeResources"][0]["node"] == 1


@pytest.mark.parametrize(
    "now",
    [
        None,
        bound(uid="the next"),
        bound(node="n1"),
        bound(**{NUMA_ALLOCATION: ALLOCATION.to_json(), RESOURCE_STATUS: "{}"}),
    ],
)
def test_another_pod_and_one_that_has_an_allocation_are_left_as_they_are(now: dict[str, Any] | None) -> None:
    server = Server(now=now)
    assert sweep(server) == ([], 0.0)
    assert server.sent == []


def test_an_allocation_that_was_not_written_is_not_counted() -> None:
    assert sweep(Server(Outcome.STALE, now=bound())) == ([], 0.0)


def test_where_there_is_none_an_event_says_why() -> None:
    server = Server()
    (event,), _ = sweep(server, replace(LATE, allocation=None, why_unassigned="because"))
    assert (event.key, event.uid, event.reason, event.note) == ("default/p", "u", "NUMANodesUnknown", "because")
    assert server.sent == []
