"""Every change that can make a waiting pod fit wakes the controller, on the real control plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, SPEC, Pods, is_gated, pod
from tests.cluster.nodes import NODES, RACK_LABEL, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
# A single pod that no node could take even if it were empty is left to the scheduler; a group waits behind the gate.
GROUP = {"pod-group-name": "a"}
ANY_POLICY = {SPEC: '{"numaTopologyPolicy": ""}'}
TAINT = {"key": "example.com/maintenance", "effect": "NoSchedule"}


pytestmark = pytest.mark.usefixtures("shared_webhook")


@pytest.fixture
def waits(known: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> Callable[..., None]:
    """A function that creates n0 and a pod that does not fit there, and returns when the pod has been tried."""

    def tried(raw: dict[str, Any]) -> str:
        text: str = control_plane.api.create(f"{pods.path}?dryRun=All", raw)["metadata"]["annotations"][PLACEMENT]
        return text

    def create(machine: Machine, raw: dict[str, Any], node: dict[str, Any] | None = None) -> None:
        known(machine)
        if node is not None:
            control_plane.api.patch(f"{NODES}/n0", node)
            control_plane.wait_for("the change to be seen", lambda: "none of 1 node fits now" in tried(raw))
        assert is_gated(pods.create(raw))
        pods.wait_until_told("a", "WaitingForPlacement")
        assert is_gated(pods.get("a"))

    return create


def test_a_label_that_its_selector_asks_for(
    waits: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    waits(Machine("n0", free=(8,)), pod("a", annotations=GROUP, nodeSelector={"pool": "numa"}))
    control_plane.api.patch(f"{NODES}/n0", {"metadata": {"labels": {"pool": "numa"}}})
    pods.wait_until_bound("a")


def test_a_taint_that_goes(waits: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> None:
    waits(Machine("n0", free=(8,)), pod("a", annotations=GROUP), {"spec": {"taints": [TAINT]}})
    control_plane.api.patch(f"{NODES}/n0", {"spec": {"taints": None}})
    pods.wait_until_bound("a")


def test_a_policy_label_on_its_node(waits: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> None:
    # n0 ── NUMA 0 [8]  NUMA 1 [8]      single-numa-node, and the pod asks for 12
    waits(Machine("n0", free=(8, 8)), pod("a", cpu=12, annotations=ANY_POLICY))
    control_plane.api.patch(
        f"{NODES}/n0", {"metadata": {"labels": {"node.koordinator.sh/numa-topology-policy": "BestEffort"}}}
    )
    pods.wait_until_bound("a")


def test_what_the_pod_itself_asks_for(waits: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> None:
    waits(Machine("n0", free=(8, 8), policy="none"), pod("a", cpu=12))
    control_plane.api.patch(f"{pods.path}/a", {"metadata": {"annotations": ANY_POLICY}})
    pods.wait_until_bound("a")


def test_the_topology_that_its_group_names(waits: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> None:
    name = f"{pods.namespace}-racks"
    asked = {
        "pod-group-name": "a",
        "kai.scheduler/topology": name,
        "kai.scheduler/topology-required-placement": "rack",
    }
    waits(Machine("n0", free=(8,), labels={RACK_LABEL: "rack-1"}), pod("a", annotations=asked))
    pods.wait_until_told("a", "WaitingForPlacement", f'There is no topology "{name}"')
    kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
    levels = {"levels": [{"nodeLabel": RACK_LABEL}]}
    control_plane.api.create(TOPOLOGIES, {**kind, "metadata": {"name": name}, "spec": levels})
    try:
        pods.wait_until_bound("a")
        assert json.loads(pods.get("a")["metadata"]["annotations"]["topology-webhook.dev/domain"])
    finally:
        control_plane.api.delete(f"{TOPOLOGIES}/{name}")
