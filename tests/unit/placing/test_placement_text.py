"""The placement text for people, and the weights of the nodes that are written as preferred."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.engine.decide import Candidate
from webhook.formats.patches.affinity_patch import Constraint, NodeRef, none_of, one_of, preference
from webhook.placing.pod.node_names import weights
from webhook.placing.pod.placement_text import affinity_text, annotated


def test_each_clause_stands_on_a_line_of_its_own_and_the_affinity_below_them() -> None:
    assert annotated("1 of 2 nodes fits; best a (score 9); excluded: 1 cordoned") == (
        "1 of 2 nodes fits\nbest a (score 9)\nexcluded: 1 cordoned"
    )
    assert annotated("2 of 6 nodes fit; best a", "required: a; excluded: 1 node") == (
        "2 of 6 nodes fit\nbest a\nnode affinity added: required: a; excluded: 1 node"
    )


def test_no_line_is_longer_than_kubectl_describe_shows_and_no_word_is_lost() -> None:
    text = "best " + ", ".join(f"gpu-node-{number:03}.example.com (score 90, NUMA 0)" for number in range(9))
    lines = annotated(text).splitlines()
    assert max(map(len, lines)) <= 138  # what `kubectl describe` shows of a line of an annotation
    assert " ".join(" ".join(lines).split()) == text


A, B, C, D, E = (NodeRef(name, f"host-{name}") for name in "abcde")
BARE = NodeRef("bare", None)
IN_RACK = {"key": "example.com/rack", "operator": "In", "values": ["r1", "r2"]}


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint(), ""),
        (Constraint(one_of([A])), "required: a"),
        (Constraint(one_of([A, BARE])), "required: host-a, bare"),
        (Constraint(one_of([A, B, C, D])), "required: host-a, host-b, host-c, host-d"),
        (Constraint(one_of([A, B, C, D, E])), "required: host-a, host-b, host-c, 2 more"),
        (Constraint(none_of([A, BARE])), "excluded: 2 nodes"),
        (
            Constraint(none_of([D]), (preference(A, 97), preference(BARE, 95))),
            "preferred: host-a 97, bare 95; excluded: 1 node",
        ),
        (
            Constraint(({"matchExpressions": [IN_RACK, *one_of([A, B])[0]["matchExpressions"]]},)),
            "required: example.com/rack r1 or r2, host-a, host-b",
        ),
    ],
)
def test_the_affinity_that_is_added_is_told_in_words(constraint: Constraint, text: str) -> None:
    assert affinity_text(constraint) == text


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
