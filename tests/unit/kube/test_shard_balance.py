"""Shards are led by one replica each, by all replicas evenly, and by another soon after a death; then nothing moves."""

from collections import Counter
from itertools import cycle, repeat
from math import ceil, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.candidates import Latency, Replica, Server, Simulation
from tests.unit.kube.faults import TIMING, assert_alone, clocks, freezes, latencies, spans
from webhook.kube.election import Seen, Stance
from webhook.kube.shard_balance import ShardBalance

SHARDS = tuple("abcdefgh")
# Two more looks than a request, its answer and a settled release need.
MOVE_SECONDS = 2 * TIMING.retry_period + TIMING.renew_deadline


def ring(replicas: int, shards: int) -> tuple[Simulation, list[Replica]]:
    """Replicas on a good network with clocks years apart."""
    world = Simulation()
    leases = {shard: Server() for shard in SHARDS[:shards]}
    return world, [Replica(f"r{n}", TIMING, world, leases, offset=n * 1e8) for n in range(replicas)]


def joined(world: Simulation, replicas: list[Replica]) -> Replica:
    """One more replica of the same shards."""
    new = Replica(f"r{len(replicas)}", TIMING, world, replicas[0].leases)
    replicas.append(new)
    return new


def loads(replicas: list[Replica]) -> list[int]:
    return sorted(len(one.leads()) for one in replicas)


def writes(replicas: list[Replica]) -> int:
    """Writes to Leases, but renewals."""
    return sum(one.writes for replica in replicas for one in replica.candidates.values())


def assert_led_once(replicas: list[Replica]) -> None:
    for shard in replicas[0].leases:
        assert_alone([one.candidates[shard] for one in replicas])


@pytest.mark.parametrize(("replicas", "shards"), [(1, 1), (3, 1), (1, 4), (2, 3), (5, 4), (3, 8)])
def test_replicas_that_start_together_lead_evenly_and_then_write_nothing_but_renewals(
    replicas: int, shards: int
) -> None:
    world, all_of_them = ring(replicas, shards)
    world.run(2)
    assert sum(loads(all_of_them)) == shards
    world.run(2 + shards * MOVE_SECONDS)
    found = loads(all_of_them)
    assert sum(found) == shards
    assert found[-1] - found[0] <= 1
    before, led = writes(all_of_them), [one.leads() for one in all_of_them]
    world.run(world.now + 300)
    assert writes(all_of_them) == before
    assert [one.leads() for one in all_of_them] == led
    assert_led_once(all_of_them)


@pytest.mark.parametrize("shards", [1, 4, 8])
def test_one_that_comes_later_gets_its_share_and_no_shard_moves_twice(shards: int) -> None:
    world, replicas = ring(2, shards)
    world.run(100)
    before = {shard: one.name for one in replicas for shard in one.leads()}
    requests = writes(replicas)
    joined(world, replicas)
    world.run(100 + shards * MOVE_SECONDS)
    after = {shard: one.name for one in replicas for shard in one.leads()}
    assert after.keys() == before.keys()
    assert max(Counter(after.values()).values()) <= ceil(shards / 3)
    moved = [shard for shard in after if after[shard] != before[shard]]
    assert {after[shard] for shard in moved} <= {"r2"}
    # A request, a release and a claim for each.
    assert writes(replicas) - requests == 3 * len(moved)
    assert_led_once(replicas)


@pytest.mark.parametrize(("replicas", "shards"), [(2, 1), (3, 4), (5, 4), (3, 8)])
def test_the_shards_of_a_dead_replica_are_led_again_within_duration_and_two_retries(replicas: int, shards: int) -> None:
    world, all_of_them = ring(replicas, shards)
    world.run(100)
    dead = max(all_of_them, key=lambda one: len(one.leads()))
    dead.kill()
    left = [one for one in all_of_them if one is not dead]
    in_time = 100 + TIMING.lease_duration + 2 * TIMING.retry_period + 1
    world.run(in_time)
    for shard in dead.leases:
        # It may have been claimed by one, and be on its way to another that leads less.
        assert any(100 < begin < in_time for one in left for begin, _ in one.candidates[shard].led)
    world.run(100 + TIMING.lease_duration + shards * MOVE_SECONDS)
    assert loads(left)[-1] - loads(left)[0] <= 1
    assert_led_once(all_of_them)


def test_a_replica_that_stops_is_followed_by_the_others_within_two_retries() -> None:
    world, replicas = ring(3, 8)
    world.run(100)
    leaving = replicas[0]
    for one in leaving.candidates.values():
        one.release()
    leaving.kill()
    world.run(100 + 2 * TIMING.retry_period + 1)
    assert loads(replicas[1:]) == [4, 4]
    assert_led_once(replicas)


def test_a_shard_given_to_a_replica_that_died_meanwhile_is_led_again() -> None:
    world, replicas = ring(1, 4)
    world.run(100)
    new = joined(world, replicas)
    while not any(server.lease and server.lease.wanted_by for server in new.leases.values()):
        world.run(world.now + 0.1)
    new.kill()
    world.run(world.now + 3 * MOVE_SECONDS)
    assert loads(replicas[:1]) == [4]
    assert_led_once(replicas)


HELD = Seen("other", inf)


def test_the_shards_of_a_replica_that_leads_one_more_are_not_asked_for() -> None:
    balance = ShardBalance("me", TIMING)
    assert Stance.ASK not in balance.stances({"a": HELD}, 0).values()
    assert Stance.ASK in balance.stances({"a": HELD, "b": HELD}, 0).values()
    mine = Seen("me", inf)
    assert Stance.ASK not in balance.stances({"a": HELD, "b": HELD, "c": mine}, 0).values()


def test_a_holder_gives_nothing_to_one_that_leads_one_shard_less() -> None:
    balance = ShardBalance("me", TIMING)
    asked = Seen("me", inf, "other", 0.0)
    assert balance.to_give({"a": asked}, 1) is None
    assert balance.to_give({"a": asked, "b": Seen("me", inf)}, 1) == "a"
    assert balance.to_give({"a": asked, "b": Seen("me", inf), "c": HELD}, 1) is None


def test_a_lease_that_cannot_be_read_keeps_no_other_from_being_claimed() -> None:
    free, unknown = Seen("", 0.0), Seen("", inf)
    assert ShardBalance("me", TIMING).stances({"a": free, "b": unknown}, 0)["a"] is Stance.CLAIM


@st.composite
def rings(draw: st.DrawFn) -> tuple[Simulation, list[Replica]]:
    world = Simulation()
    leases = {shard: Server() for shard in SHARDS[: draw(st.integers(1, 5))]}
    replicas = []
    for index in range(draw(st.integers(2, 4))):
        offset, rate = draw(clocks)
        network = cycle(draw(st.lists(latencies, min_size=1, max_size=8)))
        replica = Replica(f"r{index}", TIMING, world, leases, network, offset, rate, draw(st.floats(0, 5)))
        cut_off, frozen = draw(spans()), draw(freezes)
        replica.stop(draw(spans()))
        for one in replica.candidates.values():
            one.cut_off, one.freezes = cut_off, frozen
        replicas.append(replica)
    return world, replicas


@settings(max_examples=60, deadline=None)
@given(rings())
def test_no_shard_is_led_twice_whatever_happens_and_the_balance_comes_back(
    drawn: tuple[Simulation, list[Replica]],
) -> None:
    world, replicas = drawn
    world.run(150)
    assert_led_once(replicas)
    for replica in replicas:
        for one in replica.candidates.values():
            one.latencies = repeat(Latency())
    world.run(150 + 5 * MOVE_SECONDS + 4 * TIMING.lease_duration)
    assert_led_once(replicas)
    found = loads(replicas)
    assert sum(found) == len(replicas[0].leases)
    assert found[-1] - found[0] <= 1
