"""A sweep finds all answers in one go, however slow the machine is, and what it logs is not shown."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from webhook.controllers.autoscaling import marks


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_PART_SECONDS", 3600.0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield
