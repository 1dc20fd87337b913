"""Each of our own faults is counted and logged with a traceback, at a limited rate."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from webhook.internal_errors import InternalErrors, Where

DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_fault(text: str) -> Exception:
    with pytest.raises(KeyError) as caught:
        raise KeyError(text)
    return caught.value


def test_a_fault_is_counted_and_logged_with_its_traceback_and_named_to_who_waits() -> None:
    errors = InternalErrors()
    fault = a_fault("metadata")
    with capture_logs() as lines:
        sentence = errors.record(Where.POD, fault, pod="team/p")
    assert errors.counts == {Where.POD: 1}
    assert sentence.startswith("internal error: KeyError")
    assert [(line["log_level"], line["pod"], line["exc_info"]) for line in lines] == [("error", "team/p", fault)]


def test_a_fault_that_repeats_is_counted_each_time_and_logged_once_a_minute() -> None:
    clock = Clock()
    errors = InternalErrors(clock)
    with capture_logs() as lines:
        for turn in range(1000):
            clock.now = turn / 10
            errors.record(Where.OBJECT, a_fault("spec"), object=f"team/p{turn}")
    assert errors.counts[Where.OBJECT] == 1000
    assert [line["object"] for line in lines if line["log_level"] == "error"] == ["team/p0", "team/p600"]


def test_another_fault_is_logged_at_once() -> None:
    errors = InternalErrors(Clock())
    with capture_logs() as lines:
        errors.record(Where.POD, a_fault("a"))
        errors.record(Where.GANG, a_fault("a"))
        errors.record(Where.POD, ValueError("a"))
    assert [line["log_level"] for line in lines] == ["error"] * 3


@pytest.mark.parametrize("where", Where)
def test_every_unit_that_contains_faults_is_documented(where: Where) -> None:
    _, _, table = DOCS.read_text().partition("| `where` | What happens to the unit |")
    assert f"`{where}`" in table.partition("\n\n")[0]
