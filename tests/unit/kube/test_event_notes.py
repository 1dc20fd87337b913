"""Events that wait to be written."""

from typing import Any

from webhook.kube.events import EventRecorder, PodEvent


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
