"""How long the pods of a node wait for a binding."""

import pytest

from webhook.controllers.placement.writes_in_flight import LEAST_SECONDS, MOST_SECONDS, BindingPace


def _after(*seconds: float) -> BindingPace:
    """Pods that were bound after these times, one after the other."""
    pace, now = BindingPace(), 0.0
    for number, each in enumerate(seconds):
        pace.ungated(f"p{number}", now)
        now += each
        pace.bound_or_gone(f"p{number}", now)
    return pace


def test_without_a_binding_the_wait_is_short() -> None:
    assert BindingPace().patience == LEAST_SECONDS
    assert _after(0.02, 0.03).patience == LEAST_SECONDS


def test_the_wait_is_twice_what_the_last_ones_took_within_bounds() -> None:
    assert _after(1.0).patience == pytest.approx(2.0)
    assert _after(4.0).patience == MOST_SECONDS


def test_after_a_slow_one_the_wait_shrinks_again() -> None:
    assert _after(1.0, *[0.02] * 5).patience == pytest.approx(2 * 0.9**5)
    assert _after(4.0, *[0.02] * 40).patience == LEAST_SECONDS


def test_a_pod_that_is_never_bound_is_forgotten() -> None:
    pace = BindingPace()
    pace.ungated("never", 0.0)
    pace.ungated("next", MOST_SECONDS + 1)
    pace.bound_or_gone("never", 1000.0)
    assert pace.patience == LEAST_SECONDS
    pace.bound_or_gone("unknown", 1000.0)
    assert pace.patience == LEAST_SECONDS
