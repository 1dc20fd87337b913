"""The Events of a gang on its owner, against a cluster that is as the test says."""

import json
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.builders.workloads import job
from webhook.controllers import gang_events
from webhook.controllers.gang_events import GangEvents
from webhook.formats.kubernetes.owner_chain import owner_above, owner_chain_of
from webhook.kube.events import ObjectEvent
from webhook.model.names import DOMAIN, KAI_TOPOLOGY, POD_GROUP_NAME
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job", "controller": True}
GROUP = {POD_GROUP_NAME: "pg-w-uid-Job"}
NOW = 1_000.0


class FakeCluster:
    """A gang of two pods, and the Events about it. `clock`: seconds."""

    def __init__(self, *, warn_after: float = 0.0, owned: bool = True) -> None:
        self.cache = cluster_cache(node(name="n0"), node(name="n1"))
        self.raws = [self._raw(rank, owned=owned) for rank in range(2)]
        put(self.cache, *self.raws)
        self.told: list[ObjectEvent] = []
        self.leads = True
        events: Any = self
        self.events = GangEvents(self.cache, events, lambda: self.leads, warn_after)

    def _raw(self, rank: int, *, owned: bool) -> dict[str, Any]:
        raw = gated(name=f"w-{rank}-abcde")
        created = "2020-01-01T00:00:00Z"
        raw["metadata"] |= {"uid": f"uid-{rank}", "annotations": GROUP, "creationTimestamp": created}
        if owned:
            raw["metadata"]["ownerReferences"] = [OWNER]
        return raw

    def tell(self, event: ObjectEvent) -> None:
        self.told.append(event)

    def examined(self, why: str) -> None:
        """The controller has examined the gang."""
        owner = owner_above(self.raws[0])
        chain = owner_chain_of(owner, [job(**{KAI_TOPOLOGY: "t"})]) if owner else None
        (gang,) = units_of([GatedPod.from_object(raw, chain) for raw in self.raws])
        assert isinstance(gang, GatedGang)
        self.events.saw(gang, why)

    def assign(self, *ranks: int) -> None:
        for rank in ranks:
            raw = self.raws[rank]
            domain = json.dumps({"example.com/rack": "r7"})
            metadata = {**raw["metadata"], "annotations": {**GROUP, DOMAIN: domain}}
            spec = {**raw["spec"], "nodeName": f"n{rank}", "schedulingGates": []}
            put(self.cache, {**raw, "metadata": metadata, "spec": spec})

    def notes(self) -> list[tuple[str, str, str]]:
        return [(event.type, event.reason, event.note) for event in self.told]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_events, "monotonic", lambda: NOW)


def waiting(text: str) -> tuple[str, str, str]:
    return "Normal", "WaitingForPlacement", text


PLACED = "Normal", "Assigned", "placed in r7: 2 pods on 2 nodes"


async def test_a_gang_that_waits_has_one_event_on_its_owner_until_its_reason_changes() -> None:
    cluster = FakeCluster()
    # A change of numbers alone is no news.
    for second, why in enumerate(["rack-1 holds 1 pods", "rack-1 holds 1 pods", "rack-2 holds 2 pods", "no rack"], 1):
        cluster.examined(f"waiting: {why}")
        await cluster.events.sweep(NOW + 60 * second)
    assert cluster.notes() == [waiting("waiting: rack-1 holds 1 pods"), waiting("waiting: no rack")]
    assert {(event.api_version, event.kind, event.key, event.uid) for event in cluster.told} == {
        ("batch/v1", "Job", "default/w", "uid-Job")
    }


async def test_nothing_is_said_while_members_are_created_of_those_that_are_gone_and_without_an_owner_to_tell() -> None:
    creating, gone, unowned = FakeCluster(), FakeCluster(), FakeCluster(owned=False)
    creating.examined("waiting: 1 of the 2 pods are there")
    await creating.events.sweep(NOW + 0.5)
    for cluster in (gone, unowned):
        cluster.examined("waiting: no room")
    for raw in gone.raws:
        gone.cache.pods.delete(f"default/{raw['metadata']['name']}")
    for cluster in (gone, unowned):
        await cluster.events.sweep(NOW + 10)
    assert [cluster.notes() for cluster in (creating, gone, unowned)] == [[], [], []]
    assert gone.events._gangs == {}


async def test_who_does_not_lead_says_nothing_and_forgets() -> None:
    cluster = FakeCluster()
    cluster.examined("waiting: no room")
    cluster.leads = False
    await cluster.events.sweep(NOW + 10)
    cluster.leads = True
    await cluster.events.sweep(NOW + 20)
    assert cluster.notes() == []


async def test_reasons_that_change_all_the_time_are_reported_every_half_minute() -> None:
    cluster = FakeCluster()
    for second in range(2, 62, 2):
        cluster.examined(f"waiting: reason {'ab'[second // 2 % 2]}")
        await cluster.events.sweep(NOW + second)
    assert len(cluster.notes()) == 2


async def test_a_gang_that_was_placed_has_one_event_once_all_its_pods_are_ungated() -> None:
    cluster = FakeCluster()
    cluster.examined("waiting: no room")
    await cluster.events.sweep(NOW + 10)
    cluster.examined("")
    cluster.assign(0)
    await cluster.events.sweep(NOW + 11)
    assert cluster.notes() == [waiting("waiting: no room")]
    cluster.assign(1)
    for second in range(12, 100):
        await cluster.events.sweep(NOW + second)
    assert cluster.notes() == [waiting("waiting: no room"), PLACED]
    assert cluster.events._gangs == {}


async def test_after_the_time_that_is_set_it_is_a_warning_at_once() -> None:
    cluster = FakeCluster(warn_after=1e9)
    cluster.examined("waiting: no room")
    await cluster.events.sweep(NOW + 10)
    cluster.events._warn_after = 1.0  # the pods are years old
    await cluster.events.sweep(NOW + 11)
    await cluster.events.sweep(NOW + 100)
    assert cluster.notes() == [waiting("waiting: no room"), ("Warning", "WaitingForPlacement", "waiting: no room")]
