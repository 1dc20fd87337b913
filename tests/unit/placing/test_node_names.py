"""The weights of the nodes that are written as preferred."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.engine.decide import Candidate
from webhook.placing.pod.node_names import weights


def best(*scores_and_preferences: tuple[int, int | None]) -> list[Candidate]:
    return [Candidate(f"n{n}", score, (), liked) for n, (score, liked) in enumerate(scores_and_preferences)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (best((97, None), (95, None), (95, None), (0, None)), [97, 95, 95, 1]),
        # equal scores: all that lies below is for the preference
        (best((60, 100), (60, 50), (60, 0)), [60, 31, 1]),
        # b scores less: however much it is preferred, it stays below a
        (best((97, 0), (95, 100), (95, 0)), [96, 95, 1]),
        (best((97, 0), (96, 100)), [97, 96]),
        (best((1, 100), (1, 0), (0, 100)), [1, 1, 1]),
        ([], []),
    ],
)
def test_preference_uses_the_room_that_scores_leave(found: list[Candidate], expected: list[int]) -> None:
    assert weights(found) == expected


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=10))
def test_weights_never_turn_the_order_round(drawn: list[tuple[int, int]]) -> None:
    found = best(*sorted(drawn, reverse=True))
    written = weights(found)
    assert written == sorted(written, reverse=True)
    assert all(1 <= weight <= 100 for weight in written)
    for (one, above), (other, below) in zip(
        zip(found, written, strict=True), zip(found[1:], written[1:], strict=True), strict=False
    ):
        if one.score > other.score > 0:
            assert above > below
