"""After a kubelet has rejected a pod, the next pod of its controller avoids the node until its NRT is newer.

The kubelets are simulated, with the kubelet's own code. Static pods take CPUs that no NRT shows; the tests write the
NRTs.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.cluster.gated import Pods, is_gated, pod
from tests.cluster.nodes import Machine, publish
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.static_pods import Site, create_replica_set, create_topology, in_phase, surprising_machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

AVOIDED = 'topology_webhook_nodes_avoided_total{reason="TopologyAffinityError"}'


@pytest.fixture
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, replicas=1, values={"settings": QUICK_LEASE}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def site(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with surprising_machine(control_plane, tmp_path) as site:
        yield site
        control_plane.delete_namespace(namespace)


def test_the_next_pod_goes_elsewhere_and_its_text_and_an_event_say_why(
    control_plane: ControlPlane, webhook: LocalWebhook, pods: Pods, site: Site
) -> None:
    create_replica_set(pods)
    control_plane.wait_for("k0 to reject the first pod", site.rejected)
    (second,) = control_plane.wait_for("the second", lambda: [name for name in pods.all() if is_gated(pods.get(name))])
    create_topology(control_plane, "k1")
    control_plane.wait_for("the next pod to run", lambda: in_phase(pods, "Running") == [second])
    assert pods.bound()[second] == "k1"
    pods.wait_until_says(second, "1 avoided after a rejection (k0: TopologyAffinityError at ")
    pods.wait_until_told("a", "NodeAvoided", "this ReplicaSet's next pods avoid node k0: its kubelet rejected pod a-")
    assert site.rejected() == ["k0"]
    (replica,) = webhook.replicas
    assert replica.metrics()[AVOIDED] == 1.0


def test_without_another_node_it_waits_for_a_newer_nrt_even_across_a_restart(
    control_plane: ControlPlane, webhook: LocalWebhook, pods: Pods, site: Site
) -> None:
    create_replica_set(pods)
    control_plane.wait_for("k0 to reject the first pod", site.rejected)
    (second,) = control_plane.wait_for("the second", lambda: [name for name in pods.all() if is_gated(pods.get(name))])
    pods.wait_until_says(second, "1 node would fit but is avoided for now: it is used again once its")
    (replica,) = webhook.replicas
    replica.process.kill()
    replica.start_again()
    replica.wait_until_ready()
    # Another pod wakes the placement: the new process has tried both.
    pods.create(pod("other", cpu=5, nodeSelector={"kubernetes.io/hostname": "k1"}))
    pods.wait_until_told("other", "WaitingForPlacement")
    assert is_gated(pods.get(second))
    site.end_static_pods()
    frees = cycle([(8, 7), (8, 8)])

    def runs() -> bool:
        # Each NRT is written again: it counts once it is younger than the rejection, in whole seconds.
        publish(control_plane.api, Machine("k0", free=next(frees), cpus=8))
        return in_phase(pods, "Running") == [second]

    control_plane.wait_for("it to run on k0", runs)
    assert pods.bound()[second] == "k0"
    assert site.rejected() == ["k0"]
