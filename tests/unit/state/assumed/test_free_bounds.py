"""Reservations at the upper and at the lower bound of what may be free."""

from webhook.engine.snapshot.node_sums import NodeSums
from webhook.state.assumed.free_bounds import NO_LEEWAY, Leeway

ONE, OTHER = {0: {"cpu": 3000}}, {1: {"cpu": 5000}}


def reserved() -> NodeSums:
    sums = NodeSums()
    for place in (ONE, OTHER):
        sums.add(place, {"cpu": 8000}, None, 1)
    sums.ended = {0: {"cpu": 1000}}
    return sums


def test_nothing_is_unknown_as_a_rule() -> None:
    assert not NO_LEEWAY
    assert all(Leeway(**{name: [ONE]}) for name in ("kept", "maybe_free", "maybe_taken"))


def test_what_may_be_free_is_free_at_most() -> None:
    most = Leeway(kept=[OTHER], maybe_free=[ONE], maybe_taken=[ONE]).at_most(reserved())
    assert (most.numa, most.ended) == (ONE, {0: {"cpu": 4000}})
    assert most.requests == reserved().requests


def test_what_may_be_taken_is_taken_at_least() -> None:
    least = Leeway(kept=[OTHER], maybe_free=[ONE], maybe_taken=[ONE]).at_least(reserved())
    assert (least.numa, least.ended) == ({0: {"cpu": 6000}, **OTHER}, {0: {"cpu": 1000}})
