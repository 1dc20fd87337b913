"""Pods that wait longer than `ungateAfterSeconds` leave the gate without a place."""

from typing import Any

import pytest

from tests.builders.clusters import machine
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader
from webhook.model.names import PLACEMENT

# n0 ── NUMA 0 [2 of 16]      [free cpus]; a pod asks for 8
FULL = machine(name="n0", free=(2,))


def waiting_since(year: int, **how: Any) -> dict[str, Any]:
    return gated(metadata={"creationTimestamp": f"{year}-01-01T00:00:00Z"}, **how)


async def test_a_pod_that_has_waited_so_long_is_ungated_and_says_why() -> None:
    leader = Leader(*FULL, ungate_after=60)
    leader.api.has(waiting_since(2020))
    await leader.cycle()
    assert leader.waiting() == set()
    text = leader.api.pods["default/p"]["metadata"]["annotations"][PLACEMENT]
    assert "ungated without an assignment after 60 s" in text
    assert leader.api.told() == [("default/p", "Ungated")]


async def test_it_is_kept_off_the_nodes_that_can_never_take_it_and_no_others() -> None:
    leader = Leader(*FULL, node(name="tiny", cpus=1), ungate_after=60)
    leader.api.has(waiting_since(2020))
    await leader.cycle()
    affinity = leader.api.pods["default/p"]["spec"]["affinity"]["nodeAffinity"]
    assert "tiny" in str(affinity)
    assert "n0" not in str(affinity)


@pytest.mark.parametrize(("ungate_after", "year"), [(0, 2020), (60, 2999)], ids=["switched off", "too young"])
async def test_otherwise_it_stays_behind_the_gate(ungate_after: float, year: int) -> None:
    leader = Leader(*FULL, ungate_after=ungate_after)
    leader.api.has(waiting_since(year))
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert leader.api.patched == []


async def test_a_pod_that_fits_is_placed_however_long_it_has_waited() -> None:
    leader = Leader(*machine(name="n0", free=(8,)), ungate_after=60)
    leader.api.has(waiting_since(2020))
    await leader.cycle()
    assert leader.nodes() == {"p": "n0"}
