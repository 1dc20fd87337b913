import pytest

from webhook.formats.kubernetes.timestamps import epoch_seconds


def test_timestamps_are_seconds_of_the_epoch_without_fractions() -> None:
    assert epoch_seconds("1970-01-02T00:00:01Z") == 86401
    assert epoch_seconds("2026-03-01T12:00:00.999999Z") == epoch_seconds("2026-03-01T12:00:00Z")


@pytest.mark.parametrize("text", [None, "", 5, "today", "2026-03-01", "2026-03-01T12:00:00+01:00"])
def test_anything_else_is_no_timestamp(text: object) -> None:
    assert epoch_seconds(text) is None
