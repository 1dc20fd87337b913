"""When what failed has its turn again."""

from functools import partial

from webhook.placing.retry_delays import RetryDelays


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def delays() -> tuple[RetryDelays, Clock, list[float]]:
    clock, woken = Clock(), list[float]()
    return RetryDelays(woken.append, clock), clock, woken


def test_each_fault_puts_a_unit_off_for_twice_as_long_up_to_a_minute() -> None:
    retries, _, woken = delays()
    for _ in range(9):
        retries.failed("uid")
    assert woken == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_unit_that_is_put_off_has_its_turn_when_the_time_has_come_and_others_have_theirs_at_once() -> None:
    retries, clock, _ = delays()
    retries.put_off("uid", 10.0)
    assert retries.is_put_off("uid")
    assert not retries.is_put_off("other")
    clock.now = 10.0
    assert not retries.is_put_off("uid")


def test_what_succeeds_or_is_gone_starts_afresh() -> None:
    retries, _, woken = delays()
    for forget in (partial(retries.succeeded, "uid"), partial(retries.keep, {"other"})):
        retries.failed("uid")
        retries.failed("uid")
        forget()
    retries.failed("uid")
    assert woken == [1.0, 2.0, 1.0, 2.0, 1.0]
    assert retries.is_put_off("uid")
