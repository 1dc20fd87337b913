"""What operators set for groups: reserving for those that wait long, and spreading, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import RACK_LABEL, Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
IN_A_RACK = {"kai.scheduler/topology": "reserve", "kai.scheduler/topology-required-placement": "rack"}


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
    topology = {**kind, "metadata": {"name": "reserve"}, "spec": {"levels": [{"nodeLabel": RACK_LABEL}]}}
    control_plane.api.create(TOPOLOGIES, topology)
    try:
        settings = {"reserveAfterSeconds": 1, "gangStrategy": "Spread"}
        with local_webhook(control_plane, values={"settings": settings}) as webhook:
            yield webhook
    finally:
        control_plane.api.delete(f"{TOPOLOGIES}/reserve")


def member(number: int, of: int) -> dict[str, Any]:
    asked = {"pod-group-name": "gang", "topology-webhook.dev/min-member": str(of), **IN_A_RACK}
    return pod(f"gang-{number}", cpu=16, annotations=asked)


def test_a_stream_of_small_pods_does_not_starve_a_gang_of_eight(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # rack-1 ── n0 [16 16 16 16]  n1 [16 16 16 16]      rack-2 ── n2 [16 16]
    racks = {"n0": ("rack-1", 4), "n1": ("rack-1", 4), "n2": ("rack-2", 2)}
    known(*(Machine(name, free=(16,) * zones, labels={RACK_LABEL: rack}) for name, (rack, zones) in racks.items()))
    # Eight small pods in rack-1, two in rack-2: each on a NUMA node that no member can have meanwhile.
    for number in range(10):
        pods.create(pod(f"small-{number}", cpu=9))
    pods.wait_until_bound(*(f"small-{number}" for number in range(10)))
    for number in range(8):
        pods.create(member(number, 8))

    pods.wait_until_says("gang-0", "rack rack-1 is reserved for it")
    # The stream: whenever a small pod ends, the next is there already.
    began = 10
    in_rack_1 = [name for name, node in pods.bound().items() if node != "n2"]
    for name in in_rack_1:
        pods.create(pod(f"small-{began}", cpu=9))
        pods.delete(name)
        began += 1
    pods.wait_until_bound(*(f"gang-{number}" for number in range(8)))
    bound = pods.bound()
    assert {bound[f"gang-{number}"] for number in range(8)} == {"n0", "n1"}
    # Nobody else waits for the gang: what is free elsewhere is taken.
    pods.delete(*(name for name, node in bound.items() if node == "n2"))
    control_plane.wait_for("the others to go on", lambda: len([n for n in pods.bound().values() if n == "n2"]) == 2)
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_of_the_racks_that_hold_a_group_the_one_with_most_room_is_chosen_where_the_operator_says_so(
    known: Callable[..., None], pods: Pods
) -> None:
    # rack-1 ── n0 [16 16]      rack-2 ── n1 [16 16 16 16]
    racks = {"n0": ("rack-1", 2), "n1": ("rack-2", 4)}
    known(*(Machine(name, free=(16,) * zones, labels={RACK_LABEL: rack}) for name, (rack, zones) in racks.items()))
    for number in range(2):
        pods.create(member(number, 2))
    pods.wait_until_bound("gang-0", "gang-1")
    assert pods.bound() == {"gang-0": "n1", "gang-1": "n1"}
