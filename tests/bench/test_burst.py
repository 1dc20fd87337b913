"""The burst bench runs with few pods, and its lines have the documented fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench import burst

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_both_ways_bind_all_pods_and_the_gang(programs: Mapping[str, Path]) -> None:
    assert programs
    lines = list(burst.lines(pods=24, gang=12, rounds=1))
    assert [(line["what"], line["webhook"], line["pods"], line["bound"]) for line in lines] == [
        (what, way, pods, [pods]) for what, pods in (("pods", 24), ("gang", 12)) for way in burst.WAYS
    ]
    for line in lines:
        assert line["seconds"] > 0
        assert line["ratio_to_none"] == 1 or line["webhook"] == "ours"
        assert line["webhook"] in burst.text(line)
