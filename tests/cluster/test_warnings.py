"""What kubectl prints when something is created that is admitted and yet not what its user wants, and what pods say."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import PLACEMENT, SINGLE, Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

NO_LIMIT = 'container "main" has no limits.memory; set spec.containers[0].resources.limits.memory to 1Gi'
NOT_ALIGNED = f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
COUNTED = 'topology_webhook_pods_not_aligned_total{verdict="allow"}'


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane) as webhook:
        yield webhook


@contextlib.contextmanager
def settings(webhook: LocalWebhook, **settings: str) -> Iterator[None]:
    """The webhook runs with these settings within this context."""

    def use(settings: dict[str, str]) -> None:
        webhook.upgrade({"settings": settings})
        for replica in webhook.replicas:
            webhook.roll_out(replica)

    use(settings)
    try:
        yield
    finally:
        use({})


def without_limit(name: str) -> dict[str, Any]:
    """A pod that lacks a memory limit."""
    raw = pod(name, cpu=2)
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    return {"apiVersion": "v1", "kind": "Pod", **raw}


def warned(pods: Pods, raw: dict[str, Any]) -> list[str]:
    """What kubectl prints as it creates an object."""
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
    assert pods.hint("a") == ("n0", [0])


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


def test_with_deny_kubectl_prints_the_reason_instead(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    with settings(webhook, notAlignable="Deny"):
        known(Machine("n0", free=(16, 16)))
        with pytest.raises(CommandError) as refused:
            warned(pods, without_limit("a"))
    assert NOT_ALIGNED in str(refused.value)
