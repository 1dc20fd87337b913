"""Log lines in JSON: ours and those of libraries have the same fields in the same order."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from webhook.app import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.captureWarnings(capture=False)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_time_level_and_event_come_first_and_the_logger_last(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    structlog.get_logger("a.b").info("review", verdict="allow", excluded={"x": 1})
    (line,) = lines(capsys)
    assert list(line) == ["timestamp", "level", "event", "verdict", "excluded", "logger"]
    assert (line["level"], line["event"], line["logger"]) == ("info", "review", "a.b")
    assert line["timestamp"].endswith("Z")


def test_a_line_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "json")
    structlog.get_logger("a.b").info("review")
    assert lines(capsys) == []


@pytest.mark.parametrize("method", ["exception", "error"])
def test_an_exception_is_written_with_its_traceback(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    try:
        int("odd")
    except ValueError:
        getattr(structlog.get_logger("a.b"), method)("failed", exc_info=True)
    (line,) = lines(capsys)
    assert line["level"] == "error"
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'odd'")
    assert "exc_info" not in line


def test_a_value_without_a_json_form_is_written_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    structlog.get_logger("a.b").warning("odd", what=complex(1, 2))
    assert lines(capsys)[0]["what"] == "(1+2j)"


def test_a_library_s_line_has_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logging.getLogger("some.library").warning("odd %s", "thing")
    (line,) = lines(capsys)
    assert list(line) == ["timestamp", "level", "event", "logger"]
    assert (line["level"], line["event"], line["logger"]) == ("warning", "odd thing", "some.library")
