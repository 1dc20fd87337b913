"""Other schedulers beside kube-scheduler and the webhook, on the same machines. Each places its own pods.

m-0 m-1      [2 NUMA nodes of 16 CPUs each]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.controllers import collection
from tests.cluster.gated import GATE, Pods, pod, wait_until_known
from tests.cluster.kinds import job
from tests.cluster.kubelets import even_machine, kubelets
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.racked import RACKS, webhook
from tests.neighbours.catalogue import KAI, SCHEDULER_PLUGINS, Neighbour
from tests.neighbours.schedulers import KAI_NAME, KAI_QUEUE, SCHEDULER_PLUGINS_NAME, kai_scheduler, scheduler_plugins
from tests.neighbours.untouched import gates, holders, touched_by, touched_by_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import Kubelets
    from tests.neighbours.build import NeighbourFiles

__all__ = ["webhook"]  # a fixture

MACHINES = tuple(
    even_machine(f"m-{number}", labels={ZONE_LABEL: "zone-0", RACK_LABEL: "rack-0"}) for number in range(2)
)
BIND_REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"
POD_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"


@pytest.fixture
def machines(control_plane: ControlPlane, pods: Pods) -> Iterator[Kubelets]:
    wait_until_known(pods, 0)  # the machines of the last test have the same names
    with kubelets(control_plane, MACHINES) as running:
        wait_until_known(pods, len(MACHINES))
        yield running
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def theirs(name: str, cpu: int, scheduler: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod that names another scheduler, without annotations."""
    raw = pod(name, cpu, schedulerName=scheduler)
    raw["metadata"] = {"name": name, "labels": labels or {}}
    return raw


def wait_until_running(pods: Pods, *names: str) -> None:
    pods.plane.wait_for(
        f"{', '.join(names)} to run", lambda: all(pods.get(name)["status"]["phase"] == "Running" for name in names)
    )


@pytest.mark.neighbour("scheduler-plugins")
def test_the_second_scheduler_and_the_webhook_share_numa_nodes(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with scheduler_plugins(control_plane, built(SCHEDULER_PLUGINS)):
        for name in ("own-0", "own-1"):
            pods.create(pod(name, cpu=10))
        wait_until_running(pods, "own-0", "own-1")
        for name in ("their-0", "their-1"):
            assert gates(pods.create(theirs(name, 10, SCHEDULER_PLUGINS_NAME))) == set()
            wait_until_running(pods, name)  # its filter does not count what the last report lacks
        assert holders(machines) == {(machine.name, numa): 1 for machine in MACHINES for numa in "01"}

        # each machine has 12 CPUs left in sum: neither of the two falls for that
        pods.create(theirs("their-late", 10, SCHEDULER_PLUGINS_NAME))
        pods.create(pod("own-late", cpu=10))
        pods.wait_until_told("their-late", "FailedScheduling", "cannot align")
        pods.wait_until_told("own-late", "WaitingForPlacement")
        assert gates(pods.get("own-late")) == {GATE}

        # NUMA nodes become free for each in turn: if both waited, both could take the same one
        pods.delete("their-late")
        pods.delete("their-0")
        wait_until_running(pods, "own-late")
        pods.create(theirs("their-late", 10, SCHEDULER_PLUGINS_NAME))
        pods.wait_until_told("their-late", "FailedScheduling", "cannot align")
        pods.delete("own-0")
        wait_until_running(pods, "their-late")
        assert set(holders(machines).values()) == {1}
        assert machines.events("rejected") == []
        for name, raw in pods.all().items():
            if name.startswith("their"):
                assert touched_by_us(raw) == []
            else:
                assert touched_by(raw, ("scheduling.x-k8s.io/",), ["scheduler-plugins"]) == []


@pytest.mark.neighbour("kai")
def test_kai_scheduler_places_its_pods_and_leaves_our_gang_and_its_pod_group_alone(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with kai_scheduler(control_plane, built(KAI)):
        template = {"metadata": {}, "spec": pod("", cpu=16)["spec"]}
        metadata = {"name": "gang", "annotations": {**RACKS, **pod("")["metadata"]["annotations"]}, "labels": KAI_QUEUE}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job(template, 2)}
        made = control_plane.api.create(collection(pods.namespace, "batch/v1", "Job"), body)
        control_plane.wait_for("the gang", lambda: len(pods.bound()) == 2)
        ours = set(pods.bound())
        for name in ("their-0", "their-1"):
            assert gates(pods.create(theirs(name, 16, KAI_NAME, KAI_QUEUE))) == set()
        wait_until_running(pods, *ours, "their-0", "their-1")
        assert holders(machines) == {(machine.name, numa): 1 for machine in MACHINES for numa in "01"}
        assert machines.events("rejected") == []

        groups = {
            each["metadata"]["name"]: each for each in control_plane.api.get(POD_GROUPS.format(pods.namespace))["items"]
        }
        our_group = groups.pop(f"pg-gang-{made['metadata']['uid']}")
        assert our_group["spec"]["minMember"] == 2
        uids = [pods.get(name)["metadata"]["uid"] for name in ("their-0", "their-1")]
        assert sorted(groups) == sorted(f"pg-their-{number}-{uid}" for number, uid in enumerate(uids))
        for name, raw in pods.all().items():
            if name in ours:
                assert touched_by(raw, (), ["kai", "binder", "podgrouper"]) == []
            else:
                assert touched_by_us(raw) == []

        # no room in sum: each waits, and gets what becomes free while the other one does not wait
        pods.create(pod("own-late", cpu=16))
        pods.wait_until_told("own-late", "WaitingForPlacement")
        pods.delete("their-0")
        wait_until_running(pods, "own-late")
        pods.create(theirs("their-late", 16, KAI_NAME, KAI_QUEUE))
        pods.delete("own-late")
        wait_until_running(pods, "their-late")
        assert set(holders(machines).values()) == {1}
        assert machines.events("rejected") == []
