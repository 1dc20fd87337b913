"""Nodes that are kept for a gang stay kept, whatever happens to it for a moment; others are given away."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.clusters import machine, put
from tests.builders.gangs import TOPOLOGY
from tests.builders.pods import gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from webhook.kube.write import Outcome, Write
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER
from webhook.placing.gang.gated_gang import ExactHints, GangAssigner
from webhook.placing.waiting_unit import Unit

LABELS = {"example.com/zone": "z", "example.com/rack": "rack-0"}


def leader_of_a_rack(*free: int) -> Leader:
    """Of one rack with a group of two members that has waited long."""
    levels = topology(name=TOPOLOGY.name, labels=("example.com/zone", "example.com/rack"))
    leader = Leader(levels, *machine(name="n0", free=free, labels=LABELS), reserve_after=60)
    asks = {KAI_TOPOLOGY: TOPOLOGY.name, KAI_REQUIRED_PLACEMENT: "rack", MIN_MEMBER: "2"}
    members = [gated(name=f"w-{number}", group="g", annotations=asks) for number in range(2)]
    for raw in members:
        raw["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    leader.api.has(*members)
    return leader


async def kept(*free: int) -> tuple[Leader, list[str]]:
    """The same, once the rack is kept; and what the group is told after that."""
    leader = leader_of_a_rack(*free)
    told: list[str] = []
    leader.controller.gang_examined.subscribe(lambda gang, why: told.append(why))
    await leader.cycle()
    assert "rack-0 is reserved for it" in told.pop()
    return leader, told


async def breaks(*_: object, **__: object) -> None:
    raise RuntimeError("a fault of ours")


async def test_nodes_on_which_the_group_can_never_run_are_not_kept_for_it() -> None:
    # rack-0 ── n0 [8 0]  n1 [8 8]      [free cpus]; the group may only go to n0
    leader = leader_of_a_rack(8, 0)
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
    for key, raw in list(leader.api.pods.items()):
        leader.api.pods[key] = {**raw, "spec": {**raw["spec"], "affinity": {"nodeAffinity": terms}}}
    leader.api.show()
    put(leader.cache, *machine(name="n1", free=(8, 8), labels=LABELS))
    leader.api.has(gated(name="later"), gated(name="last", second=1))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1"}
    assert set(leader.nodes().values()) == {"n1"}


async def test_it_is_kept_if_the_exact_amounts_of_a_member_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    # rack-0 ── n0 [8 8]      [free cpus]
    leader = leader_of_a_rack(8, 8)
    monkeypatch.setattr(ExactHints, "of", lambda *_: None)
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_in_a_cycle_in_which_a_member_changes_before_the_group_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rack-0 ── n0 [8 0]      [free cpus]; the group needs both NUMA nodes
    leader, told = await kept(8, 0)
    collected = leader.controller.planner.lacking_room.collected

    def changes_a_member(units: Sequence[Unit], now: float) -> None:
        put(leader.cache, {**leader.api.pods["default/w-1"]})
        collected(units, now)

    monkeypatch.setattr(leader.controller.planner.lacking_room, "collected", changes_a_member)
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert not told, "it was not tried"
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_in_the_cycle_in_which_an_internal_error_hits_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rack-0 ── n0 [8 0]      [free cpus]; the group needs both NUMA nodes
    leader, _ = await kept(8, 0)
    monkeypatch.setattr(GangAssigner, "assign", breaks)
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_while_the_group_waits_to_be_tried_again_after_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader, _ = await kept(8, 0)
    with monkeypatch.context() as broken:
        broken.setattr(GangAssigner, "assign", breaks)
        leader.controller._changed()
        await leader.cycle()
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_after_the_api_server_refused_the_placement_of_the_group() -> None:
    leader, _ = await kept(8, 0)
    put(leader.cache, *machine(name="n0", free=(8, 8), labels=LABELS))
    leader.api.outcome = Outcome.REFUSED
    await leader.cycle()
    assert sorted(leader.api.patched) == ["default/w-0", "default/w-1"]
    leader.api.outcome = Outcome.WRITTEN
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_after_the_api_server_refused_the_placement_of_one_member() -> None:
    leader, _ = await kept(8, 0)
    put(leader.cache, *machine(name="n0", free=(8, 8), labels=LABELS))
    patch = leader.api.patch

    async def refuses_one(key: str, operations: Any) -> Write:
        if key == "default/w-1":
            return Write(Outcome.REFUSED)
        return await patch(key, operations)

    leader.api.patch = refuses_one  # type: ignore[method-assign]
    await leader.cycle()
    assert leader.waiting() == {"w-1"}
    leader.api.patch = patch  # type: ignore[method-assign]
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-1", "later"}
