"""Ended pods that an NRT may still count."""

from dataclasses import replace

from tests.builders.records import cpus, resident, topology
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.state.assumed.node_state import NodeState

NRT = replace(topology(node="n", free=cpus(8)), written_at=100)


def ended(name: str, at: int | None, bound_at: int = 50) -> ResidentPod:
    held = {"cpu": 1000}
    return replace(
        resident(name=name, node="n", requests=held, numa={0: held}),
        uid=name,
        bound_at=bound_at,
        terminal=True,
        ended_at=at,
    )


def deleted(name: str) -> ResidentPod:
    return replace(ended(name, None), terminal=False)


def those_that_may_count(*pods: ResidentPod) -> list[str]:
    kept = NodeState()
    for pod in pods:
        kept.note_end(pod)
    return [pod.name for pod in kept.that_may_count(NRT, settle=10)]


def test_the_last_one_comes_first_in_whatever_order_they_are_told() -> None:
    assert those_that_may_count(ended("a", 95), ended("b", 120), ended("c", 98)) == ["b", "c", "a"]


def test_who_ended_long_before_the_scan_or_came_after_it_was_not_seen_by_it() -> None:
    assert those_that_may_count(ended("a", 89), ended("b", 90), ended("c", 300, bound_at=101)) == ["b"]


def test_a_pod_that_a_kubelet_rejected_never_held_anything() -> None:
    assert those_that_may_count(ended("a", None)) == []


def test_a_pod_that_was_deleted_is_remembered() -> None:
    assert those_that_may_count(deleted("a")) == ["a"]


def test_a_pod_that_ended_and_was_deleted_then_is_one() -> None:
    assert those_that_may_count(ended("a", 95), deleted("a")) == ["a"]
    assert those_that_may_count(ended("a", 80), deleted("a")) == []


def test_only_the_last_ones_are_kept() -> None:
    assert len(those_that_may_count(*(ended(f"p{at}", at) for at in range(100, 150)))) == 8
