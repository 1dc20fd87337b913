"""Grove's PodGangs on the real control plane. `tests.cluster.grove` does what its operator does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.builders.grove import GATE, binding, config, pack, pod_gang, podgroup
from tests.cluster.answers import reviewed
from tests.cluster.api import ApiError
from tests.cluster.gated import PLACEMENT, Pods
from tests.cluster.grove import TOPOLOGIES, Grove, served
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, machines
from tests.cluster.racked import rack_of
from tests.cluster.webhook_process import local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

LEADER, WORKER, SCALED = "s-0-decode-0-leader", "s-0-decode-0-worker", "s-0-decode-1-worker"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[None]:
    values = {"settings": {"grovePodGangs": True}}
    with served(control_plane), local_webhook(control_plane, values=values) as running:
        control_plane.api.create(TOPOLOGIES, binding(ZONE_LABEL, RACK_LABEL, name="racks"))
        running.wait_until_called()
        yield


@pytest.fixture
def grove(pods: Pods) -> Iterator[Grove]:
    with contextlib.closing(Grove(pods)) as running:
        yield running


def test_podgangs_start_whole_once_grove_lets_them_the_base_first_each_scaling_replica_in_its_rack(
    grove: Grove, known: Callable[..., None], pods: Pods, control_plane: ControlPlane, tmp_path: Path
) -> None:
    # Two racks of 16 nodes with a NUMA node of 16 CPUs each; a pod takes one. Together they hold 32 pods.
    known(*machines(32, 1, prefix="gang"))
    base = pod_gang(
        podgroup("s-0-router", 2),
        podgroup(LEADER, 1),
        podgroup(WORKER, 9),
        configs=[config("s-0-decode-0", [LEADER, WORKER], RACK_LABEL)],
        name="s-0",
        namespace=pods.namespace,
        topology="racks",
        priorityClassName="high",
        **pack(ZONE_LABEL),
    )
    made = grove.make(base, {"s-0-router": 2, LEADER: 1, WORKER: 9})
    assert {raw["metadata"]["annotations"]["pod-group-name"] for raw in made} == {"s-0"}
    entries = reviewed(
        [base, *({"apiVersion": "v1", "kind": "Pod", **raw} for raw in made)],
        tmp_path,
        "--kubeconfig",
        control_plane.kubeconfig,
        "--grove-pod-gangs=true",
    )
    assert {entry["verdict"] for entry in entries} == {"allow"}
    assert len(entries[0]["group"]["pods"]) == len(made)

    # Grove before 0.1.0-alpha.12 removes all gates.
    with pytest.raises(ApiError, match=r"topology-webhook\.dev/placement"):
        grove.gates("s-0-router-0", None)
    names = [raw["metadata"]["name"] for raw in made]
    grove.open("s-0", *names[:-1])
    pods.wait_until_says(names[0], f"8 of 9 of subgroup {WORKER} pods that must start together are there")
    assert pods.bound() == {}
    grove.open("s-0", names[-1])
    pods.wait_until_bound(*names)
    (rack,) = {rack_of(pods, name) for name in names if "decode" in name}
    said = pods.get(names[0])["metadata"]["annotations"]
    assert said["kai.scheduler/topology"] == "racks"
    assert 'not used of PodGang s-0: its priority class "high" (that of each pod counts)' in said[PLACEMENT]

    # The rack of the base has 16 nodes, so that the next replica is in the other one; then the first one grows.
    scaled = pod_gang(podgroup(SCALED, 9, RACK_LABEL), name="s-0-decode-0", namespace=pods.namespace, topology="racks")
    further = [raw["metadata"]["name"] for raw in grove.make(scaled, {SCALED: 9}, base="s-0")]
    assert {gate["name"] for gate in pods.get(further[0])["spec"]["schedulingGates"]} > {GATE}
    grove.open("s-0-decode-0", *further)
    pods.wait_until_bound(*further)
    (other,) = {rack_of(pods, name) for name in further}
    assert other != rack
    one_more = grove.pod("s-0", WORKER, 9)["metadata"]["name"]
    grove.open("s-0", one_more)
    pods.wait_until_bound(one_more)
    assert rack_of(pods, one_more) == rack
