"""Node agents obey allocations: a bound pod has one only while it is certain, and it ends as the kubelet's choice.

The machines' kubelets are simulated, with the kubelet's own code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import NUMA, PLACEMENT, Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"


@pytest.fixture
def machines(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    # k0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]
    with kubelets(control_plane, [even_machine("k0")], lag=4.0) as running:
        yield running
        control_plane.delete_namespace(namespace)


def annotations_of(pods: Pods, name: str) -> dict[str, Any]:
    found: dict[str, Any] = pods.get(name)["metadata"]["annotations"]
    return found


def allocated(pods: Pods, name: str) -> list[int] | None:
    """The NUMA nodes in the pod's allocation; None if it names none. Koordlet's annotation must say the same."""
    found = annotations_of(pods, name)
    allocations = [json.loads(found.get(key, "{}")).get("numaNodeResources", []) for key in (NUMA, RESOURCE_STATUS)]
    assert allocations[0] == allocations[1]
    return [entry["node"] for entry in allocations[0]] or None


def given(machines: Kubelets, name: str) -> list[int]:
    """The NUMA nodes on which the kubelet gave the pod CPUs."""
    admitted = {event["pod"].partition("/")[2]: event for event in machines.events("admitted")}
    return [int(numa) for numa in admitted[name]["containers"][0]["cpusPerNuma"]]


def wait_until_right(pods: Pods, machines: Kubelets, name: str) -> None:
    pods.plane.wait_for(f"the right allocation of {name}", lambda: allocated(pods, name) == given(machines, name))


def test_a_pod_after_an_unmanaged_one_gets_its_allocation_once_its_numa_node_is_known(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    with local_webhook(control_plane):
        wait_until_known(pods, 1)
        unmanaged = pod("unmanaged", cpu=10)
        del unmanaged["metadata"]["annotations"]
        pods.create(unmanaged)
        control_plane.wait_for("it to be admitted", lambda: machines.events("admitted"))
        pods.create(pod("a", cpu=10))
        pods.wait_until_bound("a")
        control_plane.wait_for("a to be admitted", lambda: len(machines.events("admitted")) == 2)
        assert given(machines, "a") == [1]
        wait_until_right(pods, machines, "a")
        assert annotations_of(pods, "a")[PLACEMENT].startswith("placed on k0, NUMA 1\n")


def test_a_pod_that_may_have_found_the_room_of_another_one_has_no_allocation_until_that_is_known(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    with local_webhook(control_plane):
        wait_until_known(pods, 1)
        pods.create(pod("ending", cpu=10))
        control_plane.wait_for("it to be admitted", lambda: machines.events("admitted"))
        machines.process.pause()
        try:
            pods.create(pod("a", cpu=10))
            pods.wait_until_bound("a")
            assert allocated(pods, "a") == [1]
            pods.delete("ending")
            control_plane.wait_for(
                "no allocation", lambda: not {NUMA, RESOURCE_STATUS} & annotations_of(pods, "a").keys()
            )
            assert annotations_of(pods, "a")[PLACEMENT].startswith("placed on k0, NUMA nodes not certain yet\n")
        finally:
            machines.process.resume()
        control_plane.wait_for("a to be admitted", lambda: len(machines.events("admitted")) == 2)
        wait_until_right(pods, machines, "a")
