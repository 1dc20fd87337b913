"""The annotation for people."""

import pytest

from webhook.formats.patches.affinity_patch import Constraint, NodeRef, none_of, one_of, preference
from webhook.placing.pod.placement_text import affinity_text, annotated

# What `kubectl describe` shows of a line of an annotation.
SHOWN = 138


def test_each_clause_stands_on_a_line_of_its_own() -> None:
    assert annotated("1 of 2 nodes fits; best a (score 9); excluded: 1 cordoned") == (
        "1 of 2 nodes fits\nbest a (score 9)\nexcluded: 1 cordoned"
    )


def test_no_line_is_longer_than_kubectl_describe_shows_and_no_word_is_lost() -> None:
    text = "best " + ", ".join(f"gpu-node-{number:03}.example.com (score 90, NUMA 0)" for number in range(9))
    lines = annotated(text).splitlines()
    assert max(map(len, lines)) <= SHOWN
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


def test_the_affinity_is_one_line_below_the_clauses() -> None:
    assert annotated("2 of 6 nodes fit; best a", "required: a; excluded: 1 node") == (
        "2 of 6 nodes fit\nbest a\nnode affinity added: required: a; excluded: 1 node"
    )
