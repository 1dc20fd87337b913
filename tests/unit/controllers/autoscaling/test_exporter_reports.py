"""Nodes without an exporter are reported once an hour, and not all at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.kube.events import EventRecorder


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


def reports() -> tuple[MissingExporterReports, EventRecorder]:
    client: Any = None
    recorder = EventRecorder(client, "test")
    return MissingExporterReports(recorder, 300), recorder


def test_a_node_gets_another_event_after_the_api_server_has_dropped_the_first(lines: list[Any]) -> None:
    missing, recorder = reports()
    for minute in range(121):
        missing.tell(["n0"], 60.0 * minute)
    assert len(recorder._waiting) == 3, "at 0, 60 and 120 minutes"
    assert len(lines) == 3


def test_where_no_exporter_runs_each_sweep_reports_some_of_the_nodes(lines: list[Any]) -> None:
    missing, _ = reports()
    names = {f"n{number}" for number in range(250)}
    missing.tell(names, 0)
    assert len(lines) == 100
    for second in range(1, 5):
        missing.tell(names, second)
    assert {line["node"] for line in lines} == names
    assert len(lines) == 250
