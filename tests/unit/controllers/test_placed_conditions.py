"""When the condition `Placed` of a pod is written, and what it says."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.unit.controllers.leader import ApiServer
from webhook.controllers import placed_conditions
from webhook.controllers.placed_conditions import PlacedConditions
from webhook.formats.kubernetes.placed_condition import placed_condition
from webhook.model.names import PLACEMENT

NOW = 1_000.0


class FakeCluster:
    """Pods, and the writer of their conditions. `reasons`: those that were reported, by key."""

    def __init__(self) -> None:
        self.cache = cluster_cache(node(name="n0"))
        self.api = ApiServer(self.cache)
        self.reasons: dict[str, str] = {}
        self.leads = True
        self.conditions = PlacedConditions(
            self.cache, self.api, lambda key, _uid: self.reasons.get(key), lambda: self.leads
        )

    def waits(self, name: str = "p", text: str = "waiting: no room") -> None:
        self.api.has(gated(name=name, annotations={PLACEMENT: text}, metadata={"uid": f"uid-{name}"}))
        self.reasons[f"default/{name}"] = "NoSingleNUMANode"

    def change(self, name: str = "p", text: str | None = None, **spec: Any) -> None:
        raw = self.api.pods[f"default/{name}"]
        metadata = raw["metadata"]
        if text is not None:
            metadata = {**metadata, "annotations": {**metadata["annotations"], PLACEMENT: text}}
        self.api.has({**raw, "metadata": metadata, "spec": {**raw["spec"], **spec}})

    def bind(self, name: str = "p") -> None:
        self.change(name, "bound to n0, NUMA 0", nodeName="n0", schedulingGates=[])

    def condition(self, name: str = "p") -> tuple[str, str, str]:
        found = placed_condition(self.api.pods[f"default/{name}"])
        return found["status"], found["reason"], found["message"]

    async def sweep(self, second: float = 0.0) -> None:
        await self.conditions.sweep(NOW + second)


@pytest.fixture(autouse=True)
def dates(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The dates of writes, one after the other."""
    dates = [f"2030-01-01T00:00:{second:02}Z" for second in range(60)]

    class Clock:
        @staticmethod
        def now(_zone: object) -> "Clock":
            return Clock()

        @staticmethod
        def strftime(_form: str) -> str:
            return dates.pop(0)

    monkeypatch.setattr(placed_conditions, "datetime", Clock)
    return dates


async def test_a_waiting_pod_says_why_with_the_words_of_its_placement_once_that_is_reported() -> None:
    site = FakeCluster()
    site.waits()
    del site.reasons["default/p"]
    await site.sweep()
    site.waits()
    site.leads = False
    await site.sweep()
    assert site.api.conditions == []
    site.leads = True
    for second in range(3):
        await site.sweep(second)
    assert site.condition() == ("False", "NoSingleNUMANode", "waiting: no room")
    assert len(site.api.conditions) == 1


async def test_another_text_changes_the_message_alone_and_a_bound_pod_is_placed_since_that_write() -> None:
    site = FakeCluster()
    site.waits()
    raw = site.api.pods["default/p"]
    site.api.has({**raw, "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}})
    await site.sweep()
    site.change(text="waiting: no rack")
    await site.sweep(1)
    assert site.condition() == ("False", "NoSingleNUMANode", "waiting: no rack")
    found = site.api.pods["default/p"]
    assert placed_condition(found)["lastTransitionTime"] == "2030-01-01T00:00:00Z"
    assert [one["type"] for one in found["status"]["conditions"]] == ["PodScheduled", "topology-webhook.dev/Placed"]
    site.bind()
    await site.sweep(2)
    assert site.condition() == ("True", "Bound", "bound to n0, NUMA 0")
    assert placed_condition(site.api.pods["default/p"])["lastTransitionTime"] == "2030-01-01T00:00:01Z"
    site.change(text="bound to n0, NUMA 1")
    await site.sweep(3)
    assert len(site.api.conditions) == 3
    assert site.cache.unconfirmed_pods() == {}


async def test_a_message_is_cut_to_the_length_of_a_condition() -> None:
    site = FakeCluster()
    site.waits(text="waiting: " + "x" * 40_000)
    await site.sweep()
    assert len(site.condition()[2]) == 32_768
    await site.sweep(40)
    assert len(site.api.conditions) == 1


async def test_a_pod_that_the_scheduler_has_not_bound_for_long_is_not_placed() -> None:
    site = FakeCluster()
    site.waits()
    site.change(text="the scheduler chooses the node, for its volumes", schedulingGates=[])
    await site.sweep()
    assert site.api.conditions == []
    await site.sweep(10)
    assert site.condition() == ("False", "WaitingForScheduler", "the scheduler chooses the node, for its volumes")


async def test_while_many_pods_get_their_nodes_nothing_is_written_for_a_minute() -> None:
    site = FakeCluster()
    names = [f"p{number}" for number in range(3)]
    for name in names:
        site.waits(name)
        site.bind(name)
    await site.sweep()
    assert site.api.conditions == []
    assert site.conditions.is_delayed()
    for second in range(1, 3):
        await site.sweep(second)  # no more pods were bound
    assert len(site.api.conditions) == 3
    assert not site.conditions.is_delayed()


async def test_if_pods_get_their_nodes_all_the_time_conditions_are_written_after_a_minute() -> None:
    site = FakeCluster()
    for second in range(0, 66, 5):
        for number in range(11):
            name = f"p{second}-{number}"
            site.waits(name)
            site.bind(name)
        await site.sweep(second)
        assert bool(site.api.conditions) == (second >= 60)
    assert [key for key, _, _ in site.api.conditions][:11] == [f"default/p0-{number}" for number in range(11)]


async def test_a_condition_that_another_controller_removes_is_written_again_every_half_minute() -> None:
    site = FakeCluster()
    site.waits()
    site.bind()
    for second in range(61):
        raw = site.api.pods["default/p"]
        site.api.has({**raw, "status": {}})
        await site.sweep(second)
    assert len(site.api.conditions) == 3
