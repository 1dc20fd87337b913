"""The bench of the leader's own time binds every pod, and counts all of its time."""

import pytest

from tests.bench.leader import lines, text


def test_all_pods_are_bound_and_none_is_refused() -> None:
    for line in lines([3], [24]):
        spent = dict(line["cpu_ms"])
        assert line["refused"] == 0
        assert spent.keys() == {"all", "binding", "creation", "placement", "watching"}
        assert sum(spent.values()) == pytest.approx(2 * spent["all"], abs=0.01)
        assert f"{line['pods']} pods" in text(line)
