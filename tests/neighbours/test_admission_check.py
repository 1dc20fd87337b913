"""Kueue's admission check of the webhook: quota alone starts no workload that finds no NUMA node.

m-0 m-1      [2 NUMA nodes of 16 CPUs each]; four pods of 10 leave 6 in each: 12 on a machine, and 24 in all
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.controllers import collection
from tests.cluster.gated import SINGLE, Pods, pod, wait_until_known
from tests.cluster.kinds import job
from tests.cluster.kubelets import even_machine, kubelets
from tests.cluster.webhook_process import local_webhook
from tests.neighbours.catalogue import KUEUE, Neighbour
from tests.neighbours.kueue import API, QUEUE, kueue, queue
from tests.neighbours.racks import is_aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

MACHINES = tuple(even_machine(f"m-{number}") for number in range(2))


class Queued(Pods):
    """Jobs of the queue."""

    def submit(self, name: str, cpus: int, count: int = 1, annotations: dict[str, str] = SINGLE) -> None:
        template = {"metadata": {"annotations": annotations}, "spec": pod("", cpu=cpus)["spec"]}
        path = collection(self.namespace, "batch/v1", "Job")
        metadata = {"name": name, "labels": QUEUE}
        self.plane.api.create(
            path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job(template, count)}
        )

    def remove(self, name: str) -> None:
        """Delete a Job and its pods."""
        self.plane.api.delete(
            f"{collection(self.namespace, 'batch/v1', 'Job')}/{name}", {"propagationPolicy": "Foreground"}
        )
        self.plane.wait_for("its pods to go", lambda: not any(key.startswith(f"{name}-") for key in self.all()))

    def workload(self, name: str) -> dict[str, Any]:
        """The Workload of a Job."""
        for raw in self.plane.api.get(f"{API}/namespaces/{self.namespace}/workloads")["items"]:
            if any(owner["name"] == name for owner in raw["metadata"]["ownerReferences"]):
                return dict(raw)
        return {}

    def check(self, name: str) -> dict[str, Any]:
        """The state of its check; empty before Kueue has set it."""
        found = self.workload(name).get("status", {}).get("admissionChecks") or [{}]
        return dict(found[0])

    def has(self, name: str, condition: str) -> bool:
        conditions = self.workload(name).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == (condition, "True") for one in conditions)

    def of(self, name: str) -> set[str]:
        return {key for key in self.bound() if key.startswith(f"{name}-")}


@contextlib.contextmanager
def checked(plane: ControlPlane, namespace: str, files: NeighbourFiles) -> Iterator[Queued]:
    with (
        local_webhook(plane, values={"settings": {"advanced": {"kueueAdmissionCheck": True}}}) as webhook,
        kueue(plane, files),
        kubelets(plane, MACHINES) as running,
        queue(plane, namespace, 1000, "fit"),
    ):
        webhook.wait_until_called()
        queued = Queued(plane, namespace)
        wait_until_known(queued, len(MACHINES))
        yield queued
        assert running.events("rejected") == []
        is_aligned(queued, running)


@pytest.mark.neighbour("kueue")
def test_a_workload_keeps_no_quota_while_no_numa_node_has_room(
    control_plane: ControlPlane, namespace: str, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with checked(control_plane, namespace, built(KUEUE)) as queued:
        for number in range(4):
            queued.create(pod(f"own-{number}", cpu=10))
        control_plane.wait_for("four pods", lambda: len(queued.bound()) == 4)

        # by quota and by sums a pod of 12 fits on a machine; no NUMA node has that much
        queued.submit("large", 12)
        control_plane.wait_for("the answer", lambda: queued.check("large").get("state") == "Retry")
        assert "does not fit now" in queued.check("large")["message"]
        control_plane.wait_for("the quota to be free", lambda: not queued.has("large", "QuotaReserved"))
        assert queued.of("large") == set()

        # a pod that is not managed needs no answer of ours
        queued.submit("plain", 1, annotations={})
        control_plane.wait_for("it to run", lambda: len(queued.of("plain")) == 1)
        assert "not checked" in queued.check("plain")["message"]
        queued.remove("plain")

        # room: it starts, without another word
        queued.delete("own-0")
        control_plane.wait_for("it to run", lambda: len(queued.of("large")) == 1, 90)
        assert queued.check("large")["state"] == "Ready"


@pytest.mark.neighbour("kueue")
def test_two_workloads_are_not_told_of_the_same_room(
    control_plane: ControlPlane, namespace: str, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with checked(control_plane, namespace, built(KUEUE)) as queued:
        for number in range(3):
            queued.create(pod(f"own-{number}", cpu=10))
        control_plane.wait_for("three pods", lambda: len(queued.bound()) == 3)
        queued.submit("one", 12)
        queued.submit("two", 12)
        control_plane.wait_for("both answers", lambda: states(queued) in (["Ready", "Retry"], ["Pending", "Ready"]))
        control_plane.wait_for("one to run", lambda: len(queued.of("one") | queued.of("two")) == 1)
        assert len(queued.all()) == 4


def states(queued: Queued) -> list[str]:
    return sorted(str(queued.check(name).get("state")) for name in ("one", "two"))
