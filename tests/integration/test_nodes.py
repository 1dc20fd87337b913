"""The API server accepts simulated machines, and the service reads them like real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.nodes import FINGERPRINT_OF_NO_PODS, RACK_LABEL, ZONE_LABEL, Machine, machines, present, publish
from tests.fingerprints import pod_fingerprint
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy, Scope

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

# n0 [8 2] of 16 CPUs each, a GPU on the second NUMA node
N0 = Machine("n0", free=(8, 2), devices={"example.com/gpu": (0, 1)}, policy="restricted", scope="pod")


def test_the_service_reads_the_machine_back_from_its_topology() -> None:
    topology = NodeTopology.from_object(N0.topology())
    assert topology.problems == ()
    assert (topology.policy, topology.scope) == (NUMAPolicy.RESTRICTED, Scope.POD)
    assert [zone.id for zone in topology.zones] == [0, 1]
    assert [zone.resources["cpu"].available for zone in topology.zones] == [8000, 2000]
    assert [zone.resources["cpu"].capacity for zone in topology.zones] == [16000, 16000]
    assert [zone.resources["example.com/gpu"].available for zone in topology.zones] == [0, 1]
    assert topology.zones[0].costs == {0: 10, 1: 20}


def test_the_service_reads_the_machine_back_from_its_node() -> None:
    node = Node.from_object(N0.node())
    assert node.ready
    assert not node.taints
    assert node.allocatable["cpu"] == 32000
    assert node.allocatable["memory"] == 128 * 2**30
    assert node.allocatable["example.com/gpu"] == 1


def test_the_fingerprint_is_that_of_a_node_without_pods() -> None:
    assert pod_fingerprint([]) == FINGERPRINT_OF_NO_PODS


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_the_policy_is_in_the_attributes_alone_as_of_a_real_exporter(policy: str) -> None:
    raw = Machine("n0", free=(1,), policy=policy).topology()
    assert NodeTopology.from_object(raw).policy.kubelet == policy
    assert NodeTopology.from_object(raw | {"attributes": []}).policy.kubelet == "none"


def test_many_machines_stand_in_racks_and_zones() -> None:
    made = machines(65, 2)
    assert made[0].labels == {RACK_LABEL: "rack-0", ZONE_LABEL: "zone-0"}
    assert made[17].labels == {RACK_LABEL: "rack-1", ZONE_LABEL: "zone-0"}
    assert made[64].labels == {RACK_LABEL: "rack-4", ZONE_LABEL: "zone-1"}


def test_machines_are_there_within_their_context_only(control_plane: ControlPlane) -> None:
    with present(control_plane.api, [N0, *machines(3, 8, prefix="m")]):
        assert control_plane.kubectl("get", "nodes", "-o", "name").split() == [
            "node/m-0000",
            "node/m-0001",
            "node/m-0002",
            "node/n0",
        ]
        (node,) = [node for node in control_plane.api.get("/api/v1/nodes")["items"] if node["metadata"]["name"] == "n0"]
        assert "taints" not in node["spec"]
    assert control_plane.kubectl("get", "nodes,noderesourcetopologies", "-o", "name") == ""


def test_a_machine_is_published_again_with_what_is_free_now(control_plane: ControlPlane) -> None:
    with present(control_plane.api, [N0]):
        publish(control_plane.api, Machine("n0", free=(0, 2)))
        raw = control_plane.api.get("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n0")
        assert [zone.resources["cpu"].available for zone in NodeTopology.from_object(raw).zones] == [0, 2000]
