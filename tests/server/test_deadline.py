import pytest

from webhook.server.deadline import DEFAULT_SECONDS, deadline_seconds


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("10s", 10.0), ("1m30s", 90.0), ("500ms", 0.5), ("1h0m0.5s", 3600.5), (".5s", 0.5), ("2µs", 2e-6), ("1ns", 1e-9)],
)
def test_a_go_duration_is_read(timeout: str, seconds: float) -> None:
    assert deadline_seconds(timeout) == pytest.approx(seconds)


@pytest.mark.parametrize("timeout", [None, "", "10", "ten seconds", "10s!", "-5s"])
def test_what_is_no_duration_counts_as_the_default(timeout: str | None) -> None:
    assert deadline_seconds(timeout) == DEFAULT_SECONDS
