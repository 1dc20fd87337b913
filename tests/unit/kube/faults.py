"""What goes wrong in simulated elections: latencies, clocks, pauses and networks; and what must hold all the same."""

from collections.abc import Iterable
from math import inf

from hypothesis import strategies as st

from tests.unit.kube.candidates import Latency, LeaseCandidate
from webhook.kube.election import Timing

TIMING = Timing(lease_duration=15, renew_deadline=10, retry_period=2)

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


def assert_alone(candidates: Iterable[LeaseCandidate]) -> None:
    """No two candidates led at the same time."""
    terms = sorted((begin, end, candidate.name) for candidate in candidates for begin, end in candidate.led)
    reach, holder = -inf, ""
    for begin, end, name in terms:
        assert begin >= reach or name == holder, f"{name} leads from {begin}, {holder} until {reach}"
        if end > reach:
            reach, holder = end, name
