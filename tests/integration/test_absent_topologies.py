"""Missing or unreadable NodeResourceTopologies, on the real control plane: pods wait for them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, SPEC, Pods, is_gated, pod
from tests.cluster.nodes import NODES, TOPOLOGIES, Machine, publish
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

NRT_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io"
INFORMER = 'topology_webhook_informer_objects{resource="noderesourcetopologies.topology.node.k8s.io"}'
BEST_EFFORT = {SPEC: '{"numaTopologyPolicy": "BestEffort"}'}
UNKNOWN = "no NUMA topology is known for the one node it may go to"
ONLY: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane) as webhook:
        yield webhook


@contextlib.contextmanager
def without_crd(plane: ControlPlane) -> Iterator[None]:
    """Remove the CRD within this context. Its objects are gone afterwards."""
    plane.api.delete(NRT_CRD)
    try:
        listed = "customresourcedefinitions"
        plane.wait_for("the CRD to be gone", lambda: "noderesourcetopologies" not in plane.kubectl("get", listed))
        yield
    finally:
        plane.install_crds()


def says(pods: Pods, raw: dict[str, Any]) -> str:
    """The placement of this pod in a dry run."""
    tried = pods.plane.api.create(f"{pods.path}?dryRun=All", raw)
    return str(tried["metadata"]["annotations"].get(PLACEMENT, ""))


def test_pods_wait_while_the_crd_is_removed_and_are_placed_when_it_is_back(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    n0 = Machine("n0", free=(16, 16))
    known(n0)
    with without_crd(control_plane):
        control_plane.wait_for("it to be noticed", lambda: UNKNOWN in says(pods, pod("a", **ONLY)))
        created = pods.create(pod("a", **ONLY))
        assert is_gated(created)
        assert created["metadata"]["annotations"][PLACEMENT].startswith("waiting: SingleNUMANode: none of 1 node fits")
        # Pods that insist on nothing go where nothing is known.
        pods.create(pod("loose", annotations=BEST_EFFORT, **ONLY))
        pods.wait_until_bound("loose")
        assert pods.gated() == {"a"}
    control_plane.api.create(TOPOLOGIES, n0.topology())
    pods.wait_until_bound("a")
    assert pods.allocation("a")[0] == "n0"


def test_a_service_that_starts_without_the_crd_is_ready_and_picks_it_up_without_a_restart(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    (replica,) = webhook.replicas
    n0 = Machine("n0", free=(16, 2))
    known(n0)
    with without_crd(control_plane):
        replica.start_again()
        assert replica.metrics()[INFORMER] == 0
        names = [f"p{number}" for number in range(20)]
        for name in names:
            assert is_gated(pods.create(pod(name, cpu=1, **ONLY)))
        assert UNKNOWN in pods.get("p0")["metadata"]["annotations"][PLACEMENT]
        pods.wait_until_told("p0", "WaitingForPlacement", UNKNOWN)
    began = replica.process
    # The CRD alone changes nothing; the first NRT does.
    control_plane.api.create(TOPOLOGIES, n0.topology())
    control_plane.wait_for("as many to be bound as n0 holds", lambda: len(pods.bound()) == 18)
    assert replica.process is began
    assert replica.metrics()[INFORMER] == 1
    assert len(pods.gated()) == 2


def test_a_node_whose_policy_cannot_be_read_is_avoided_until_it_can_be(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    (replica,) = webhook.replicas
    odd = Machine("n0", free=(16, 16))
    known(odd, Machine("n1", free=(2, 2)))
    control_plane.api.patch(f"{TOPOLOGIES}/n0", misspelled(odd))
    named = "(n0: topologyManagerPolicy 'Sometimes')"
    control_plane.wait_for("it to be read", lambda: named in says(pods, pod("a")))
    created = pods.create(pod("a"))
    assert is_gated(created)
    assert f"excluded: 1 unknown NUMA policy {named}, 1 no single" in created["metadata"]["annotations"][PLACEMENT]
    assert replica.metrics()["topology_webhook_unknown_policies"] == 1
    publish(control_plane.api, odd)
    pods.wait_until_bound("a")
    assert pods.allocation("a")[0] == "n0"
    assert replica.metrics()["topology_webhook_unknown_policies"] == 0


def misspelled(machine: Machine) -> dict[str, Any]:
    """The NRT of an exporter that was started with an unknown policy."""
    raw = machine.topology()
    (policy,) = [one for one in raw["attributes"] if one["name"] == "topologyManagerPolicy"]
    policy["value"] = "Sometimes"
    return raw


def test_a_pod_that_a_scheduler_binds_before_the_exporter_has_spoken_is_refused_there_and_goes_later(
    pods: Pods, control_plane: ControlPlane
) -> None:
    n0 = Machine("n0", free=(16, 16))
    control_plane.wait_for("the last test's nodes to be forgotten", lambda: "of 0 nodes" in says(pods, pod("a")))
    created = pods.create(pod("a"))
    assert not is_gated(created)
    try:
        control_plane.api.create(NODES, n0.node())
        pods.wait_until_told("a", "FailedScheduling", "no NUMA topology known")
        assert pods.bound() == {}
        control_plane.api.create(TOPOLOGIES, n0.topology())
        pods.wait_until_bound("a")
        assert pods.allocation("a") == ("n0", [0])
    finally:
        pods.delete("a")
        control_plane.api.delete(f"{NODES}/n0")
        control_plane.api.delete(f"{TOPOLOGIES}/n0")
