"""Events that wait to be written."""

import re
from typing import Any

import pytest

from webhook.kube.events import EventRecorder, PodEvent, event_object


def test_no_more_of_a_note_is_kept_than_an_event_takes() -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    for end in ("a", "b"):
        recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", "x" * 250_000 + end, "Assign"))
    recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", "short", "Assign"))
    cut = "x" * 1021 + "..."
    assert [recorder._waiting.pop()[0].note for _ in range(2)] == [cut, "short"]
    assert not recorder._waiting
    assert {event.note for event in recorder._told} == {cut, "short"}


@pytest.mark.parametrize("end", ["", "x", "xx", "xxx"])
def test_the_length_of_a_note_counts_bytes_and_no_character_is_cut_in_two(end: str) -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    recorder.tell(PodEvent("ns/p", "u", "WaitingForPlacement", end + "🌲" * 300, "Assign"))
    event, _ = recorder._waiting.pop()
    assert 1020 < len(event.note.encode()) <= 1024
    assert (end + "🌲" * 300).startswith(event.note.removesuffix("..."))


def test_the_name_of_an_event_about_a_long_name_is_valid() -> None:
    name = "a" * 229 + "." + "b" * 20
    event = event_object({"name": name, "namespace": "ns"}, "Assigned", "", "Assign", "Normal", "replica")
    assert re.fullmatch(r"a{229}\.[0-9a-f]{16}", event["metadata"]["name"])


def test_a_namespace_that_has_thousands_of_events_costs_another_ones_event_neither_its_place_nor_its_turn() -> None:
    client: Any = None
    recorder = EventRecorder(client, "replica")
    recorder.tell(PodEvent("honest/p", "u", "Assigned", "first", "Assign"))
    for number in range(5_000):
        recorder.tell(PodEvent(f"busy/p{number}", "u", "WaitingForPlacement", "waits", "Assign"))
    recorder.tell(PodEvent("honest/q", "u", "Assigned", "second", "Assign"))
    next_ones = [recorder._waiting.pop()[0].key for _ in range(3)]
    assert next_ones == ["honest/p", "busy/p4002", "honest/q"]
    assert len(recorder._waiting) == 997
