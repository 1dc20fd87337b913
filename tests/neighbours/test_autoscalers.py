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
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cluster.gated import NUMA, Pods, is_gated, pod
from tests.cluster.kubelets import SimulatedMachine
from tests.cluster.webhook_process import local_webhook
from tests.neighbours.autoscalers import AUTOSCALERS, Autoscaler
from tests.neighbours.new_nodes import NewNodes, booting
from tests.neighbours.node_groups import NodeGroup, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles
    from tests.neighbours.catalogue import Neighbour

POOL = NodeGroup("pool", SimulatedMachine("sample"))
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
    new: NewNodes

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
        """Each pod is on the node and alone on the NUMA node of its hint, and no kubelet rejected any."""
        given = set()
        for raw in self.pods.all().values():
            hint = json.loads(raw["metadata"]["annotations"][NUMA])
            assert hint["node"] == raw["spec"]["nodeName"]
            (entry,) = hint["numaNodeResources"]
            given.add((hint["node"], entry["node"]))
        assert len(given) == len(self.pods.all())
        assert self.new.events("rejected") == []


@contextlib.contextmanager
def scaled(
    autoscaler: Autoscaler,
    plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
    **settings: object,
) -> Iterator[Scaled]:
    """Run an autoscaler, the webhook that is told of it, and the machines of the group. settings: more of ours."""
    with (
        booting(plane, [POOL]) as new,
        local_webhook(plane, values={"settings": {"autoscaler": autoscaler.setting, **settings}}) as webhook,
        autoscaler.run(plane, built(autoscaler.neighbour), [POOL]),
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
        assert pods.hint("third")[0] == added
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
        for name in ("first", "second"):
            pods.create(pod(name, cpu=12))
        pods.wait_until_bound("first", "second")

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
        assert pods.hint("third")[0] != old
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
        assert pods.hint("third")[0] != old
        control_plane.wait_for("its admission", lambda: len(cluster.new.events("admitted")) == 3)
        cluster.assert_aligned()
        cluster.stays(lambda: len(cluster.nodes()) == 2)
