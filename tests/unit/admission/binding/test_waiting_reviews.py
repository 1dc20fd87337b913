"""Which of the reviews that wait is answered at once when there are too many."""

import asyncio
from contextlib import ExitStack

from webhook.admission.binding.guard import WaitingReviews


def test_of_the_namespace_that_has_most_the_oldest_goes() -> None:
    waiting = WaitingReviews(most=4)
    with ExitStack() as stack:
        good = stack.enter_context(waiting.one("good", "good/p"))
        bad = [stack.enter_context(waiting.one("bad", f"bad/p{number}")) for number in range(10)]
        assert not good.displaced
        assert [each.displaced for each in bad] == [True] * 7 + [False] * 3


def test_a_pod_waits_once_and_its_latest_review_is_the_one() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p") as first:
        with waiting.one("ns", "ns/p") as second:
            assert (first.displaced, second.displaced) == (True, False)
        with waiting.one("ns", "ns/q") as third:
            assert not third.displaced


def test_those_that_are_answered_make_room() -> None:
    waiting = WaitingReviews(most=1)
    for _ in range(3):
        with waiting.one("ns", "ns/p") as one:
            assert not one.displaced


async def test_the_pod_that_a_review_waits_for_wakes_it_and_no_other_pod_does() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p", {"ns/a", "ns/b"}) as one, waiting.one("ns", "ns/q", {"ns/c"}) as other:
        tasks = [asyncio.create_task(each.woken(60)) for each in (one, other)]
        await asyncio.sleep(0)
        waiting.bound_or_gone("ns/x", "x")
        waiting.bound_or_gone("ns/b", "b")
        await tasks[0]
        assert not tasks[1].done()
        waiting.bound_or_gone("ns/c", "c")
        await tasks[1]
    waiting.bound_or_gone("ns/a", "a")


async def test_a_displaced_review_is_woken() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p", {"ns/a"}) as first, waiting.one("ns", "ns/p", {"ns/a"}):
        await first.woken(60)
        assert first.displaced
