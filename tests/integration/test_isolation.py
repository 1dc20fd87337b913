"""A fault that one pod, gang or owner causes affects no other, on the real control plane."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import machines
from tests.cluster.webhook_process import PROGRAM, LocalWebhook, Replica, local_webhook
from tests.integration.processes import process_lives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

__all__ = ["process_lives"]  # a fixture

NODES = "/api/v1/nodes"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane) as webhook:
        yield webhook


def member(group: str, number: int, of: int, **spec: Any) -> dict[str, Any]:
    asked = {"pod-group-name": group, "topology-webhook.dev/min-member": str(of)}
    return pod(f"{group}-{number}", cpu=4, annotations=asked, **spec)


def test_groups_without_a_topology_are_placed_one_after_the_other(known: Callable[..., None], pods: Pods) -> None:
    known(*machines(4, 2, prefix="flat"))
    for group in ("ga", "gb"):
        for number in range(2):
            pods.create(member(group, number, 2))
        pods.wait_until_bound(f"{group}-0", f"{group}-1")


def test_a_group_without_a_topology_waits_while_nodes_are_labelled_and_goes_when_it_is_whole(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(*machines(4, 2, prefix="flat"))
    pods.create(member("g", 0, 3))
    pods.create(member("g", 1, 3))
    pods.wait_until_told("g-0", "WaitingForPlacement", "2 of the 3 pods")
    for label in ("a", "b"):
        control_plane.api.patch(f"{NODES}/flat-0000", {"metadata": {"labels": {"example.com/new": label}}})
        control_plane.api.patch(f"{NODES}/flat-0001", {"metadata": {"labels": {"example.com/new": label}}})
    pods.create(member("g", 2, 3))
    pods.wait_until_bound("g-0", "g-1", "g-2")


FAULTY = Path(__file__).parents[1] / "cluster" / "faulty_webhook.py"
UNITS = {"faulty-place": "pod", "faulty-read": "pod", "faulty-write": "write", "faulty-owner": "owner"}
# A pod that cannot be kept is not known, so that nothing can be said of it but in the log and the metric.
UNKEPT = {"faulty-keep": "object"}


@pytest.fixture
def faulty(webhook: LocalWebhook) -> Iterator[Replica]:
    """The replica runs the program with injected faults."""
    (replica,) = webhook.replicas
    replica.program = [sys.executable, str(FAULTY)]
    replica.start_again()
    yield replica
    replica.program = [str(PROGRAM)]
    replica.start_again()


def test_a_fault_in_a_pod_or_gang_is_its_own_and_the_others_are_placed(
    known: Callable[..., None], pods: Pods, faulty: Replica, control_plane: ControlPlane
) -> None:
    known(*machines(4, 4, prefix="flat"))
    control_plane.wait_for("a leader", lambda: faulty.metrics().get("topology_webhook_leader"))
    pid = faulty.process.pid
    for name in ("faulty-place", "faulty-read", "faulty-write", *UNKEPT):
        pods.create(pod(name, cpu=1, annotations={"note": name}))
    marked = pod("faulty-owner", cpu=1, annotations={"topology-webhook.dev/min-member": "1"})
    marked["metadata"]["ownerReferences"] = [job_reference(pods, "faulty-owner")]
    pods.create(marked)
    for number in range(2):
        pods.create(member("faulty-gang", number, 2))
    for number in range(2):
        pods.create(member("g", number, 2))
    for number in range(8):
        pods.create(pod(f"honest-{number}", cpu=4))
    pods.wait_until_bound("g-0", "g-1", *(f"honest-{number}" for number in range(8)))
    for name in (*UNITS, "faulty-gang-0", "faulty-gang-1"):
        pods.wait_until_told(name, "WaitingForPlacement", "internal error: InjectedError")
        pods.wait_until_says(name, "internal error: InjectedError")
    assert pods.gated() == {*UNITS, *UNKEPT, "faulty-gang-0", "faulty-gang-1"}
    # What is tried again is counted, and the leader places others all the while.
    control_plane.wait_for("pods to be tried again", lambda: counts(faulty)["pod"] > 3)
    assert min(counts(faulty).values()) > 0
    pods.create(pod("later", cpu=4))
    pods.wait_until_bound("later")
    faulty.process.require_running()
    assert faulty.process.pid == pid


def counts(replica: Replica) -> dict[str, float]:
    metrics = replica.metrics()
    units = {*UNITS.values(), *UNKEPT.values(), "gang"}
    return {unit: metrics[f'topology_webhook_internal_errors_total{{where="{unit}"}}'] for unit in units}


def job_reference(pods: Pods, name: str) -> dict[str, Any]:
    template = {"spec": {**pod("")["spec"], "restartPolicy": "Never"}}
    body = {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}
    created = pods.plane.api.create(f"/apis/batch/v1/namespaces/{pods.namespace}/jobs", body)
    uid = created["metadata"]["uid"]
    # Not its controller: the controller of Jobs gives back pods that its selector does not find.
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
