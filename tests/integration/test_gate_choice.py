"""Pods whose node only the scheduler can pick, on the real control plane: they are not held to one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import NUMA, Pods, is_gated, pod
from tests.cluster.nodes import Machine, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane


pytestmark = pytest.mark.usefixtures("shared_webhook")


def apart(name: str) -> dict[str, Any]:
    """A pod that shares its node with no other such pod."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    raw = pod(name, affinity=anti)
    raw["metadata"]["labels"] = {"app": "apart"}
    return raw


def test_pods_that_must_be_apart_are_and_each_has_its_numa_node(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]   n1 ── NUMA 0 [16]      room for both on either
    known(Machine("n0", free=(16,)), Machine("n1", free=(16,)))
    assert is_gated(pods.create(apart("a")))
    pods.create(apart("b"))
    pods.wait_until_bound("a", "b")
    assert sorted(pods.allocation(name) for name in "ab") == [("n0", [0]), ("n1", [0])]
    assert pods.wait_until_told("a", "DelegatedToScheduler").startswith(
        "the scheduler chooses the node, for its pod anti-affinity; SingleNUMANode: "
    )


def test_they_wait_together_and_go_together_and_none_is_left_over(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 .. n7 ── NUMA 0 [2 of 16]
    fleet = [Machine(f"n{number}", free=(16,)) for number in range(8)]
    known(*(Machine(one.name, free=(2,)) for one in fleet))
    for number in range(8):
        assert is_gated(pods.create(apart(f"p{number}")))
    for one in fleet:
        publish(control_plane.api, one)
    pods.wait_until_bound(*(f"p{number}" for number in range(8)))
    assert set(pods.bound().values()) == {one.name for one in fleet}
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_a_pod_with_a_volume_goes_where_its_volume_is(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [9]   n1 ── NUMA 0 [16]      n0 suits the pod better; its volume is on n1
    known(Machine("n0", free=(9,)), Machine("n1", free=(16,)))
    name = f"{pods.namespace}-on-n1"
    on_n1 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_n1]}},
        "claimRef": {"namespace": pods.namespace, "name": "data"},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claims = f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims"
    control_plane.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    try:
        control_plane.api.create(claims, {"metadata": {"name": "data"}, "spec": claim})
        pods.create(pod("a", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
        pods.wait_until_bound("a")
        assert pods.bound()["a"] == "n1"
        assert NUMA in pods.get("a")["metadata"]["annotations"]
    finally:
        control_plane.api.delete(f"/api/v1/persistentvolumes/{name}")


def test_a_pod_for_which_the_scheduler_prefers_a_node_that_cannot_hold_it_is_not_refused_there_for_ever(
    known: Callable[..., None], pods: Pods
) -> None:
    # n0 ── NUMA 0 [7]  NUMA 1 [7]   n1 ── NUMA 0 [16]  NUMA 1 [16]
    known(Machine("n0", free=(7, 7)), Machine("n1", free=(16, 16)))
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    names = ("a", "b", "c", "d")
    for name in names:
        raw = pod(name, topologySpreadConstraints=[spread])
        raw["metadata"]["labels"] = {"app": "spread"}
        pods.create(raw)
    pods.wait_until_bound(*names)
    assert sorted(pods.allocation(name) for name in names) == [("n1", [0]), ("n1", [0]), ("n1", [1]), ("n1", [1])]
