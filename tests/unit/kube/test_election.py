"""The rules of the Lease; with arbitrary clocks, latencies, losses and pauses, two candidates never lead at once."""

from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise, repeat
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.candidates import Latency, LeaseCandidate, Simulation
from tests.unit.kube.faults import TIMING, assert_alone, clocks, freezes, latencies, spans
from webhook.kube.api_errors import MalformedAnswerError
from webhook.kube.election import (
    LONGEST_BELIEVED,
    RELEASED_ANNOTATION,
    Action,
    Claim,
    Election,
    LeaseRecord,
    Read,
    Release,
    Rest,
    Timing,
)

HELD = LeaseRecord("7", "other", transitions=4, duration=15, renewed="t0")


def candidate(lease: LeaseRecord | None, now: float = 0.0) -> Election:
    election = Election("me", TIMING)
    election.read(lease, now)
    return election


def leader(lease: LeaseRecord | None = None, asked: float = 0.0, now: float = 1.0) -> Election:
    """Claims at `asked` what it has read before; the answer comes `now`."""
    election = candidate(lease, asked)
    answer(election, asked, now, "8")
    return election


def answer(election: Election, asked: float, now: float, version: str) -> Claim:
    """Let the write that is due at `asked` succeed."""
    claim = election.next(asked)
    assert isinstance(claim, Claim)
    written = LeaseRecord(version, claim.holder, claim.transitions, claim.duration, f"t{asked}", claim.release)
    election.wrote(claim, written, asked, now)
    return claim


def claims(action: Action) -> bool:
    return isinstance(action, Claim)


@pytest.mark.parametrize(
    ("lease", "at_once"),
    [
        pytest.param(None, True, id="there is none"),
        pytest.param(LeaseRecord("1"), True, id="never held"),
        pytest.param(LeaseRecord("1", "", 4, 15, "t0", Release.SETTLED), True, id="given back"),
        pytest.param(LeaseRecord("1", "", 4, 15, "t0", Release.UNSETTLED), True, id="given back in a hurry"),
        pytest.param(LeaseRecord("1", "me", 4, 15, "t0"), True, id="ours: the answer to a claim got lost"),
        pytest.param(LeaseRecord("1", "", 4, 15, "t0"), False, id="emptied by hand"),
        pytest.param(LeaseRecord("1", "", 4, 1, "t0"), False, id="given back by other rules"),
        pytest.param(HELD, False, id="held"),
        pytest.param(LeaseRecord("1", "other"), False, id="held by one that does not say for how long"),
    ],
)
def test_a_lease_is_claimed_at_once_only_when_nobody_can_be_leading(lease: LeaseRecord | None, at_once: bool) -> None:
    assert claims(candidate(lease).next(0)) == at_once
    assert claims(candidate(lease).next(15))


@pytest.mark.parametrize(
    ("says", "believed"),
    [
        pytest.param(40, 40, id="longer settings"),
        pytest.param(60, 60, id="the longest that is believed"),
        pytest.param(61, 60, id="a little longer"),
        pytest.param(2**31 - 1, 60, id="the longest that a Lease can say"),
        pytest.param(3, 15, id="shorter settings, which another client may have written"),
        pytest.param(0, 15, id="nothing"),
    ],
)
@pytest.mark.parametrize("holder", ["other", ""], ids=["held", "emptied"])
def test_a_holder_is_believed_no_shorter_than_we_would_be_and_no_longer_than_a_multiple(
    holder: str, says: float, believed: float
) -> None:
    election = candidate(LeaseRecord("1", holder, 1, says, "t0"))
    assert not claims(election.next(believed - 0.1))
    assert claims(election.next(believed))
    assert election.overlong == says - believed if says > believed else election.overlong == 0


@pytest.mark.parametrize("terms", [2**31 - 1, 2**30 + 1])
def test_terms_are_counted_again_when_the_lease_names_more_than_there_can_have_been(terms: int) -> None:
    election = candidate(LeaseRecord("1", "other", terms, 15, "t0"))
    assert answer(election, 15, 16, "2").transitions == 1
    election.read(LeaseRecord("3", "other", terms, 15, "t1"), 17)
    assert answer(election, 32, 33, "4").transitions == 2


@pytest.mark.parametrize("odd", [-1, 2**31, 1.5, True, None, [], ["x"], {}, {"x": 1}, float("nan")], ids=repr)
def test_a_number_or_text_that_is_none_counts_as_absent(odd: object) -> None:
    metadata = {"resourceVersion": "1", "annotations": {RELEASED_ANNOTATION: odd}}
    for spec in ({"leaseDurationSeconds": odd, "leaseTransitions": odd}, {"holderIdentity": odd, "renewTime": odd}):
        assert LeaseRecord.from_object({"metadata": metadata, "spec": spec}) == LeaseRecord("1")
    text: object = {"leaseDurationSeconds": "15", "leaseTransitions": "15"}
    for annotations, odd_spec in (([], text), ("x", [])):
        raw = {"metadata": {"resourceVersion": "1", "annotations": annotations}, "spec": odd_spec}
        assert LeaseRecord.from_object(raw) == LeaseRecord("1")


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"resourceVersion": 7}}, {"metadata": []}], ids=repr
)
def test_an_answer_without_a_version_is_no_lease(raw: dict[str, Any]) -> None:
    with pytest.raises(MalformedAnswerError, match=r"no metadata\.resourceVersion"):
        LeaseRecord.from_object(raw)


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z", "no time"])
def test_a_renewal_that_lies_in_the_future_or_in_no_time_is_a_renewal_like_any_other(moment: str) -> None:
    election = candidate(HELD, now=0)
    election.read(LeaseRecord("8", "other", 4, 15, moment), 5)
    assert not claims(election.next(19.9))
    assert claims(election.next(20))


def test_a_candidate_reads_every_retry_period_and_waits_from_the_last_change() -> None:
    election = candidate(HELD, now=0)
    assert election.next(0) == Rest(2)
    assert election.next(2) == Read()
    election.read(LeaseRecord("9", "other", 4, 15, "t2"), 2)
    election.read(LeaseRecord("9", "other", 4, 15, "t2"), 14)
    assert election.next(16.9) == Read()
    assert claims(election.next(17))


def test_somebody_who_writes_a_label_does_not_prolong_a_dead_holders_lease() -> None:
    election = candidate(HELD, now=0)
    election.read(LeaseRecord("99", "other", transitions=4, duration=15, renewed="t0"), 14)
    claim = election.next(15)
    assert isinstance(claim, Claim)
    assert claim.replaces is not None
    assert claim.replaces.version == "99"


@pytest.mark.parametrize("gone", [None, LeaseRecord("1")], ids=["deleted", "emptied"])
def test_a_lease_that_was_held_and_is_gone_may_still_have_a_leader(gone: LeaseRecord | None) -> None:
    election = candidate(HELD, now=0)
    election.read(gone, 5)
    assert not claims(election.next(19.9))
    assert claims(election.next(20))


def test_a_leader_leads_until_its_deadline_counted_from_the_request() -> None:
    election = leader(asked=0, now=3)
    assert election.leads(3)
    assert election.leads(9.9)
    assert not election.leads(10)


def test_an_answer_that_comes_after_the_deadline_makes_no_leader() -> None:
    assert not leader(asked=0, now=10).leads(10)


def test_a_leader_renews_every_retry_period() -> None:
    election = leader(asked=0, now=1)
    assert election.next(1) == Rest(2)
    assert answer(election, 2, 2.5, "9").renews
    assert election.leads(11.9)
    assert not election.leads(12)


def test_a_renewal_that_is_answered_after_the_deadline_does_not_prolong_the_term() -> None:
    election = leader(asked=0, now=1)
    answer(election, asked=5, now=12, version="9")
    assert not election.leads(12)
    again = answer(election, asked=12, now=12.5, version="10")
    assert (again.renews, again.transitions) == (False, 2)
    assert election.leads(12.5)


def test_a_leader_that_reads_anothers_name_stops_at_once() -> None:
    election = leader(asked=0, now=1)
    election.look_again()
    election.read(HELD, 3)
    assert not election.leads(3)


def test_a_leader_whose_lease_is_deleted_writes_it_again() -> None:
    election = leader(LeaseRecord("7", "", 4, 15, "t", Release.SETTLED), asked=0, now=1)
    election.look_again()
    assert election.next(2) == Read()
    election.read(None, 2)
    assert election.leads(2)
    claim = answer(election, 2, 3, "1")
    assert (claim.replaces, claim.transitions, claim.renews) == (None, 5, True)
    assert election.leads(11)


def test_while_it_leads_a_call_is_waited_for_no_longer_than_its_term_lasts() -> None:
    election = leader(asked=0, now=1)
    assert election.patience(1) == 5
    assert election.patience(7) == 3
    assert election.patience(10) == 5


def test_epochs_grow_even_when_the_lease_is_made_again() -> None:
    election = leader(LeaseRecord("7", "", 4, 15, "t", Release.SETTLED), asked=0, now=1)
    first = election.term(1)
    election.look_again()
    election.read(None, 11)
    answer(election, 30, 31, "1")
    second = election.term(31)
    assert first is not None
    assert second is not None
    assert (first.epoch, second.epoch) == (5, 6)
    assert first.name != second.name


@pytest.mark.parametrize(
    ("lease", "asked", "alone_since"),
    [
        pytest.param(None, 0, -inf, id="the first leader of all"),
        pytest.param(LeaseRecord("1", "", 4, 15, "t", Release.SETTLED), 5, -inf, id="after one that left all settled"),
        pytest.param(LeaseRecord("1", "", 4, 15, "t", Release.UNSETTLED), 5, 5, id="after one that left in a hurry"),
        pytest.param(HELD, 20, 21, id="after one that died"),
    ],
)
def test_it_is_told_since_when_nobody_else_can_have_assumed_anything(
    lease: LeaseRecord | None, asked: float, alone_since: float
) -> None:
    election = candidate(lease, 5)
    answer(election, asked, asked + 1, "8")
    term = election.term(asked + 1)
    assert term is not None
    assert (term.since, term.alone_since) == (asked + 1, alone_since)


def test_a_leader_that_lost_its_term_and_got_it_back_is_alone_since_it_first_was() -> None:
    election = candidate(HELD, 5)
    answer(election, 20, 21, "8")
    answer(election, 40, 41, "9")
    term = election.term(41)
    assert term is not None
    assert (term.epoch, term.since, term.alone_since) == (6, 41, 21)


def test_with_another_leader_in_between_it_is_alone_only_since_it_leads_again() -> None:
    election = leader(asked=0, now=1)
    election.read(HELD, 30)
    answer(election, 50, 51, "9")
    term = election.term(51)
    assert term is not None
    assert term.alone_since == 51


def test_resigning_ends_the_term_at_once_and_no_other_follows() -> None:
    election = leader(asked=0, now=1)
    election.resign()
    assert election.term(1) is None
    assert election.next(100) == Rest(inf)


def test_a_claim_that_goes_through_after_resigning_makes_no_leader_and_is_given_back() -> None:
    election = candidate(None)
    claim = election.next(0)
    assert isinstance(claim, Claim)
    election.resign()
    election.wrote(claim, LeaseRecord("1", "me", 1, 15, "t0"), 0, 1)
    assert not election.leads(1)
    election.release(Release.SETTLED)
    back = answer(election, 1, 2, "2")
    assert back == Claim("", 1, 15, LeaseRecord("1", "me", 1, 15, "t0"), Release.SETTLED)
    assert election.released
    assert election.next(2) == Rest(inf)


def test_what_is_not_ours_is_not_given_back() -> None:
    election = candidate(HELD)
    election.release(Release.SETTLED)
    assert election.released
    assert election.next(0) == Rest(inf)


DURATION = 120.0

# In the middle of a rollout, which changes them by LONGEST_BELIEVED at most: 15 s to 60 s.
settings_of_a_rollout = st.sampled_from([TIMING, Timing(22, 12, 3), Timing(60, 40, 5)])


@st.composite
def simulations(draw: st.DrawFn, timings: st.SearchStrategy[Timing]) -> tuple[Simulation, list[LeaseCandidate]]:
    world = Simulation()
    candidates = []
    for index in range(draw(st.integers(2, 4))):
        offset, rate = draw(clocks)
        # Drawn for the first calls; later ones repeat them.
        network = cycle(draw(st.lists(latencies, min_size=1, max_size=8)))
        stopped, cut_off, frozen = draw(spans()), draw(spans()), draw(freezes)
        timing = draw(timings)
        candidates.append(LeaseCandidate(f"c{index}", timing, world, network, offset, rate, stopped, cut_off, frozen))
    for candidate in candidates:
        if draw(st.booleans()):
            world.at(draw(st.floats(0, DURATION)), candidate.release)
    return world, candidates


@settings(max_examples=300, deadline=None)
@given(simulations(st.just(TIMING)))
def test_two_never_lead_at_once(simulation: tuple[Simulation, list[LeaseCandidate]]) -> None:
    world, candidates = simulation
    world.run(DURATION)
    assert_alone(candidates)


@settings(max_examples=300, deadline=None)
@given(simulations(settings_of_a_rollout))
def test_two_never_lead_at_once_while_a_rollout_changes_the_settings(
    simulation: tuple[Simulation, list[LeaseCandidate]],
) -> None:
    world, candidates = simulation
    world.run(3 * DURATION)
    assert_alone(candidates)


# What a client that is not a candidate writes into the Lease: a term that never expires, or one that expires at once.
meddling = st.lists(st.tuples(st.floats(0, DURATION), st.sampled_from([0.0, 1.0, 300.0, 2.0**31 - 1])), max_size=4)


@settings(max_examples=300, deadline=None)
@given(simulations(settings_of_a_rollout), meddling)
def test_two_never_lead_at_once_whatever_duration_is_written_into_the_lease(
    simulation: tuple[Simulation, list[LeaseCandidate]], writes: list[tuple[float, float]]
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
def test_epochs_are_never_used_twice(simulation: tuple[Simulation, list[LeaseCandidate]]) -> None:
    world, candidates = simulation
    epochs: dict[int, str] = {}

    def note() -> None:
        for candidate in candidates:
            if term := candidate.election.term(candidate.clock()):
                assert epochs.setdefault(term.epoch, term.name) == term.name

    world.run(DURATION, note)


def group(size: int, pauses: tuple[tuple[float, float], ...] = ()) -> tuple[Simulation, list[LeaseCandidate]]:
    """Candidates with clocks years apart, on a good network; the first one is paused."""
    world = Simulation()
    calm = repeat(Latency())
    first = LeaseCandidate("c0", TIMING, world, calm, pauses=pauses)
    others = [LeaseCandidate(f"c{index}", TIMING, world, calm, offset=index * 1e8) for index in range(1, size)]
    return world, [first, *others]


def leading(candidates: list[LeaseCandidate]) -> list[str]:
    return [candidate.name for candidate in candidates if candidate.leads()]


def test_on_a_good_network_one_leads_at_once_and_for_good() -> None:
    world, candidates = group(3)
    world.run(1)
    (name,) = leading(candidates)
    world.run(1000)
    assert leading(candidates) == [name]
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
    assert leading(candidates) == [other.name]
    assert_alone(candidates)


@pytest.mark.parametrize("how", Release)
def test_a_leader_that_gives_back_is_followed_by_the_next_look(how: Release) -> None:
    world, candidates = group(2)
    world.run(30)
    leader = next(candidate for candidate in candidates if candidate.leads())
    leader.release(how)
    world.run(30 + TIMING.retry_period + 1)
    (name,) = leading(candidates)
    assert name != leader.name
    assert leader.election.released
    assert_alone(candidates)


def test_with_the_server_out_of_reach_nobody_leads_and_then_somebody_does() -> None:
    world, candidates = group(2)
    world.run(30)
    for candidate in candidates:
        candidate.cut_off = ((30.0, 60.0),)
    world.run(42)
    assert leading(candidates) == []
    world.run(100)
    assert len(leading(candidates)) == 1
    assert_alone(candidates)


def test_a_deleted_lease_leaves_its_leader_leading() -> None:
    world, candidates = group(2)
    world.run(30)
    before = leading(candidates)
    world.server.lease = None
    world.run(100)
    assert leading(candidates) == before
    assert_alone(candidates)


def test_terms_of_one_candidate_follow_each_other_without_a_gap_on_a_good_network() -> None:
    world, candidates = group(1)
    world.run(100)
    assert all(later[0] < earlier[1] for earlier, later in pairwise(candidates[0].led))


def test_a_foreign_holder_is_waited_for_and_then_replaced() -> None:
    world, candidates = group(1)
    world.server.put(LeaseRecord("", "somebody", 3, 60, "t"))
    world.run(59)
    assert leading(candidates) == []
    world.run(65)
    assert leading(candidates) == ["c0"]
    assert world.server.lease is not None
    assert world.server.lease.transitions == 4


@pytest.mark.parametrize("terms", [3, 2**31 - 1])
def test_a_dead_holders_absurd_lease_keeps_nobody_from_leading(terms: int) -> None:
    world, candidates = group(2)
    world.server.put(LeaseRecord("", "somebody", terms, 2**31 - 1, "9999-12-31T23:59:59.000000Z"))
    world.run(LONGEST_BELIEVED * TIMING.lease_duration - 1)
    assert leading(candidates) == []
    world.run(LONGEST_BELIEVED * TIMING.lease_duration + TIMING.retry_period + 1)
    assert len(leading(candidates)) == 1
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
    old = LeaseCandidate("old", first, world, repeat(Latency()))
    world.run(1)
    new = LeaseCandidate("new", second, world, repeat(Latency()))
    world.run(30)
    assert leading([old, new]) == ["old"]
    old.cut_off = ((30.0, inf),)
    if written is not None:
        world.at(31, partial(set_duration, world, written))
    longest = max(first.lease_duration, LONGEST_BELIEVED * second.lease_duration)
    world.run(31 + longest + second.retry_period + 1)
    assert leading([old, new]) == ["new"]
    assert_alone([old, new])
