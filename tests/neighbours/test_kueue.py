"""Kueue's manager beside the webhook: quota and queues are Kueue's, placement is ours.

m-0 m-1      [2 NUMA nodes of 16 CPUs each, a pod takes 10]; the queue has a quota of 20 CPUs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.controllers import collection
from tests.cluster.gated import GATE, SINGLE, Pods, pod, wait_until_known
from tests.cluster.kinds import job
from tests.cluster.kubelets import even_machine, kubelets
from tests.cluster.racked import webhook
from tests.neighbours.catalogue import KUEUE, Neighbour
from tests.neighbours.kueue import QUEUE, kueue, queue
from tests.neighbours.racks import is_aligned
from tests.neighbours.untouched import gates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

__all__ = ["webhook"]  # a fixture

MACHINES = tuple(even_machine(f"m-{number}") for number in range(2))
THEIR_GATE = "kueue.x-k8s.io/admission"


@pytest.mark.neighbour("kueue")
def test_kueue_admits_by_quota_what_the_webhook_places(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    wait_until_known(pods, 0)
    with (
        kueue(control_plane, built(KUEUE)),
        kubelets(control_plane, MACHINES) as running,
        queue(control_plane, pods.namespace, 20),
    ):
        wait_until_known(pods, len(MACHINES))

        # a Job of its queue: Kueue creates it suspended and admits it; its pods are ours to place
        template = {"metadata": {"annotations": SINGLE}, "spec": pod("", cpu=10)["spec"]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "first", "labels": QUEUE},
            "spec": job(template, 2),
        }
        created = control_plane.api.create(collection(pods.namespace, "batch/v1", "Job"), body)
        assert created["spec"]["suspend"] is True
        control_plane.wait_for("its pods", lambda: len(pods.bound()) == 2)

        # a pod of the queue, for which there is no quota left: Kueue's gate stays, whatever we do
        queued = pod("queued", cpu=10)
        queued["metadata"]["labels"] = QUEUE
        assert THEIR_GATE in gates(pods.create(queued))

        # pods of no queue: Kueue leaves them alone, and ours is the only gate
        for name in ("own-0", "own-1", "own-2"):
            assert THEIR_GATE not in gates(pods.create(pod(name, cpu=10)))
        control_plane.wait_for("two of them", lambda: len(pods.bound()) == 4)
        (late,) = {"own-0", "own-1", "own-2"} - pods.bound().keys()
        assert gates(pods.get(late)) == {GATE}
        assert not any(key.startswith("kueue.x-k8s.io/") for key in pods.get(late)["metadata"].get("labels", {}))
        assert THEIR_GATE in gates(pods.get("queued"))
        assert running.events("rejected") == []

        # room for one: ours goes there, since Kueue still holds the other
        (gone, *_) = (name for name in pods.bound() if name.startswith("own"))
        pods.delete(gone)
        pods.wait_until_bound(late)
        assert THEIR_GATE in gates(pods.get("queued"))

        # the Job ends: its quota goes to the pod, Kueue removes its gate, and we place it
        control_plane.api.delete(
            f"{collection(pods.namespace, 'batch/v1', 'Job')}/first", {"propagationPolicy": "Foreground"}
        )
        pods.wait_until_bound("queued")
        control_plane.wait_for("the Job's pods to go", lambda: pods.all().keys() == {"queued", late, *_own(pods)})
        is_aligned(pods, running)


def _own(pods: Pods) -> set[str]:
    return {name for name in pods.all() if name.startswith("own")}
