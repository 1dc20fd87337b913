"""Warnings of kubectl for objects that are admitted and do less than their user wants, and the texts of their pods."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import PLACEMENT, SINGLE, Pods, pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

NO_LIMIT = 'container "main" has no limits.memory; set spec.containers[0].resources.limits.memory to 1Gi'
NOT_ALIGNED = f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
REQUIRED = "kai.scheduler/topology-required-placement"
COUNTED = 'topology_webhook_pods_not_aligned_total{verdict="allow"}'


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with topology_of_racks(control_plane), local_webhook(control_plane) as webhook:
        yield webhook


def racks(known: Callable[..., None]) -> None:
    """Two racks of one machine each."""
    known(*(Machine(f"n{rack}", free=(16, 16), labels={RACK_LABEL: f"r{rack}", ZONE_LABEL: "z0"}) for rack in (0, 1)))


def member(group: str, number: int, **annotations: str) -> dict[str, Any]:
    """One of three pods that need a NUMA node each."""
    asked = {"pod-group-name": group, "topology-webhook.dev/min-member": "3", **RACKS, **annotations}
    return pod(f"{group}-{number}", cpu=16, annotations=asked)


@contextlib.contextmanager
def settings(webhook: LocalWebhook, **settings: str) -> Iterator[None]:
    """The webhook has these settings within this context."""

    def use(settings: dict[str, str]) -> None:
        webhook.upgrade({"settings": settings})
        for replica in webhook.replicas:
            webhook.roll_out(replica)

    use(settings)
    try:
        yield
    finally:
        use({})


def job(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A Job that creates no pods yet."""
    template = {"spec": {**pod("", cpu=1)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": 1, "suspend": True, "template": template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def without_limit(name: str) -> dict[str, Any]:
    """A pod without a memory limit."""
    raw = pod(name, cpu=2)
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    return {"apiVersion": "v1", "kind": "Pod", **raw}


def warned(pods: Pods, raw: dict[str, Any]) -> list[str]:
    """The output of kubectl when it creates an object."""
    return pods.plane.kubectl_warnings(
        "create", "--namespace", pods.namespace, "--filename", "-", input=json.dumps(raw)
    )


def test_a_pod_that_no_kubelet_aligns_is_warned_about_and_says_so_where_it_is_placed(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    (replica,) = webhook.replicas
    known(Machine("n0", free=(16, 16)))
    before = replica.metrics().get(COUNTED, 0)
    assert warned(pods, without_limit("a")) == [NOT_ALIGNED]
    assert replica.metrics()[COUNTED] == before + 1
    pods.wait_until_bound("a")
    lines = pods.get("a")["metadata"]["annotations"][PLACEMENT].splitlines()
    assert lines[0] == "placed on n0"
    assert "; ".join(lines[2:4]) == f"its kubelet does not align this pod: {NO_LIMIT}"


def test_where_koordlet_aligns_it_there_is_no_warning(known: Callable[..., None], pods: Pods) -> None:
    known(Machine("n0", free=(16, 16), publisher="koordlet"))
    assert warned(pods, without_limit("a")) == []
    pods.wait_until_bound("a")
    assert pods.allocation("a") == ("n0", [0])


def test_a_deployment_whose_pods_no_kubelet_aligns_is_warned_about_at_its_own_creation(
    known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=(16, 16)))
    spec = without_limit("a")["spec"]
    raw = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w", "annotations": SINGLE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "w"}},
            "template": {"metadata": {"labels": {"app": "w"}}, "spec": spec},
        },
    }
    assert warned(pods, raw) == [NOT_ALIGNED.replace("set spec.", "set spec.template.spec.")]


def test_annotations_that_mean_less_than_they_seem_to_are_warned_about(known: Callable[..., None], pods: Pods) -> None:
    known(Machine("n0", free=(16, 16), labels={RACK_LABEL: "r0", ZONE_LABEL: "z0"}))
    mistyped = "kai.scheduler/topology-requierd-placement"
    named = {"kai.scheduler/topology": "racks", mistyped: "rack"}
    first, second = warned(pods, job("w", named))
    assert first == f"metadata.annotations[{mistyped}] is not read. Did you mean {REQUIRED}?"
    assert second.startswith("metadata.annotations[kai.scheduler/topology] names a topology and no level")
    raw = {"apiVersion": "v1", "kind": "Pod", **pod("bare", cpu=1, annotations=named)}
    assert warned(pods, raw) == [first, second]
    segments = {"kai.scheduler/segment-size": "1", "kai.scheduler/segment-topology-preferred-placement": "zone"}
    (coarser,) = warned(pods, job("x", {**RACKS, **segments}))
    assert '"zone" is coarser than the required level "rack" of topology racks' in coarser
    assert warned(pods, job("y", RACKS)) == []


def test_requests_that_only_others_read_are_warned_about_beside_one_to_us(
    known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=(16, 16), labels={RACK_LABEL: "r0", ZONE_LABEL: "z0"}))
    theirs = {"gang.scheduling.koordinator.sh/name": "g"}
    (warning,) = warned(pods, job("w", {**RACKS, **theirs}))
    assert warning.startswith(f"metadata.annotations[{next(iter(theirs))}] has no effect: only Koordinator's scheduler")
    raw = {"apiVersion": "v1", "kind": "Pod", **pod("bare", cpu=1, annotations=theirs)}
    raw["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    assert len(warned(pods, raw)) == 2
    pods.wait_until_bound("bare")
    del raw["metadata"]["annotations"]
    raw["metadata"]["name"] = "unmanaged"
    assert warned(pods, raw) == []


def test_with_gate_never_a_job_that_requires_a_rack_is_told_that_it_gets_none(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    with settings(webhook, gate="Never"):
        known(Machine("n0", free=(16, 16), labels={RACK_LABEL: "r0", ZONE_LABEL: "z0"}))
        (warning,) = warned(pods, job("w", RACKS))
    assert warning.startswith("With the setting gate=Never pods are placed one by one, and these have no effect: ")
    assert f"metadata.annotations[{REQUIRED}]" in warning


def test_with_deny_kubectl_prints_the_reason_instead(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    with settings(webhook, notAlignable="Deny"):
        known(Machine("n0", free=(16, 16)))
        with pytest.raises(CommandError) as refused:
            warned(pods, without_limit("a"))
    assert NOT_ALIGNED in str(refused.value)


def test_a_group_that_fits_not_even_an_empty_cluster_says_what_it_needs(known: Callable[..., None], pods: Pods) -> None:
    # r0 [16 16]   r1 [16 16]      [cpus per NUMA node]
    racks(known)
    for number in range(3):
        pods.create(member("g", number))
    needed = (
        "not even an empty cluster has a place for it: the best rack, r0, would hold 2 of 3 pods; "
        "needed: at least 16 more cpu there"
    )
    assert needed in pods.wait_until_told("g-0", "WaitingForPlacement", "not even an empty cluster")
    for line in needed.split("; "):
        pods.wait_until_says("g-0", line)


def test_a_preferred_rack_that_a_group_misses_is_said(known: Callable[..., None], pods: Pods) -> None:
    # r0 [16 16]   r1 [16 16]      [cpus per NUMA node]
    racks(known)
    prefers = {REQUIRED: "zone", "kai.scheduler/topology-preferred-placement": "rack"}
    for number in range(3):
        pods.create(member("g", number, **prefers))
    pods.wait_until_bound("g-0", "g-1", "g-2")
    missed = "preferred rack missed: in 2 racks (r0, r1)"
    for number in range(3):
        pods.wait_until_says(f"g-{number}", missed)
        pods.wait_until_told(f"g-{number}", "Assigned", missed)
