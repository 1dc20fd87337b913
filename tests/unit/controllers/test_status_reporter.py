"""Which text is written when about a pod that waits, that it is not written twice, and how waiting pods are counted."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.unit.controllers.leader import ApiServer, Leader, metrics
from webhook.controllers import status_reporter
from webhook.controllers.status_reporter import StatusReporter
from webhook.controllers.waiting_pods import REST, waiting_pods
from webhook.kube.write import Outcome, Write
from webhook.model.names import PLACEMENT, POD_GROUP_NAME
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.wait_reason import WaitReason


def because(why: str, *, of_one: bool = False) -> NoAssignment:
    """Why a pod waits; each text is another kind of reasons."""
    return NoAssignment(frozenset({why}), f"waiting: {why}", WaitReason.NO_NODE, of_one=of_one)


class FakeCluster:
    """A reporter of one pod that waits."""

    def __init__(self, **how: Any) -> None:
        cache = cluster_cache()
        self.api = ApiServer(cache)
        self.api.has(gated(**how))
        events: Any = self.api
        self.reporter = StatusReporter(self.api, events, cache.gated_pods, metrics())

    @property
    def pod(self) -> dict[str, Any]:
        return self.api.pods["default/p"]

    def says(self) -> str:
        """What the pod says of its placement."""
        return str(self.pod["metadata"]["annotations"].get(PLACEMENT, ""))

    def notes(self) -> list[str]:
        return [event.note for event in self.api.events]

    async def report(self) -> None:
        """Let the reporter write all that it has."""
        task = asyncio.create_task(self.reporter.run())
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reporter, "_SETTLE_SECONDS", 0.0)


async def test_why_a_pod_waits_is_written_into_it_and_told_in_an_event_once_and_only_the_newest() -> None:
    one = FakeCluster()
    for why in ("first of 3 pods", "second of 3 pods", "no room"):
        one.reporter.waits(one.pod, because(why))
    await one.report()
    assert one.says() == "waiting: no room"
    assert one.notes() == ["waiting: no room"]
    one.reporter.waits(one.pod, because("no room"))
    await one.report()
    assert one.api.patched == ["default/p"]


async def test_the_same_kind_of_reasons_is_no_news_another_kind_is_and_so_is_a_recreated_pod() -> None:
    one = FakeCluster()
    one.reporter.waits(one.pod, because("no room"))
    assert not one.reporter.news(one.pod, frozenset({"no room"}))
    assert one.reporter.news(one.pod, frozenset({"no rack"}))
    assert one.reporter.news(gated(metadata={"uid": "another"}), frozenset({"no room"}))


async def test_nothing_is_told_of_a_pod_that_has_left_the_gate_before_its_turn() -> None:
    one = FakeCluster()
    one.reporter.waits(one.pod, because("no room"))
    one.reporter.keep(set())
    await one.report()
    assert (one.notes(), one.says()) == ([], "")


async def test_what_was_found_of_a_pod_is_not_said_of_the_next_one_of_its_name() -> None:
    one = FakeCluster()
    one.reporter.waits(one.pod, because("no room"))
    one.api.has(gated(metadata={"uid": "another"}))
    await one.report()
    assert (one.says(), one.notes()) == ("", [])
    assert one.reporter.reported_reason("default/p", "another") is None
    one.reporter.waits(one.pod, because("no rack"))
    await one.report()
    assert one.says() == "waiting: no rack"
    assert one.reporter.reported_reason("default/p", "another") == WaitReason.NO_NODE
    assert one.reporter.reported_reason("default/p", "p") is None


async def test_what_its_creation_said_of_the_pod_is_told_in_an_event_alone() -> None:
    one = FakeCluster(annotations={PLACEMENT: "waiting: none of 3 nodes fits"})
    one.reporter.waits(one.pod, because("no room", of_one=True))
    await one.report()
    assert one.notes() == ["waiting: no room"]
    assert one.api.patched == []


async def test_a_later_reason_is_written_over_what_its_creation_said() -> None:
    one = FakeCluster(annotations={PLACEMENT: "waiting: none of 3 nodes fits"})
    one.reporter.waits(one.pod, because("no room", of_one=True))
    await one.report()
    one.reporter.waits(one.pod, because("nodes are kept for a gang", of_one=True))
    await one.report()
    assert one.says() == "waiting: nodes are kept for a gang"


async def test_a_policy_that_the_pod_takes_from_its_owners_is_written_over_what_its_creation_said() -> None:
    one = FakeCluster(annotations={PLACEMENT: "waiting: each node's own NUMA policy: none of 3 nodes fits"})
    one.reporter.waits(one.pod, because("SingleNUMANode: none of 3 nodes fits", of_one=True), takes_policy=True)
    await one.report()
    assert one.says() == "waiting: SingleNUMANode: none of 3 nodes fits"


async def test_a_member_gets_the_name_of_its_gang_with_the_reason() -> None:
    one = FakeCluster()
    one.reporter.waits(one.pod, because("2 of the 3 pods"), group="pg-w")
    await one.report()
    assert one.pod["metadata"]["annotations"][POD_GROUP_NAME] == "pg-w"


async def test_a_pod_that_is_ungated_without_an_assignment_says_so_once_and_waits_no_more() -> None:
    one = FakeCluster()
    one.reporter.waits(one.pod, because("no room"))
    one.reporter.ungated("default/p", one.pod, "ungated without an assignment")
    await one.report()
    assert one.api.told() == [("default/p", "Ungated")]


async def test_a_text_whose_pod_changed_meanwhile_is_written_again_and_its_event_is_not() -> None:
    site = FakeCluster()
    site.api.outcome = Outcome.STALE
    site.reporter.waits(site.pod, because("no room"))
    await site.report()
    assert (site.api.patched, site.says()) == (["default/p"] * 3, "")
    site.reporter.waits(site.pod, because("less room"))
    patch = site.api.patch

    async def patch_and_settle(key: str, operations: Sequence[dict[str, Any]]) -> Write:
        outcome = await patch(key, operations)
        site.api.outcome = Outcome.WRITTEN
        return outcome

    site.api.patch = patch_and_settle  # type: ignore[method-assign]
    await site.report()
    assert site.says() == "waiting: less room"
    assert site.notes() == ["waiting: no room", "waiting: less room"]


def test_pods_are_counted_by_namespace_and_reason() -> None:
    reasons = {"a/p": "NoNode", "a/q": "NoNode", "a/r": "Pending", "b/p": "NoNode"}
    assert waiting_pods(reasons, reasons.__getitem__) == {("a", "NoNode"): 2, ("a", "Pending"): 1, ("b", "NoNode"): 1}


def test_the_namespaces_with_the_fewest_pods_are_counted_together() -> None:
    reasons = {"a/p": "x", "b/p": "x", "b/q": "y", "c/p": "x", "d/p": "x", "d/q": "y"}
    found = waiting_pods(reasons, reasons.__getitem__, most=2)
    assert found == {("b", "x"): 1, ("b", "y"): 1, ("d", "x"): 1, ("d", "y"): 1, (REST, "x"): 2}
    assert sum(found.values()) == len(reasons)


async def test_a_pod_that_fits_nowhere_has_the_reason_of_the_nodes_that_came_closest() -> None:
    # n0 [1 1]  n1 cordoned      [free cpus per NUMA node]
    leader = Leader(node(name="n0"), nrt(node="n0", free=(1, 1)), node(name="n1", unschedulable=True))
    leader.api.has(gated(cpu="2"))
    reason_of = leader.controller._status_reporter.reason_of
    assert waiting_pods(leader.cache.gated_pods(), reason_of) == {("default", "Pending"): 1}
    await leader.cycle()
    assert waiting_pods(leader.cache.gated_pods(), reason_of) == {("default", "NoSingleNUMANode"): 1}
