"""A record is a dataclass with slots; only the type checker keeps it from being changed."""

from dataclasses import replace

import pytest

from webhook.records import record


@record
class Point:
    x: int
    y: int = 0


def test_equal_records_are_equal_and_have_equal_hashes() -> None:
    assert Point(1, 2) == Point(1, y=2) != Point(1)
    assert {Point(1, 2), Point(1, 2), Point(2)} == {Point(1, 2), Point(2)}


def test_a_record_can_be_copied_with_other_values() -> None:
    assert replace(Point(1, 2), x=3) == Point(3, 2)


def test_a_record_has_no_other_fields() -> None:
    with pytest.raises(TypeError):
        vars(Point(1))
