"""The condition of PodGroups of Kubernetes itself: what is written, and when the scheduler's stays."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.builders.clusters import machine, put
from tests.builders.native_pod_groups import gated_in_group, native_pod_group
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from webhook.controllers.native_group_conditions import NativeGroupConditions
from webhook.kube.write import Outcome, Write

RACK = "example.com/rack"
GROUP = native_pod_group(minimum=2, level=RACK)


class Site:
    """A leader with one rack of two nodes, and the conditions that it writes; the API server shows them."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        nodes = [
            *machine(name="n0", free=[16], labels={RACK: "r1"}),
            *machine(name="n1", free=[16], labels={RACK: "r1"}),
        ]
        self.leader = Leader(*nodes, topology(labels=[RACK]), *objects)
        self.cache = self.leader.cache
        self.written: list[dict[str, Any]] = []
        self.answer = True
        writes: Any = self
        self.conditions = NativeGroupConditions(self.cache, writes, lambda: self.leader.leads)
        self.leader.controller.gang_examined.subscribe(self.conditions.saw)

    async def set_condition(self, key: str, version: str, condition: dict[str, Any]) -> Write:
        assert (key, version) == ("default/g", "v1alpha2")
        if self.answer:
            self.written.append(condition)
            self.shows(condition)
        return Write(Outcome.WRITTEN if self.answer else Outcome.REFUSED)

    def shows(self, condition: Mapping[str, Any]) -> None:
        """The PodGroup has this condition, from any writer."""
        put(self.cache, {**GROUP, "status": {"conditions": [dict(condition)]}})

    def turn(self) -> list[tuple[str, str, str]]:
        """One cycle and one comparison, as if the last were long ago; returns what has been written so far."""
        self.leader.controller._changed()
        asyncio.run(self.leader.cycle())
        self.conditions._not_before.clear()
        asyncio.run(self.conditions.sweep(0))
        return [(one["status"], one["reason"], one["message"]) for one in self.written]

    def bind(self, *names: str) -> None:
        for name in names:
            raw = self.leader.api.pods[f"default/{name}"]
            self.leader.api.has({**raw, "spec": {**raw["spec"], "nodeName": self.leader.nodes()[name]}})


WAITS = ("False", "Unschedulable", "gang g: 1 of the 2 pods that must start together are there")
PLACED = ("True", "Scheduled", "placed in r1: 2 pods on 2 nodes")


def members(*names: str) -> list[dict[str, Any]]:
    return [gated_in_group(name=name, cpu=16) for name in names]


def test_it_says_what_the_group_waits_for_and_then_where_it_is_placed() -> None:
    site = Site(GROUP)
    assert site.turn() == []  # no pod names it
    site.leader.api.has(*members("a"))
    assert site.turn() == [WAITS]
    assert site.turn() == [WAITS]
    site.leader.api.has(*members("b"))
    assert site.turn() == [WAITS]  # the scheduler has not bound them yet
    site.bind("a")
    assert site.turn() == [WAITS]
    site.bind("b")
    assert site.turn() == [WAITS, PLACED]
    assert [one["type"] for one in site.written] == ["PodGroupScheduled"] * 2
    site.leader.api.has(*members("c"))
    (*_, last) = site.turn()
    assert last[:2] == ("True", "Scheduled")
    assert last[2].startswith("placed in r1: 2 pods on 2 nodes; others wait: gang g")


def test_it_names_the_fields_of_the_group_that_have_no_effect_here() -> None:
    site = Site(native_pod_group(minimum=2, level=RACK, resourceClaims=[{"name": "c"}]))
    site.leader.api.has(*members("a"))
    ignored = "; spec.resourceClaims is for the scheduler: devices of claims are not counted per NUMA node"
    assert site.turn() == [(*WAITS[:2], f"{WAITS[2]}{ignored}")]


def test_what_the_scheduler_writes_is_not_written_over() -> None:
    site = Site(GROUP)
    site.leader.api.has(*members("a", "b"))
    site.turn()
    site.bind("a", "b")
    assert site.turn() == [PLACED]
    site.shows({"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": "3 of 3"})
    assert site.turn() == [PLACED]
    site.shows({"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""})
    assert site.turn() == [PLACED, PLACED]
    site.leader.leads = False
    site.turn()
    site.leader.leads = True  # a new leader has not said anything
    site.shows({"type": "PodGroupScheduled", "status": "True", "reason": PLACED[1], "message": PLACED[2]})
    assert site.turn() == [PLACED, PLACED]


def test_a_group_that_was_scheduled_once_does_not_become_unscheduled() -> None:
    site = Site(GROUP)
    site.shows({"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""})
    site.leader.api.has(*members("a"))
    assert site.turn() == []


def test_a_refused_write_is_tried_again_later() -> None:
    site = Site(GROUP)
    site.leader.api.has(*members("a"))
    site.answer = False
    assert site.turn() == []
    assert site.conditions._not_before.keys() == {"default/g"}
    site.answer = True
    assert site.turn() == [WAITS]


def test_the_fault_of_a_group_is_in_its_condition() -> None:
    site = Site(native_pod_group(minimum=2, level="example.com/none"))
    site.leader.api.has(*members("a"))
    ((status, _, message),) = site.turn()
    assert status == "False"
    assert '"example.com/none" is a level of no Topology. Levels are: example.com/rack.' in message
