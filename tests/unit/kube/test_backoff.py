import random

from webhook.kube.pacing import Backoff


def test_waits_are_uniform_below_a_ceiling_that_doubles_up_to_the_cap() -> None:
    for attempt, ceiling in enumerate([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]):
        waits = []
        for seed in range(500):
            backoff = Backoff(base=1.0, cap=10.0, rng=random.Random(seed))  # noqa: S311 - no secret
            waits.append([backoff.next() for _ in range(attempt + 1)][-1])
        assert 0.0 <= min(waits) < 0.02 * ceiling
        assert 0.98 * ceiling < max(waits) <= ceiling


def test_what_the_server_asks_for_comes_before_the_jitter() -> None:
    backoff = Backoff(base=1.0, cap=1.0)
    assert all(30.0 <= backoff.next(at_least=30.0) <= 31.0 for _ in range(100))


def test_after_a_success_the_shortest_wait_comes_again_and_days_of_failures_do_not_overflow() -> None:
    backoff = Backoff(base=1.0, cap=1000.0)
    for _ in range(5000):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.0
