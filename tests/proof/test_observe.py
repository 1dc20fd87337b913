"""A pod's history follows from the events of a watch, in their order."""

from __future__ import annotations

from typing import Any

from tests.proof.observe import History
from webhook.model.names import NUMA_ALLOCATION


def pod(phase: str, node: str = "", allocation: str = "", **status: str) -> dict[str, Any]:
    annotations = {NUMA_ALLOCATION: allocation} if allocation else {}
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"annotations": annotations}, "spec": spec, "status": {"phase": phase, **status}}


def test_a_pod_is_created_bound_runs_and_ends() -> None:
    history = History("p", "w", 0.0)
    events = [
        ("ADDED", pod("Pending")),
        ("MODIFIED", pod("Pending", "n0")),
        ("MODIFIED", pod("Running", "n0")),
        ("MODIFIED", pod("Running", "n0")),
        ("MODIFIED", pod("Succeeded", "n0")),
        ("DELETED", pod("Succeeded", "n0")),
    ]
    for now, (event, raw) in enumerate(events):
        history.take(event, raw, float(now))
    assert (history.node, history.bound, history.running, history.ended) == ("n0", 1.0, 2.0, 4.0)
    assert not history.rejected


def test_a_pod_that_a_kubelet_rejected_never_ran() -> None:
    history = History("p", "w", 0.0)
    message = "Pod was rejected: Resources cannot be allocated with Topology locality"
    history.take("MODIFIED", pod("Failed", "n0", reason="TopologyAffinityError", message=message), 1.0)
    assert (history.rejected, history.running, history.ended) == ("TopologyAffinityError", None, 1.0)


def test_a_pod_that_failed_by_itself_was_not_rejected() -> None:
    history = History("p", "w", 0.0)
    history.take("MODIFIED", pod("Failed", "n0", reason="Error", message="exit code 1"), 1.0)
    assert not history.rejected


def test_a_deleted_pod_ended_whatever_its_phase() -> None:
    history = History("p", "w", 0.0)
    history.take("DELETED", pod("Running", "n0"), 3.0)
    assert history.ended == 3.0


def test_each_allocation_since_the_binding_is_kept_and_also_its_end() -> None:
    history = History("p", "w", 0.0)
    events = [("placed", ""), ("placed", "n0"), ("exact", "n0"), ("exact", "n0"), ("", "n0")]
    for now, (allocation, node) in enumerate(events):
        history.take("MODIFIED", pod("Pending", node, allocation), float(now))
    assert history.allocations == [(1.0, "placed"), (2.0, "exact"), (4.0, "")]
