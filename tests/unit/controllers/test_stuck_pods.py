"""Pods that were ungated, and whose node can no longer take them while another one can."""

from typing import Any

import pytest

from tests.builders.clusters import machine, put
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader, metrics
from webhook.controllers.stuck_pods import Limits, StuckPods
from webhook.kube.write import Outcome
from webhook.state.rules import Rules

# n0 ── NUMA 0 [8]      [free cpus]; the pod asks for 8 and is placed there
N0 = machine(name="n0", free=(8,))

# n1 ── NUMA 0 [8]
N1 = machine(name="n1", free=(8,))
CORDONED = node(name="n0", cpus=16, unschedulable=True)
OF_A_JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "w", "controller": True}]


class Stuck(Leader):
    """A pod was placed on n0, which is cordoned before the scheduler binds it; n1 has come since."""

    def __init__(self, *, evict: bool = False, after: float = 30.0) -> None:
        super().__init__(*N0)
        events: Any = self.api
        limits = Limits(after=after, evict=evict)
        self.stuck = StuckPods(self.cache, self.api, events, Rules(), limits, self.is_leader, metrics())

    @classmethod
    async def made(cls, owned: bool = False, **how: Any) -> "Stuck":
        site = cls(**how)
        site.api.has(gated())
        await site.cycle()
        assert site.nodes() == {"p": "n0"}
        raw = site.api.pods["default/p"]
        if owned:
            raw = {**raw, "metadata": {**raw["metadata"], "ownerReferences": OF_A_JOB}}
        site.api.has(raw)
        put(site.cache, CORDONED, *N1)
        site.api.events.clear()
        return site

    async def sweeps(self, *times: float) -> None:
        for now in times:
            await self.stuck.sweep(now)


async def test_an_event_names_its_node_and_one_that_can_take_it_once_it_has_had_neither_gate_nor_node_for_so_long() -> (
    None
):
    site = await Stuck.made(after=30.0)
    await site.sweeps(0, 29)
    assert (site.stuck.count, site.api.told()) == (0, [])
    await site.sweeps(30)
    assert (site.stuck.count, site.api.told()) == (1, [("default/p", "Stuck")])
    (event,) = site.api.events
    assert event.type == "Warning"
    assert event.note.startswith("node n0, on which it was placed, can no longer take it: ")
    assert ", though n1 can; delete it to get a new placement" in event.note


DELETED = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("evict", "owned", "leads", "metadata", "told"),
    [
        (True, True, True, {}, ["EvictedForRescheduling"]),
        (False, True, True, {}, ["Stuck"]),
        (True, False, True, {}, ["Stuck"]),
        (True, True, False, {}, []),
        (True, True, True, DELETED, []),
    ],
    ids=["evicted", "unless that is set", "a bare pod never", "only by the leader", "not one that is being deleted"],
)
async def test_where_that_is_set_it_is_evicted_and_its_controller_makes_another_one(
    evict: bool, owned: bool, leads: bool, metadata: dict[str, str], told: list[str]
) -> None:
    site = await Stuck.made(evict=evict, owned=owned)
    site.leads = leads
    raw = site.api.pods["default/p"]
    site.api.has({**raw, "metadata": {**raw["metadata"], **metadata}})
    await site.sweeps(0, 30)
    assert site.api.evicted == (["default/p"] if "EvictedForRescheduling" in told else [])
    assert site.api.told() == [("default/p", reason) for reason in told]


async def test_an_eviction_that_a_disruption_budget_puts_off_is_tried_again_after_the_same_time() -> None:
    site = await Stuck.made(evict=True, owned=True)
    site.api.outcome = Outcome.NOT_NOW
    await site.sweeps(0, 30, 59, 60)
    assert site.api.evicted == ["default/p", "default/p"]
    assert site.api.told() == []


async def test_a_pod_whose_node_can_take_it_again_or_that_no_other_node_could_take_is_not_stuck() -> None:
    site = await Stuck.made()
    await site.sweeps(0, 30)
    put(site.cache, N0[0])
    await site.sweeps(60)
    assert site.stuck.count == 0
    site = await Stuck.made()
    site.cache.nodes.delete("n1")
    await site.sweeps(0, 30)
    assert (site.stuck.count, site.api.told()) == (0, [])
