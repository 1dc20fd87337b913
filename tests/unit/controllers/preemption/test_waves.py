"""Victims that wait for their call while their preemptor goes away."""

import asyncio
from typing import Any

from tests.unit.controllers.preemption.leader import PreemptingLeader, member, two_nodes
from webhook.controllers.preemption.wave import Waves
from webhook.kube.write import Write


async def test_no_more_pods_end_for_a_preemptor_that_is_gone() -> None:
    leader = PreemptingLeader(two_nodes(), *(member(number) for number in range(4)))
    events: Any = leader.api
    leader.preemption._waves = Waves(leader.api, events, leader.metrics, leader.is_leader, 1, leader._sleep)
    evict = leader.api.evict

    async def and_the_preemptor_is_deleted(key: str, uid: str, *, dry_run: bool = False) -> Write:
        outcome = await evict(key, uid, dry_run=dry_run)
        if not dry_run and len(leader.api.evicted) == 1:
            for number in range(4):
                leader.api.delete(f"default/g-{number}")
            await leader.cycle()
            leader.preemption.check_holds(leader.now)
            assert leader.holds == {}
            await asyncio.sleep(0)
        return outcome

    leader.api.evict = and_the_preemptor_is_deleted  # type: ignore[method-assign]
    await leader.round()
    assert len(leader.api.evicted) == 1
