"""Rank and domains of a gang's member as labels and variables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.formats.kubernetes.domain_label import labels_of_levels, labels_of_member, variables_of_levels

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


def test_a_member_carries_its_rank_and_its_domain_at_each_level() -> None:
    assert labels_of_member(3, [(ZONE, "z"), (RACK, "r1")], [ZONE, RACK]) == {
        "topology-webhook.dev/rank": "3",
        "topology-webhook.dev/domain-zone": "z",
        "topology-webhook.dev/domain-rack": "r1",
    }


def test_levels_that_end_alike_are_told_apart() -> None:
    assert labels_of_levels(["a.example/rack", "b.example/rack"]) == {
        "a.example/rack": "topology-webhook.dev/domain-a.example.rack",
        "b.example/rack": "topology-webhook.dev/domain-b.example.rack",
    }


@pytest.mark.parametrize(("length", "fits"), [(56, True), (57, False)])
def test_what_is_too_long_for_a_label_has_none(length: int, *, fits: bool) -> None:
    assert bool(labels_of_levels([f"example.com/{'x' * length}"])) is fits


def test_variables_are_named_as_the_levels_are() -> None:
    assert variables_of_levels([ZONE, "example.com/top-of.rack_1"]) == {
        "TOPOLOGY_RANK": "topology-webhook.dev/rank",
        "TOPOLOGY_DOMAIN_ZONE": "topology-webhook.dev/domain-zone",
        "TOPOLOGY_DOMAIN_TOP_OF_RACK_1": "topology-webhook.dev/domain-top-of.rack_1",
    }


SEGMENT = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)


@given(st.lists(st.tuples(st.sampled_from(["", "a.example/", "b.example/"]), SEGMENT), unique=True, max_size=5))
def test_every_label_that_is_made_is_one_of_its_own_and_valid(levels: list[tuple[str, str]]) -> None:
    labels = labels_of_levels(["".join(level) for level in levels]).values()
    assert len(set(labels)) == len(labels)
    assert all(len(label.partition("/")[2]) <= 63 for label in labels)
    assert all("/" not in label.partition("/")[2] for label in labels)
