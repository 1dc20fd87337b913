"""The real Cluster Autoscaler and Karpenter beside the webhook: pods that wait behind the gate get nodes.

Both run with their cloud provider `kwok`, which creates and deletes Node objects; the machines behind them boot here
(new_nodes.py). A machine has 2 NUMA nodes of 16 CPUs. The group is empty at first:

    pool ── -            two pods of 12 CPUs need a node: no node exists that they could go to, so they are not gated
    pool ── [4 4]        the third waits behind the gate
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cluster.gated import NUMA, Pods, is_gated, pod
from tests.cluster.kubelets import even_machine
from tests.cluster.provisioning_requests import provisioning_requests, requests_of, templates_of
from tests.cluster.webhook_process import local_webhook
from tests.neighbours.autoscalers import AUTOSCALERS, Autoscaler
from tests.neighbours.cluster_autoscaler import cluster_autoscaler
from tests.neighbours.new_nodes import BootedNodes, booting
from tests.neighbours.node_groups import GroupOfMachines, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles
    from tests.neighbours.catalogue import Neighbour

POOL = GroupOfMachines("pool", even_machine("sample"))
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
OBSERVED_SECONDS = 15.0
"""Longer than both take to add a node (3 s) and to remove an empty one (5 s here)."""

both = pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(each, id=each.neighbour.name, marks=pytest.mark.neighbour(each.neighbour.name))
        for each in AUTOSCALERS
    ],
)


class Scaled(NamedTuple):
    """A cluster that an autoscaler adds nodes to."""

    pods: Pods
    new: BootedNodes

    def nodes(self) -> set[str]:
        """The Nodes that exist."""
        return set(nodes_of(self.pods.plane, [POOL]))

    def wait_for_nodes(self, count: int) -> None:
        self.pods.plane.wait_for(f"{count} nodes", lambda: len(self.nodes()) == count)

    def stays(self, what: Callable[[], bool]) -> None:
        """Assert that something is true for longer than an autoscaler needs to change it."""
        end = time.monotonic() + OBSERVED_SECONDS
        while time.monotonic() < end:
            assert what()
            time.sleep(0.5)

    def assert_aligned(self) -> None:
        """Each pod is on the node and alone on the NUMA node of its allocation, and no kubelet rejected any."""
        given = set()
        for raw in self.pods.all().values():
            allocation = json.loads(raw["metadata"]["annotations"][NUMA])
            assert allocation["node"] == raw["spec"]["nodeName"]
            (entry,) = allocation["numaNodeResources"]
            given.add((allocation["node"], entry["node"]))
        assert len(given) == len(self.pods.all())
        assert self.new.events("rejected") == []


@contextlib.contextmanager
def scaled(
    autoscaler: Autoscaler,
    plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
    group: GroupOfMachines = POOL,
    **settings: object,
) -> Iterator[Scaled]:
    """Run an autoscaler, the webhook that is told of it, and the machines of the group. settings: more of ours."""
    with (
        booting(plane, [group]) as new,
        local_webhook(plane, values={"settings": {"autoscaler": autoscaler.setting, **settings}}) as webhook,
        autoscaler.run(plane, built(autoscaler.neighbour), [group]),
    ):
        webhook.wait_until_called()
        try:
            yield Scaled(pods, new)
        finally:
            plane.delete_namespace(pods.namespace)


def is_marked(raw: dict[str, Any]) -> bool:
    """Whether an autoscaler takes the pod for one that needs a node."""
    return any(
        (condition["type"], condition["status"], condition.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for condition in raw["status"].get("conditions", ())
    )


@both
def test_a_pod_behind_the_gate_gets_one_node_and_starts_when_its_numa_nodes_are_known(
    autoscaler: Autoscaler,
    control_plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
) -> None:
    with scaled(autoscaler, control_plane, pods, built) as cluster:
        # an empty group: the pods are not gated, and fill the node that is added
        for name in ("first", "second"):
            assert not is_gated(pods.create(pod(name, cpu=12)))
        pods.wait_until_bound("first", "second")
        (old,) = cluster.nodes()

        # the node is full: the next pod waits behind the gate, and gets a node all the same
        cluster.new.exporting.clear()
        assert is_gated(pods.create(pod("third", cpu=12)))
        cluster.wait_for_nodes(2)
        (added,) = cluster.nodes() - {old}
        control_plane.wait_for("its kubelet", lambda: added in cluster.new.ready())
        assert is_marked(pods.get("third"))

        # its NUMA nodes are not known yet: the pod waits, no further node comes, and this one is not removed
        cluster.stays(lambda: cluster.nodes() == {old, added} and pods.gated() == {"third"})

        # its exporter publishes
        cluster.new.exporting.set()
        pods.wait_until_bound("third")
        assert pods.allocation("third")[0] == added
        control_plane.wait_for("its admission", lambda: len(cluster.new.events("admitted")) == 3)
        cluster.assert_aligned()
        cluster.stays(lambda: cluster.nodes() == {old, added})

        # it is deleted: the autoscaler removes the node, as it would have while the pod waited
        pods.delete("third")
        control_plane.wait_for("the end of the node", lambda: cluster.nodes() == {old})


@both
def test_a_gang_behind_the_gate_gets_the_nodes_that_it_needs_and_starts_at_once(
    autoscaler: Autoscaler,
    control_plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
) -> None:
    with scaled(autoscaler, control_plane, pods, built) as cluster:
        fill_a_machine(pods)

        # four members, two to a node
        names = [f"member-{number}" for number in range(4)]
        gang = {"pod-group-name": "gang", "topology-webhook.dev/min-member": "4"}
        for name in names:
            assert is_gated(pods.create(pod(name, cpu=12, annotations=gang)))
        cluster.wait_for_nodes(3)
        pods.wait_until_bound(*names)
        control_plane.wait_for("their admission", lambda: len(cluster.new.events("admitted")) == 6)
        cluster.assert_aligned()
        cluster.stays(lambda: len(cluster.nodes()) == 3)


@both
def test_a_pod_that_fits_a_node_in_sum_alone_gets_no_node_until_the_sum_is_taken(
    autoscaler: Autoscaler,
    control_plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
) -> None:
    with scaled(autoscaler, control_plane, pods, built) as cluster:
        # free: [6 6]
        for name in ("first", "second"):
            pods.create(pod(name, cpu=10))
        pods.wait_until_bound("first", "second")
        (old,) = cluster.nodes()

        # 10 CPUs fit 12, but no NUMA node: autoscalers count by sums
        assert is_gated(pods.create(pod("third", cpu=10)))
        control_plane.wait_for("its mark", lambda: is_marked(pods.get("third")))
        cluster.stays(lambda: cluster.nodes() == {old} and pods.gated() == {"third"})

        # free: [6 0]
        pods.create(pod("small", cpu=6))
        pods.wait_until_bound("small", "third")
        assert pods.allocation("third")[0] != old
        assert len(cluster.nodes()) == 2
        assert cluster.new.events("rejected") == []


@pytest.mark.neighbour("cluster-autoscaler")
def test_a_pod_that_is_kept_off_the_node_that_it_fits_in_sum_gets_one_of_its_own(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    (autoscaler,) = (each for each in AUTOSCALERS if each.setting == "ClusterAutoscaler")
    with scaled(autoscaler, control_plane, pods, built, newNodeSeconds=1, narrowAfterSeconds=5) as cluster:
        # free: [6 6]
        for name in ("first", "second"):
            pods.create(pod(name, cpu=10))
        pods.wait_until_bound("first", "second")
        (old,) = cluster.nodes()
        assert is_gated(pods.create(pod("third", cpu=10)))
        pods.wait_until_bound("third")
        assert pods.allocation("third")[0] != old
        control_plane.wait_for("its admission", lambda: len(cluster.new.events("admitted")) == 3)
        cluster.assert_aligned()
        cluster.stays(lambda: len(cluster.nodes()) == 2)


def provisioning() -> Autoscaler:
    """cluster-autoscaler that reads ProvisioningRequests."""
    (autoscaler,) = (each for each in AUTOSCALERS if each.setting == "ClusterAutoscaler")
    return autoscaler._replace(run=partial(cluster_autoscaler, provisioning=True))


def conditions(pods: Pods) -> dict[str, str]:
    """The conditions of the one ProvisioningRequest, by type; empty if there is none."""
    found = requests_of(pods.plane, pods.namespace)
    return {one["type"]: one["status"] for raw in found for one in raw.get("status", {}).get("conditions", ())}


def plans(plane: ControlPlane) -> list[str]:
    """Each scale-up of cluster-autoscaler, as its log says it."""
    log = (plane.folder / "cluster-autoscaler.log").read_text()
    return [line.rpartition("Final scale-up plan: ")[2] for line in log.splitlines() if "Final scale-up plan" in line]


def fill_a_machine(pods: Pods) -> None:
    for name in ("first", "second"):
        pods.create(pod(name, cpu=12))
    pods.wait_until_bound("first", "second")


def gang_of_four() -> list[dict[str, Any]]:
    """Two members fill a machine."""
    gang = {"pod-group-name": "gang", "topology-webhook.dev/min-member": "4"}
    return [pod(f"member-{number}", cpu=12, annotations=gang) for number in range(4)]


@pytest.mark.neighbour("cluster-autoscaler")
def test_a_gang_gets_all_its_nodes_by_one_provisioning_request(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with (
        provisioning_requests(control_plane),
        scaled(provisioning(), control_plane, pods, built, provisioningClass=ATOMIC) as cluster,
    ):
        fill_a_machine(pods)
        before = plans(control_plane)

        # the request is accepted and provisioned by one scale-up, and no member is shown as unschedulable
        cluster.new.exporting.clear()
        names = [pods.create(raw)["metadata"]["name"] for raw in gang_of_four()]
        wanted = {"Accepted": "True", "Provisioned": "True"}
        control_plane.wait_for("the request to be provisioned", lambda: conditions(pods) == wanted)
        cluster.wait_for_nodes(3)
        (plan,) = plans(control_plane)[len(before) :]
        assert "1->3" in plan
        assert not any(is_marked(pods.get(name)) for name in names)

        # the NUMA nodes of the new nodes are not known yet: the request holds the nodes, and asks for no more
        control_plane.wait_for("their kubelets", lambda: cluster.nodes() <= cluster.new.ready())
        cluster.stays(lambda: len(cluster.nodes()) == 3 and pods.gated() == set(names))

        # their exporters publish: the gang starts, and the request is cancelled
        cluster.new.exporting.set()
        pods.wait_until_bound(*names)
        control_plane.wait_for("their admission", lambda: len(cluster.new.events("admitted")) == 6)
        cluster.assert_aligned()
        control_plane.wait_for("the request to go", lambda: not requests_of(control_plane, pods.namespace))
        control_plane.wait_for("its template to go", lambda: not templates_of(control_plane, pods.namespace))
        cluster.stays(lambda: len(cluster.nodes()) == 3)


@pytest.mark.neighbour("cluster-autoscaler")
def test_a_gang_that_its_group_cannot_hold_gets_no_node_and_says_so(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with (
        provisioning_requests(control_plane),
        scaled(
            provisioning(), control_plane, pods, built, replace(POOL, maximum=2), provisioningClass=ATOMIC
        ) as cluster,
    ):
        fill_a_machine(pods)

        # one more node would hold half of the gang: pod by pod, the autoscaler would add it
        for raw in gang_of_four():
            pods.create(raw)
        control_plane.wait_for("an answer", lambda: conditions(pods).get("Provisioned") == "False")
        pods.wait_until_says("member-0", "there is no capacity now")
        cluster.stays(lambda: len(cluster.nodes()) == 1)


@pytest.mark.neighbour("cluster-autoscaler")
def test_a_check_of_capacity_is_answered_and_adds_no_node(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    with (
        provisioning_requests(control_plane),
        scaled(provisioning(), control_plane, pods, built, provisioningClass=CHECK) as cluster,
    ):
        fill_a_machine(pods)
        for raw in gang_of_four():
            pods.create(raw)
        control_plane.wait_for("an answer", lambda: conditions(pods).get("Provisioned") == "False")
        pods.wait_until_says("member-0", "adds no node for that")
        cluster.stays(lambda: len(cluster.nodes()) == 1)
