import pytest

from webhook.server.review_handler import DEFAULT_SECONDS, MAX_SECONDS, deadline_seconds


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("10s", 10.0),
        ("0m29.5s", 29.5),
        ("500ms", 0.5),
        ("29.999999999s", 29.999999999),
        (".5s", 0.5),
        ("2µs", 2e-6),
        ("1ns", 1e-9),
    ],
)
def test_a_go_duration_is_read(timeout: str, seconds: float) -> None:
    assert deadline_seconds(timeout) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "timeout", [None, "", "10", "ten seconds", "10s!", "-5s", "9" * 16 + "s", "9" * 8000 + "s", "٣s"]
)
def test_what_is_no_duration_counts_as_the_default(timeout: str | None) -> None:
    assert deadline_seconds(timeout) == DEFAULT_SECONDS


@pytest.mark.parametrize("timeout", ["31s", "9999h", "1h0m0.5s", "999999999999999s"])
def test_nobody_is_waited_for_longer_than_an_api_server_can_ask(timeout: str) -> None:
    assert deadline_seconds(timeout) == MAX_SECONDS
