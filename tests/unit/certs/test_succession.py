from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from certs import Authority, CertificateError, Leaf, ServerNames, Succession, faults
from certs.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME
from certs.succession import ANNOUNCEMENT
from certs.window import CLOCK_SKEW
from tests.unit.certs.conftest import NOW

STEP = timedelta(minutes=20)


def life(begin: Succession, end: datetime) -> Iterator[tuple[datetime, Succession]]:
    """The states that a CA of NOW goes through from two thirds of its life on, looked at every STEP."""
    state, now = begin, NOW + AUTHORITY_LIFETIME * 2 / 3 - timedelta(hours=1)
    while now < end:
        state = state.advanced("ca", now)
        yield now, state
        now += STEP


def test_a_ca_is_replaced_after_two_thirds_of_its_life_and_for_a_day_both_are_trusted(authority: Authority) -> None:
    begin = Succession(authority)
    states = list(life(begin, NOW + AUTHORITY_LIFETIME * 2 / 3 + timedelta(days=2)))
    changes = [states[0], *(now for before, now in pairwise(states) if before[1] is not now[1])]
    assert [(state.authority is authority, state.successor is not None) for _, state in changes] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    announced, alone = changes[1][0], changes[2][0]
    assert alone - announced >= ANNOUNCEMENT + LEAF_LIFETIME
    assert changes[2][1].authority is changes[1][1].successor


def test_whatever_moment_a_replica_and_an_api_server_are_late_by_within_the_announcement_every_leaf_is_trusted(
    authority: Authority, names: ServerNames
) -> None:
    states = list(life(Succession(authority), NOW + AUTHORITY_LIFETIME * 2 / 3 + timedelta(days=2)))
    shown: list[tuple[datetime, Leaf]] = []
    late = int(ANNOUNCEMENT / STEP) - 1
    for position, (now, state) in enumerate(states):
        shown.append((now, state.signer(now).issue(names, now)))
        seen_by_the_api_server = states[max(0, position - late)][1].bundle
        alive = [leaf for at, leaf in shown if now - at < LEAF_LIFETIME]
        for leaf in (alive[0], alive[-1]):
            assert not list(faults(leaf, names, now, seen_by_the_api_server))


def test_an_old_leaf_is_not_trusted_any_more_once_the_succession_is_over(
    authority: Authority, names: ServerNames
) -> None:
    begin = NOW + AUTHORITY_LIFETIME * 2 / 3
    announced = Succession(authority).advanced("ca", begin)
    late = begin + ANNOUNCEMENT + LEAF_LIFETIME + 2 * CLOCK_SKEW
    over = announced.advanced("ca", late)
    assert list(faults(authority.issue(names, late), names, late, over.bundle))


def test_a_ca_that_expired_while_nobody_looked_is_replaced_at_once(authority: Authority, names: ServerNames) -> None:
    late = NOW + AUTHORITY_LIFETIME + timedelta(days=1)
    replaced = Succession(authority).advanced("ca", late)
    assert replaced.successor is None
    assert not list(faults(replaced.signer(late).issue(names, late), names, late, replaced.bundle))
    successor = Authority.create("ca", late)
    assert Succession(authority, successor).advanced("ca", late) == Succession(successor)


@pytest.mark.parametrize("with_successor", [False, True])
def test_a_succession_is_the_same_after_the_secret(authority: Authority, with_successor: bool) -> None:
    given = Succession(authority, Authority.create("next", NOW) if with_successor else None)
    read = Succession.from_secret_data(given.to_secret_data())
    assert read.to_secret_data() == given.to_secret_data()
    assert read.bundle == given.bundle


def test_half_a_successor_in_the_secret_is_an_error(authority: Authority) -> None:
    data = Succession(authority, Authority.create("next", NOW)).to_secret_data()
    del data["next-ca.key"]
    with pytest.raises(CertificateError, match=r"The Secret has no entry 'next-ca\.key'"):
        Succession.from_secret_data(data)
