"""The Events of gangs on their owners, on the real control plane."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT
from tests.cluster.nodes import machines, publish_all
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.integration.members import member
from tests.integration.workloads import SINGLE, job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    values = {"settings": {"warnAfterSeconds": 5}}
    with topology_of_racks(control_plane), local_webhook(control_plane, values=values) as webhook:
        yield webhook


def events(pods: Pods) -> list[dict[str, Any]]:
    """The service's Events in the namespace."""
    path = f"/apis/events.k8s.io/v1/namespaces/{pods.namespace}/events"
    found: list[dict[str, Any]] = pods.plane.api.get(path)["items"]
    return [event for event in found if event.get("reportingController", "").startswith("topology-webhook")]


def told(pods: Pods, kind: str) -> list[tuple[str, str, str]]:
    """(type, reason, name) of the service's Events about objects of a kind, sorted."""
    return sorted(
        (event["type"], event["reason"], event["regarding"]["name"])
        for event in events(pods)
        if event["regarding"]["kind"] == kind
    )


def test_a_jobs_gang_has_an_event_a_state_on_the_job_and_none_on_its_pods(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # rack-0: 16 machines of 2 NUMA nodes, all full
    fleet = machines(16, 2, prefix="gang")
    known(*(replace(one, free=(0, 0)) for one in fleet))
    created = control_plane.api.create(jobs(pods), job("train", 16, {**RACKS, **SINGLE}))
    warned = ("Warning", "WaitingForPlacement", "train")
    control_plane.wait_for("the warning", lambda: warned in told(pods, "Job"))
    publish_all(control_plane.api, fleet)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 16)
    placed = ("Normal", "Assigned", "train")
    control_plane.wait_for("its place", lambda: placed in told(pods, "Job"))
    first, *others = told(pods, "Job")
    assert (first, others) == (placed, [("Normal", "WaitingForPlacement", "train"), warned])
    assert told(pods, "Pod") == []
    notes = {event["reason"]: event["note"] for event in events(pods)}
    assert notes["Assigned"] == f"placed in rack-0: 16 pods on {len(set(pods.bound().values()))} nodes"
    assert notes["WaitingForPlacement"].startswith(f"waiting: gang pg-train-{created['metadata']['uid']}, 16 pods, ")
    regarding = events(pods)[0]["regarding"]
    assert regarding == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": pods.namespace,
        "name": "train",
        "uid": created["metadata"]["uid"],
    }
    assert "placed in rack-0: 16 pods" in control_plane.kubectl("describe", "job", "train", "-n", pods.namespace)


def test_members_of_a_gang_without_an_owner_have_their_own_and_a_hostile_name_fits_into_them(
    known: Callable[..., None], pods: Pods
) -> None:
    known(*(replace(one, free=(0, 0)) for one in machines(1, 2, prefix="gang")))
    for number in range(2):
        raw = member("own", number, 2)
        raw["metadata"]["annotations"]["pod-group-name"] = "🌲" * 253
        pods.create(raw)
    for number in range(2):
        note = pods.wait_until_told(f"own-{number}", "WaitingForPlacement", "🌲")
        assert 1000 < len(note.encode()) <= 1024
    assert pods.get("own-0")["metadata"]["annotations"][PLACEMENT].startswith("waiting: ")
