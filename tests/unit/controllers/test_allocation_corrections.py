"""Allocations of bound pods on their way to what they should be; the API server answers as the test says."""

import asyncio
import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.controllers.pod_api import Server, Told, bound
from webhook.controllers.allocation_corrections import AllocationCorrections
from webhook.formats.koordinator.numa_allocation import NUMAAllocation, NUMANodeAmounts, resource_status_to_json
from webhook.formats.patches.json_patch import apply
from webhook.kube.write import Outcome
from webhook.metrics import PlacementMetrics
from webhook.model.names import NUMA_ALLOCATION, PLACEMENT, RESOURCE_STATUS
from webhook.state.assumed.known_placements import AllocationChange
from webhook.state.cluster_cache import ClusterCache

ON_0: NUMANodeAmounts = ((0, {"cpu": 8000}),)
ON_1: NUMANodeAmounts = ((1, {"cpu": 8000}),)


def allocated(numa_nodes: NUMANodeAmounts, **more: str) -> dict[str, Any]:
    """A bound pod with an allocation of ours."""
    allocation = NUMAAllocation("n0", numa_nodes).to_json()
    return bound(**{NUMA_ALLOCATION: allocation, RESOURCE_STATUS: resource_status_to_json(numa_nodes), **more})


BLANK = bound(
    **{NUMA_ALLOCATION: NUMAAllocation.without_numa_nodes("n0").to_json(), RESOURCE_STATUS: resource_status_to_json(())}
)


def change(allocation: NUMANodeAmounts | None) -> AllocationChange:
    return AllocationChange("default/p", "u", "n0", allocation)


class Allocated(ClusterCache):
    """A cluster in which some allocations are not what they should be."""

    def __init__(self, *changes: AllocationChange) -> None:
        super().__init__()
        self.changes = list(changes)

    def allocation_changes(self) -> tuple[AllocationChange, ...]:
        return tuple(self.changes)

    def allocation_change(self, pod: str) -> AllocationChange | None:
        return next((change for change in self.changes if change.pod == pod), None)

    def allocation_written(self, change: AllocationChange) -> None:
        self.changes.remove(change)


class Corrected:
    """What became of one change."""

    def __init__(self, server: Server, change: AllocationChange, *, leads: bool = True) -> None:
        self.registry, self.told = CollectorRegistry(), Told()
        self._cache, self._leads = Allocated(change), leads
        self._metrics = PlacementMetrics(self.registry, "topology_webhook")
        asyncio.run(self._sweep(server))
        self.open = self._cache.changes
        self.annotations = None
        if server.sent:
            before = allocated(()) if server._now is None else server._now
            self.annotations = apply(before, server.sent[-1])["metadata"]["annotations"]

    async def _sweep(self, server: Server) -> None:
        corrections = AllocationCorrections(self._cache, server, self.told, lambda: self._leads, self._metrics, 2)
        await corrections.sweep(0)
        await corrections.settle()

    def counted(self, how: str) -> float | None:
        return self.registry.get_sample_value("topology_webhook_hints_corrected_total", {"how": how})


def corrected(
    raw: dict[str, Any] | None, allocation: NUMANodeAmounts | None, outcome: Outcome = Outcome.WRITTEN
) -> Corrected:
    return Corrected(Server(outcome, now=raw), change(allocation))


def test_an_allocation_in_doubt_is_taken_away_from_agents_too() -> None:
    done = corrected(allocated(ON_0, other="stays"), None)
    assert done.annotations is not None
    assert not done.annotations.keys() & {NUMA_ALLOCATION, RESOURCE_STATUS}
    assert done.annotations["other"] == "stays"
    assert (done.open, done.counted("removed"), done.told.events) == ([], 1.0, [])


def test_a_blank_one_is_taken_away() -> None:
    done = corrected(BLANK, None)
    assert done.annotations is not None
    assert not done.annotations.keys() & {NUMA_ALLOCATION, RESOURCE_STATUS}


def test_what_is_known_in_the_end_is_written() -> None:
    done = corrected(bound(), ON_1)
    assert done.annotations is not None
    assert done.annotations[NUMA_ALLOCATION] == NUMAAllocation("n0", ON_1).to_json()
    assert done.annotations[RESOURCE_STATUS] == resource_status_to_json(ON_1)
    assert done.counted("written") == 1.0


def test_a_wrong_allocation_is_changed_and_an_event_says_so() -> None:
    done = corrected(allocated(ON_0), ON_1)
    assert done.annotations is not None
    assert json.loads(done.annotations[NUMA_ALLOCATION])["numaNodeResources"][0]["node"] == 1
    assert done.counted("changed") == 1.0
    (event,) = done.told.events
    assert (event.reason, event.uid) == ("HintCorrected", "u")
    assert event.note == "n0, NUMA 1, not n0, NUMA 0 as allocated; that is corrected"


@pytest.mark.parametrize(
    ("allocation", "line"), [(ON_1, "placed on n0, NUMA 1"), (None, "placed on n0, NUMA nodes not certain yet")]
)
def test_what_people_read_is_corrected_as_well(allocation: NUMANodeAmounts | None, line: str) -> None:
    done = corrected(allocated(ON_0, **{PLACEMENT: "placed on n0, NUMA 0\nbest n0"}), allocation)
    assert done.annotations is not None
    assert done.annotations[PLACEMENT] == f"{line}\nbest n0"


def test_the_patch_is_of_this_pod_whatever_its_kubelet_writes_meanwhile() -> None:
    server = Server(Outcome.WRITTEN, now=allocated(ON_0))
    Corrected(server, change(None))
    assert server.sent[0][0] == {"op": "replace", "path": "/metadata/uid", "value": "u"}


def test_a_pod_that_is_as_it_should_be_is_left_as_it_is() -> None:
    for raw, allocation in ((allocated(ON_1), ON_1), (bound(), None)):
        server = Server(now=raw)
        assert Corrected(server, change(allocation)).open == []
        assert server.sent == []


def test_what_koordinator_wrote_stays() -> None:
    status = '{"cpuset":"0-3","numaNodeResources":[{"node":0}]}'
    server = Server(now=bound(**{RESOURCE_STATUS: status}))
    assert Corrected(server, change(ON_1)).open == []
    assert server.sent == []
    done = corrected(allocated(ON_0, **{RESOURCE_STATUS: status}), ON_1)
    assert done.annotations is not None
    assert done.annotations[RESOURCE_STATUS] == status


@pytest.mark.parametrize(
    "now", [None, bound(uid="the next"), bound(node="n1"), allocated(ON_0) | {"status": {"phase": "Failed"}}]
)
def test_another_pod_and_one_that_has_ended_are_left_as_they_are(now: dict[str, Any] | None) -> None:
    server = Server(now=now)
    Corrected(server, change(ON_1))
    assert server.sent == []


@pytest.mark.parametrize("outcome", [Outcome.STALE, Outcome.UNKNOWN, Outcome.NOT_NOW, Outcome.GONE])
def test_what_was_not_written_is_tried_again(outcome: Outcome) -> None:
    done = corrected(allocated(ON_0), ON_1, outcome)
    assert (done.open, done.counted("changed"), done.told.events) == ([change(ON_1)], None, [])


def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    server = Server(now=allocated(ON_0))
    Corrected(server, change(ON_1), leads=False)
    assert server.sent == []


async def test_changes_are_written_when_they_are_told() -> None:
    cache, server = Allocated(), Server(Outcome.WRITTEN, now=allocated(ON_0))
    metrics = PlacementMetrics(CollectorRegistry(), "topology_webhook")
    corrections = AllocationCorrections(cache, server, Told(), lambda: True, metrics, 2)
    running = asyncio.create_task(corrections.run())
    cache.changes.append(change(None))
    cache.allocations_changed.emit()
    while cache.changes:  # noqa: ASYNC110 # the loop has its own pace
        await asyncio.sleep(0.001)
    running.cancel()
    assert len(server.sent) == 1


async def test_numa_nodes_that_became_uncertain_while_the_pod_was_read_are_not_written() -> None:
    cache = Allocated(change(ON_1))

    class Slow(Server):
        async def read(self, key: str) -> dict[str, Any] | None:
            cache.changes[:] = [change(None)]  # another pod has just ended there
            return await super().read(key)

    server = Slow(Outcome.WRITTEN, now=allocated(ON_0))
    metrics = PlacementMetrics(CollectorRegistry(), "topology_webhook")
    corrections = AllocationCorrections(cache, server, Told(), lambda: True, metrics, 2)
    await corrections.sweep(0)
    await corrections.settle()
    assert server.sent == []
