"""Segments on the real control plane: of a LeaderWorkerSet, as KAI-Scheduler documents them, and inside each other.

    rack-0 ── n-0 n-1 n-2      rack-1 ── n-0 n-1      rack-2 ── n-0      [one pod a node]

Their size is in the set's spec, their level on its worker template. The leader is in the first one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.controllers import Controllers, collection, leader_worker_set
from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.kinds import KINDS, served
from tests.cluster.lws_webhook import pod_webhook_of_lws
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import rack_of, topology_of_racks
from tests.cluster.webhook_process import local_webhook
from tests.integration.members import create_all, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

TOPOLOGY = {"kai.scheduler/topology": "racks"}
SEGMENTS_IN_RACK = {"kai.scheduler/segment-topology-required-placement": "rack"}
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": pod("", cpu=16)["spec"]}
FIRST, SECOND = ("w-0", "w-0-1", "w-0-2"), ("w-0-3", "w-0-4")


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[None]:
    kinds = [kind for kind in KINDS if kind.kind == "LeaderWorkerSet"]
    with (
        served(control_plane, kinds),
        pod_webhook_of_lws(control_plane),
        topology_of_racks(control_plane),
        local_webhook(control_plane),  # knows the kind from its start
    ):
        yield


def machines(*sizes: int) -> list[Machine]:
    return [
        Machine(f"n-{rack}-{number}", free=(16,), labels={RACK_LABEL: f"rack-{rack}", ZONE_LABEL: "zone-0"})
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def workload() -> dict[str, Any]:
    worker = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": SEGMENTS_IN_RACK}}
    below = {
        "size": 5,
        "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderWorker"},
        "leaderTemplate": TEMPLATE,
        "workerTemplate": worker,
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "w", "annotations": {**TOPOLOGY, **SINGLE}},
        "spec": {"replicas": 1, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": below},
    }


def test_each_segment_of_a_leader_worker_set_is_in_one_rack_and_a_lost_worker_comes_back_there(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    known(*machines(3, 2, 1))
    path = collection(pods.namespace, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    controllers = Controllers(control_plane, pods.namespace)
    leader_worker_set(controllers, control_plane.api.create(path, workload()))
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 5)
    assert {rack_of(pods, name) for name in FIRST} == {"rack-0"}
    assert {rack_of(pods, name) for name in SECOND} == {"rack-1"}
    ranks = [pods.get(name)["metadata"]["labels"]["topology-webhook.dev/rank"] for name in FIRST + SECOND]
    assert ranks == list("01234")

    for lost, rack in (("w-0-2", "rack-0"), ("w-0-3", "rack-1")):
        uid = pods.get(lost)["metadata"]["uid"]
        controllers.replace(lost)
        control_plane.wait_for("another", partial(is_made_anew, pods, lost, uid))
        assert rack_of(pods, lost) == rack


def test_segments_inside_segments_are_each_in_one_domain_and_a_lost_pod_comes_back_to_the_smallest(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    """Four a zone, two a rack. zone-0 and zone-1 have racks of three, two and one nodes: the last one holds no pair."""
    known(
        *(
            Machine(
                f"z{zone}-{rack}-{number}",
                free=(16,),
                labels={RACK_LABEL: f"rack-{zone}-{rack}", ZONE_LABEL: f"zone-{zone}"},
            )
            for zone in range(2)
            for rack, size in enumerate((3, 2, 1))
            for number in range(size)
        )
    )
    asked = {
        **TOPOLOGY,
        "kai.scheduler/topology-required-placement": "",
        "kai.scheduler/segment-size": "4,2",
        "kai.scheduler/segment-topology-required-placement": "zone,rack",
    }
    create_all(pods, "g", 8, **asked)
    names = [f"g-{number}" for number in range(8)]
    pods.wait_until_bound(*names)
    racks = [rack_of(pods, name) for name in names]
    assert racks[::2] == racks[1::2]
    zones = [rack.rpartition("-")[0] for rack in racks]
    assert {len(set(zones[:4])), len(set(zones[4:]))} == {1}
    pods.delete("g-3")
    pods.create(member("g", 3, 8, cpu=16, **asked))
    pods.wait_until_bound("g-3")
    assert rack_of(pods, "g-3") == racks[2]
    with pytest.raises(ApiError, match="Segments of 3 pods do not divide those of 4 before them"):
        pods.create(member("bad", 0, 8, cpu=16, **asked | {"kai.scheduler/segment-size": "4,3"}))


def is_made_anew(pods: Pods, name: str, uid: str) -> bool:
    """Whether another pod of this name is bound."""
    return name in pods.bound() and pods.get(name)["metadata"]["uid"] != uid
