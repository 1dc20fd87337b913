"""Delegated pods that are never bound, on the real control plane: they block no other pod, and say why they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, is_gated, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    # No reservation ends by its age within the test: what frees the node is what the scheduler said.
    with local_webhook(control_plane, values={"settings": {"apiServerRequestTimeoutSeconds": 600}}) as webhook:
        webhook.wait_until_called()
        yield webhook


def claim(pods: Pods, name: str) -> None:
    """A claim without a class, for which no volume exists."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    path = f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims"
    pods.plane.api.create(path, {"metadata": {"name": name}, "spec": spec})


def provide_volume(control_plane: ControlPlane, pods: Pods, claim_name: str) -> str:
    """Create a volume for the claim. Returns its path."""
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "claimRef": {"namespace": pods.namespace, "name": claim_name},
    }
    name = f"{pods.namespace}-{claim_name}"
    control_plane.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    return f"/api/v1/persistentvolumes/{name}"


def unbound_claim() -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def spread_over_what_no_node_has() -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "example.com/nowhere",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return {"topologySpreadConstraints": [constraint]}


def missing_resource_claim() -> dict[str, Any]:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}]}


@pytest.mark.parametrize(
    ("spec", "chosen_for", "said"),
    [
        (unbound_claim(), "volumes", "unbound immediate PersistentVolumeClaims"),
        (spread_over_what_no_node_has(), "topology spread constraints", "topology spread constraints"),
    ],
    ids=["a claim that nothing binds", "a spread that cannot be met"],
)
def test_a_pod_that_the_scheduler_never_binds_closes_its_node_to_nobody_and_says_what_it_waits_for(
    spec: dict[str, Any],
    chosen_for: str,
    said: str,
    known: Callable[..., None],
    pods: Pods,
    control_plane: ControlPlane,
) -> None:
    # n0 ── NUMA 0 [16]      the only node; the pod that hangs asks for all of it
    known(Machine("n0", free=(16,)))
    claim(pods, "data")
    pods.create(pod("hangs", cpu=16, **spec))
    control_plane.wait_for("it to be let go", lambda: not is_gated(pods.get("hangs")))
    for name, cpu in (("a", 3), ("b", 4), ("c", 5)):  # another shape each
        pods.create(pod(name, cpu=cpu))
    pods.wait_until_bound("a", "b", "c")
    assert "hangs" not in pods.bound()
    pods.wait_until_says("hangs", f"the scheduler chooses the node, for its {chosen_for}")
    pods.wait_until_says("hangs", said)
    assert said in pods.wait_until_told("hangs", "WaitingForScheduler", said)
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_it_is_bound_as_soon_as_what_it_waits_for_is_there_and_says_where(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]  NUMA 1 [16]
    known(Machine("n0", free=(16, 16)))
    claim(pods, "data")
    pods.create(pod("hangs", cpu=9, **unbound_claim()))
    pods.wait_until_says("hangs", "unbound immediate PersistentVolumeClaims")
    pods.create(pod("a", cpu=10))
    pods.wait_until_bound("a")
    volume = provide_volume(control_plane, pods, "data")
    try:
        pods.wait_until_bound("hangs")
        pods.wait_until_says("hangs", "bound to n0, NUMA ")
        assert "unbound" not in pods.get("hangs")["metadata"]["annotations"]["topology-webhook.dev/placement"]
        assert {pods.allocation(name)[1][0] for name in ("a", "hangs")} == {0, 1}
        assert overcommitted(control_plane, pods.all().values()) == {}
    finally:
        control_plane.api.delete(volume)


def member(name: str, cpu: int, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu=cpu, annotations={"pod-group-name": "g", "topology-webhook.dev/min-member": "2"}, **spec)


def test_a_placed_group_that_cannot_be_bound_closes_its_node_to_nobody_and_is_bound_once_it_can(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]  NUMA 1 [16]     the only node; the group asks for all of it
    known(Machine("n0", free=(16, 16)))
    claim(pods, "data")
    for name in ("g-0", "g-1"):
        pods.create(member(name, 16, **unbound_claim()))
    for name in ("g-0", "g-1"):
        pods.wait_until_says(name, "placed on n0")
    for name, cpu in (("a", 3), ("b", 4), ("c", 5)):  # another shape each
        pods.create(pod(name, cpu=cpu))
    pods.wait_until_bound("a", "b", "c")
    for name in ("g-0", "g-1"):
        pods.wait_until_says(name, "placed on n0, where nothing is reserved for it any more")
        pods.wait_until_says(name, "unbound immediate PersistentVolumeClaims")
        assert "unbound" in pods.wait_until_told(name, "WaitingForScheduler", "unbound")
    assert overcommitted(control_plane, pods.all().values()) == {}
    pods.delete("a", "b", "c")
    volume = provide_volume(control_plane, pods, "data")
    try:
        pods.wait_until_bound("g-0", "g-1")
        assert {pods.allocation(name)[1][0] for name in ("g-0", "g-1")} == {0, 1}
        assert "unbound" not in pods.get("g-0")["metadata"]["annotations"]["topology-webhook.dev/placement"]
        assert overcommitted(control_plane, pods.all().values()) == {}
    finally:
        control_plane.api.delete(volume)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (spread_over_what_no_node_has(), "topology spread constraints"),
        (missing_resource_claim(), "one of its resource claims may not exist"),
    ],
    ids=["a spread that cannot be met", "a resource claim that is missing"],
)
def test_nor_does_a_placed_group_that_hangs_for_another_reason(
    spec: dict[str, Any], said: str, known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]  NUMA 1 [16]     the group leaves 4 on each
    known(Machine("n0", free=(16, 16)))
    for name in ("g-0", "g-1"):
        kept = pods.create(member(name, 12, **spec))["spec"]
        if not spec.keys() <= kept.keys():
            pytest.skip(f"this API server drops {', '.join(spec.keys() - kept.keys())}: the feature is off")
    for name in ("g-0", "g-1"):
        pods.wait_until_says(name, "placed on n0")
    for name, cpu in (("a", 3), ("b", 4), ("c", 5)):  # another shape each
        pods.create(pod(name, cpu=cpu))
    pods.wait_until_bound("a", "b", "c")
    pods.wait_until_says("g-0", said)
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_of_a_group_the_member_that_cannot_be_bound_waits_alone_and_is_refused_what_others_have_by_then(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]  NUMA 1 [16]
    known(Machine("n0", free=(16, 16)))
    claim(pods, "data")
    pods.create(member("g-0", 10))
    pods.create(member("g-1", 10, **unbound_claim()))
    pods.wait_until_bound("g-0")
    pods.wait_until_says("g-1", "nothing is reserved for it any more")
    pods.create(pod("a", cpu=12))
    pods.wait_until_bound("a")
    volume = provide_volume(control_plane, pods, "data")
    try:
        pods.wait_until_told("g-1", "FailedScheduling", "needs 10 cpu, most free on one is 6")
        pods.delete("a")
        pods.wait_until_bound("g-1")
        assert {pods.allocation(name)[1][0] for name in ("g-0", "g-1")} == {0, 1}
        assert overcommitted(control_plane, pods.all().values()) == {}
    finally:
        control_plane.api.delete(volume)


def test_a_placed_pod_that_another_ones_anti_affinity_keeps_from_its_node_closes_it_to_nobody(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [16]
    known(Machine("n0", free=(16,)))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "shy"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods.create(pod("first", cpu=1, affinity=apart))
    pods.wait_until_bound("first")
    kept_away = pod("kept-away", cpu=9)
    kept_away["metadata"]["labels"] = {"app": "shy"}
    pods.create(kept_away)
    pods.wait_until_says("kept-away", "placed on n0")
    pods.create(pod("a", cpu=10))
    pods.wait_until_bound("a")
    pods.wait_until_says("kept-away", "anti-affinity rules")
    assert overcommitted(control_plane, pods.all().values()) == {}
