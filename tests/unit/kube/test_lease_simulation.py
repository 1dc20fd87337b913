"""With arbitrary clocks, latencies, losses and pauses, two candidates never lead at the same time."""

from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise, repeat
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.candidates import Candidate, Latency, Simulation
from webhook.kube.election import LONGEST_BELIEVED, LeaseRecord, Release, Timing

TIMING = Timing(lease_duration=15, renew_deadline=10, retry_period=2)
DURATION = 120.0

# Most messages take a moment; some take so long that they arrive when their sender has long given up; some never do.
moments = st.floats(0.001, 0.2)
delays = st.one_of(moments, moments, moments, st.floats(0.2, 40), st.just(inf))
latencies = st.builds(Latency, delays, delays)
clocks = st.tuples(st.floats(-1e6, 1e6), st.floats(0.9, 1.1))
freezes = st.dictionaries(st.integers(1, 12), st.floats(1, 40), max_size=3)


@st.composite
def spans(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    """Up to three ascending spans, each 1 to 40 s long and followed by as long a gap."""
    begin, found = 0.0, []
    for gap, length in draw(st.lists(st.tuples(st.floats(1, 40), st.floats(1, 40)), max_size=3)):
        found.append((begin + gap, begin + gap + length))
        begin += gap + length
    return tuple(found)


# In the middle of a rollout, which changes them by LONGEST_BELIEVED at most: 15 s to 60 s.
settings_of_a_rollout = st.sampled_from([TIMING, Timing(22, 12, 3), Timing(60, 40, 5)])


@st.composite
def simulations(draw: st.DrawFn, timings: st.SearchStrategy[Timing]) -> tuple[Simulation, list[Candidate]]:
    world = Simulation()
    candidates = []
    for index in range(draw(st.integers(2, 4))):
        offset, rate = draw(clocks)
        # Drawn for the first calls; later ones repeat them.
        network = cycle(draw(st.lists(latencies, min_size=1, max_size=8)))
        stopped, cut_off, frozen = draw(spans()), draw(spans()), draw(freezes)
        timing = draw(timings)
        candidates.append(Candidate(f"c{index}", timing, world, network, offset, rate, stopped, cut_off, frozen))
    for candidate in candidates:
        if draw(st.booleans()):
            world.at(draw(st.floats(0, DURATION)), candidate.release)
    return world, candidates


def assert_alone(candidates: list[Candidate]) -> None:
    """No two candidates led at the same time."""
    terms = sorted((begin, end, candidate.name) for candidate in candidates for begin, end in candidate.led)
    reach, holder = -inf, ""
    for begin, end, name in terms:
        assert begin >= reach or name == holder, f"{name} leads from {begin}, {holder} until {reach}"
        if end > reach:
            reach, holder = end, name


@settings(max_examples=300, deadline=None)
@given(simulations(st.just(TIMING)))
def test_two_never_lead_at_once(simulation: tuple[Simulation, list[Candidate]]) -> None:
    world, candidates = simulation
    world.run(DURATION)
    assert_alone(candidates)


@settings(max_examples=300, deadline=None)
@given(simulations(settings_of_a_rollout))
def test_two_never_lead_at_once_while_a_rollout_changes_the_settings(
    simulation: tuple[Simulation, list[Candidate]],
) -> None:
    world, candidates = simulation
    world.run(3 * DURATION)
    assert_alone(candidates)


# What somebody who is no candidate writes into the Lease: one that he keeps from running out, or lets run out at once.
meddling = st.lists(st.tuples(st.floats(0, DURATION), st.sampled_from([0.0, 1.0, 300.0, 2.0**31 - 1])), max_size=4)


@settings(max_examples=300, deadline=None)
@given(simulations(settings_of_a_rollout), meddling)
def test_two_never_lead_at_once_whatever_duration_is_written_into_the_lease(
    simulation: tuple[Simulation, list[Candidate]], writes: list[tuple[float, float]]
) -> None:
    world, candidates = simulation
    for when, duration in writes:
        world.at(when, partial(set_duration, world, duration))
    world.run(3 * DURATION)
    assert_alone(candidates)


def set_duration(world: Simulation, duration: float) -> None:
    if world.server.lease is not None:
        world.server.put(replace(world.server.lease, duration=duration))


@settings(max_examples=100, deadline=None)
@given(simulations(st.just(TIMING)))
def test_epochs_are_never_used_twice(simulation: tuple[Simulation, list[Candidate]]) -> None:
    world, candidates = simulation
    epochs: dict[int, str] = {}

    def note() -> None:
        for candidate in candidates:
            if term := candidate.election.term(candidate.clock()):
                assert epochs.setdefault(term.epoch, term.name) == term.name

    world.run(DURATION, note)


def group(size: int, pauses: tuple[tuple[float, float], ...] = ()) -> tuple[Simulation, list[Candidate]]:
    """Candidates with clocks years apart, on a good network; the first one is paused."""
    world = Simulation()
    calm = repeat(Latency())
    first = Candidate("c0", TIMING, world, calm, pauses=pauses)
    others = [Candidate(f"c{index}", TIMING, world, calm, offset=index * 1e8) for index in range(1, size)]
    return world, [first, *others]


def leaders(candidates: list[Candidate]) -> list[str]:
    return [candidate.name for candidate in candidates if candidate.leads()]


def test_on_a_good_network_one_leads_at_once_and_for_good() -> None:
    world, candidates = group(3)
    world.run(1)
    (name,) = leaders(candidates)
    world.run(1000)
    assert leaders(candidates) == [name]
    assert sum(bool(candidate.led) for candidate in candidates) == 1


@pytest.mark.parametrize("victim", [0, 1])
def test_after_a_sudden_death_another_leads_within_duration_and_retry(victim: int) -> None:
    world, candidates = group(3)
    world.run(30)
    leader = next(candidate for candidate in candidates if candidate.leads())
    # In a second round, the one that has taken over is killed as well.
    for _ in range(victim + 1):
        killed_at = world.now
        leader.stop_for_good()
        world.run(killed_at + TIMING.lease_duration + TIMING.retry_period + 1)
        leader = next(candidate for candidate in candidates if candidate.leads())
    assert_alone(candidates)


def test_a_leader_that_was_stopped_does_not_lead_when_it_wakes() -> None:
    world, candidates = group(2, pauses=((20.0, 50.0),))
    world.run(19)
    paused, other = candidates
    if not paused.leads():
        paused, other = other, paused
        paused.pauses = ((20.0, 50.0),)
    world.run(29)
    assert not other.leads()
    world.run(49.999)
    assert not paused.leads()  # by its clock, before it has done anything
    assert other.leads()
    world.run(100)
    assert leaders(candidates) == [other.name]
    assert_alone(candidates)


@pytest.mark.parametrize("how", Release)
def test_a_leader_that_gives_back_is_followed_by_the_next_look(how: Release) -> None:
    world, candidates = group(2)
    world.run(30)
    leader = next(candidate for candidate in candidates if candidate.leads())
    leader.release(how)
    world.run(30 + TIMING.retry_period + 1)
    (name,) = leaders(candidates)
    assert name != leader.name
    assert leader.election.released
    assert_alone(candidates)


def test_with_the_server_out_of_reach_nobody_leads_and_then_somebody_does() -> None:
    world, candidates = group(2)
    world.run(30)
    for candidate in candidates:
        candidate.cut_off = ((30.0, 60.0),)
    world.run(42)
    assert leaders(candidates) == []
    world.run(100)
    assert len(leaders(candidates)) == 1
    assert_alone(candidates)


def test_a_deleted_lease_leaves_its_leader_leading() -> None:
    world, candidates = group(2)
    world.run(30)
    before = leaders(candidates)
    world.server.lease = None
    world.run(100)
    assert leaders(candidates) == before
    assert_alone(candidates)


def test_terms_of_one_candidate_follow_each_other_without_a_gap_on_a_good_network() -> None:
    world, candidates = group(1)
    world.run(100)
    assert all(later[0] < earlier[1] for earlier, later in pairwise(candidates[0].led))


def test_a_foreign_holder_is_waited_for_and_then_replaced() -> None:
    world, candidates = group(1)
    world.server.put(LeaseRecord("", "somebody", 3, 60, "t"))
    world.run(59)
    assert leaders(candidates) == []
    world.run(65)
    assert leaders(candidates) == ["c0"]
    assert world.server.lease is not None
    assert world.server.lease.transitions == 4


@pytest.mark.parametrize("terms", [3, 2**31 - 1])
def test_a_dead_holders_absurd_lease_keeps_nobody_from_leading(terms: int) -> None:
    world, candidates = group(2)
    world.server.put(LeaseRecord("", "somebody", terms, 2**31 - 1, "9999-12-31T23:59:59.000000Z"))
    world.run(LONGEST_BELIEVED * TIMING.lease_duration - 1)
    assert leaders(candidates) == []
    world.run(LONGEST_BELIEVED * TIMING.lease_duration + TIMING.retry_period + 1)
    assert len(leaders(candidates)) == 1
    assert world.server.lease is not None
    assert world.server.lease.transitions < 2**31
    assert_alone(candidates)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(TIMING, Timing(60, 40, 5), id="raised"),
        pytest.param(Timing(60, 40, 5), TIMING, id="lowered by the most that is believed"),
        pytest.param(TIMING, TIMING, id="as they were"),
    ],
)
@pytest.mark.parametrize("written", [None, 1.0, 2.0**31 - 1], ids=["nothing", "short", "long"])
def test_a_leader_that_is_cut_off_has_stopped_before_one_with_other_settings_leads(
    first: Timing, second: Timing, written: float | None
) -> None:
    world = Simulation()
    old = Candidate("old", first, world, repeat(Latency()))
    world.run(1)
    new = Candidate("new", second, world, repeat(Latency()))
    world.run(30)
    assert leaders([old, new]) == ["old"]
    old.cut_off = ((30.0, inf),)
    if written is not None:
        world.at(31, partial(set_duration, world, written))
    longest = max(first.lease_duration, LONGEST_BELIEVED * second.lease_duration)
    world.run(31 + longest + second.retry_period + 1)
    assert leaders([old, new]) == ["new"]
    assert_alone([old, new])
