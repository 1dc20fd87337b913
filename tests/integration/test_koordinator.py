"""Koordinator's CPU bind policies, reservations and NodeResourceTopologies on the real control plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.koordlet import cpu_annotations
from tests.cluster.api import ApiError
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.racked import webhook

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["webhook"]  # a fixture: the service

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
# One CPU of each of the eight cores of NUMA 0 is the kubelet's own.
SPLIT = "0,2,4,6,8,10,12,14"


def machine(name: str, **cpus: Any) -> Machine:
    """Two NUMA nodes of eight cores with two threads each, as koordlet publishes them."""
    published = cpu_annotations(zones=2, cores=8, threads=2, **cpus)
    return Machine(name, free=(16, 16), policy="none", publisher="koordlet", cpu_annotations=published)


def bound(name: str, cpu: int, required: str, **annotations: str) -> dict[str, Any]:
    """A pod whose CPUs Koordinator binds, on one NUMA node."""
    spec = json.dumps({"requiredCPUBindPolicy": required} if required else {})
    raw = pod(name, cpu=cpu, annotations={RESOURCE_SPEC: spec, **annotations})
    raw["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
    return raw


def test_whole_cores_are_taken_where_they_are(pods: Pods, known: Callable[..., None]) -> None:
    known(machine("m0", kubelet_reserved=SPLIT))
    for name in ("a", "b"):
        pods.create(bound(name, 8, "FullPCPUs"))
        pods.wait_until_bound(name)
        assert pods.allocation(name) == ("m0", [1])
    pods.create(bound("c", 8, "FullPCPUs"))
    pods.wait_until_says("c", "in free cores for FullPCPUs")
    pods.create(pod("d", cpu=8))
    pods.wait_until_bound("d")
    assert pods.allocation("d") == ("m0", [0])
    pods.delete("a")
    pods.wait_until_bound("c")
    assert pods.allocation("c") == ("m0", [1])


def test_a_spread_pod_takes_one_cpu_of_each_core(pods: Pods, known: Callable[..., None]) -> None:
    known(machine("m0"))
    pods.create(bound("a", 8, "SpreadByPCPUs"))
    pods.wait_until_bound("a")
    with pytest.raises(ApiError, match="in free cores for SpreadByPCPUs"):
        pods.create(bound("b", 9, "SpreadByPCPUs"))


def test_the_nodes_label_binds_cpus_too(pods: Pods, known: Callable[..., None]) -> None:
    labels = {"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"}
    spread = Machine(
        "m0",
        free=(16, 16),
        policy="none",
        publisher="koordlet",
        labels=labels,
        cpu_annotations=cpu_annotations(cores=8),
    )
    known(spread)
    with pytest.raises(ApiError, match="1 CPUs are no multiple of the threads per core"):
        pods.create(bound("a", 3, ""))
    pods.create(bound("b", 4, ""))
    pods.wait_until_bound("b")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bound("a", 4, "", **{"scheduling.koordinator.sh/reservation-affinity": "{}"}), "requires a Reservation"),
        (bound("a", 4, "FullPCPU"), "Did you mean FullPCPUs"),
        (bound("a", 5, "FullPCPUs"), "CPUs are no multiple of the threads per core"),
    ],
)
def test_what_cannot_be_honoured_is_denied(
    pods: Pods, known: Callable[..., None], raw: dict[str, Any], text: str
) -> None:
    known(machine("m0"))
    with pytest.raises(ApiError, match=text):
        pods.create(raw)


def test_what_a_node_reserves_is_not_free(pods: Pods, known: Callable[..., None]) -> None:
    reserved = json.dumps({"reservedCPUs": "0-11", "resources": {"memory": "100Gi"}})
    published = cpu_annotations(cores=8, node_reserved="0-11")
    annotations = {"node.koordinator.sh/reservation": reserved}
    known(
        Machine(
            "m0", free=(16, 16), policy="none", publisher="koordlet", annotations=annotations, cpu_annotations=published
        )
    )
    pods.create(pod("a", cpu=16))
    pods.wait_until_bound("a")
    assert pods.allocation("a") == ("m0", [1])
    pods.create(pod("b", cpu=5))
    pods.wait_until_says("b", "none of 1 node fits now")
    pods.create(pod("c", cpu=4))
    pods.wait_until_bound("c")
    assert pods.allocation("c") == ("m0", [0])


def test_bound_cpus_stay_off_amplified_nodes(pods: Pods, known: Callable[..., None]) -> None:
    annotations = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu": 1.5}'}
    amplified = Machine(
        "m0",
        free=(16, 16),
        policy="none",
        publisher="koordlet",
        annotations=annotations,
        cpu_annotations=cpu_annotations(cores=8),
    )
    known(amplified, machine("m1"))
    pods.create(bound("a", 4, ""))
    pods.wait_until_bound("a")
    assert pods.bound()["a"] == "m1"
    assert (
        "1 CPUs amplified by Koordinator" in pods.get("a")["metadata"]["annotations"]["topology-webhook.dev/placement"]
    )
