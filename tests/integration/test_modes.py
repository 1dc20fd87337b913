"""The service in the modes Observe and Off: it changes and denies nothing, on the real control plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.documented import commands, type_in
from tests.cluster.gated import NUMA, PLACEMENT, SPEC, Pods, is_gated, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from webhook.model.names import MIN_MEMBER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

STRICT = {"failurePolicy": "Fail", "bindFailurePolicy": "Fail"}
OBSERVED = "topology_webhook_observed_reviews_total"
INHERIT = "topology-webhook.dev/inherit"
OTHER_GATE = "example.com/other"
TRIED = commands("docs/operations.md", "### Try it in Observe first")


def in_mode(plane: ControlPlane, mode: str) -> Any:
    return local_webhook(plane, values={"settings": {"mode": mode}, "webhook": STRICT})


def full_machine(plane: ControlPlane, webhook: LocalWebhook, create_machines: Callable[..., None]) -> None:
    """A machine without room on a NUMA node for a pod of 8 CPUs, known to the replica."""
    # n0 ── NUMA 0 [2]  NUMA 1 [2]      [free cpus of 16]; for the scheduler 32 CPUs
    create_machines(Machine("n0", free=(2, 2)))
    (replica,) = webhook.replicas
    name = 'topology_webhook_informer_objects{resource="noderesourcetopologies.topology.node.k8s.io"}'
    plane.wait_for("the machine to be known", lambda: replica.metrics().get(name) == 1)


def switched(plane: ControlPlane, webhook: LocalWebhook, mode: str) -> None:
    """Switch the mode by the documented command, and let the Deployment roll out."""
    upgrade = next(line for line in TRIED if "settings.mode=Enforce" in line)
    type_in(plane, upgrade.replace("settings.mode=Enforce", f"settings.mode={mode}"))
    webhook.roll_out(webhook.replicas[0])


def deployment() -> dict[str, Any]:
    template = pod("")
    template["metadata"] = {"labels": {"app": "d"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "annotations": {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": template},
    }


def assert_nothing_is_changed_or_denied(plane: ControlPlane, pods: Pods, namespace: str) -> None:
    """What Enforce would gate, deny or mark is as its user wrote it, also what the admission policies would deny."""
    wrong = pod("wrong", cpu=1, annotations={SPEC: "not JSON"})
    forged = pod("forged", cpu=1, annotations={NUMA: "{}"})
    for raw in (pod("waits"), wrong, forged):
        created = pods.create(raw)
        assert not is_gated(created)
        assert created["metadata"]["annotations"] == raw["metadata"]["annotations"]
        assert "affinity" not in created["spec"]
    made = plane.api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment())
    assert INHERIT not in made["spec"]["template"]["metadata"].get("annotations", {})
    plane.api.patch(f"{pods.path}/wrong", {"metadata": {"annotations": {SPEC: "still not JSON"}}})
    pods.wait_until_bound("waits", "wrong", "forged")
    assert not {NUMA, PLACEMENT} & pods.get("waits")["metadata"]["annotations"].keys()


def test_observe_changes_nothing_and_says_what_it_would_have_done(
    control_plane: ControlPlane, create_machines: Callable[..., None], pods: Pods
) -> None:
    with in_mode(control_plane, "Observe") as webhook:
        full_machine(control_plane, webhook, create_machines)
        assert_nothing_is_changed_or_denied(control_plane, pods, pods.namespace)
        note = pods.wait_until_told("waits", "BindingWouldBeRefused")
        assert note.startswith("mode Observe, not applied: node n0 can no longer hold this pod")
        install, events = (line for line in TRIED if "Enforce" not in line and "rollout" not in line)
        type_in(control_plane, f"{install} --dry-run=client", f"{events} --no-headers | grep pod/waits")
        pods.wait_until_told("waits", "PodWouldBeGated", "none of 1 node fits now")
        pods.wait_until_told("wrong", "PodWouldBeDenied", SPEC)
        (replica,) = webhook.replicas
        counted = replica.metrics()
        reviews = {
            ("mutate-pods", "wait", ""),
            ("mutate-pods", "deny", "InvalidAnnotation"),
            ("mutate-pods", "deny", "ReservedField"),
            ("validate-pods", "deny", "InvalidAnnotation"),
            ("mutate-workloads", "change", ""),
            ("mutate-bindings", "deny", "NoSingleNUMANode"),
        }
        for name, verdict, reason in reviews:
            assert counted[f'{OBSERVED}{{reason="{reason}",verdict="{verdict}",webhook="{name}"}}'] >= 1
        applied = {name for name in counted if name.startswith("topology_webhook_reviews_total{")}
        assert not {name for name in applied if 'verdict="deny"' in name or 'verdict="wait"' in name}
        lines = [json.loads(line) for line in replica.process.log.read_text().splitlines()]
        logged = {line["observed"] for line in lines if line["event"] == "review" and line["verdict"] == "allow"}
        # A mark on a workload is no decision: it is counted above, and logged at debug only, as in Enforce.
        assert {"wait", "deny"} <= logged


def test_off_changes_nothing_and_decides_nothing(
    control_plane: ControlPlane, create_machines: Callable[..., None], pods: Pods
) -> None:
    with in_mode(control_plane, "Off") as webhook:
        full_machine(control_plane, webhook, create_machines)
        assert_nothing_is_changed_or_denied(control_plane, pods, pods.namespace)
        (replica,) = webhook.replicas
        assert not [name for name in replica.metrics() if name.startswith(f"{OBSERVED}{{")]


@pytest.mark.parametrize("mode", ["Observe", "Off"])
def test_pods_that_wait_are_ungated_and_bound_after_the_switch(
    control_plane: ControlPlane, create_machines: Callable[..., None], pods: Pods, mode: str
) -> None:
    with in_mode(control_plane, "Enforce") as webhook:
        full_machine(control_plane, webhook, create_machines)
        control_plane.wait_for("the webhooks to be called", webhook.is_called)
        held = pods.create(pod("held", schedulingGates=[{"name": OTHER_GATE}]))
        assert is_gated(held)
        pods.create(pod("single"))
        for number in range(2):
            pods.create(pod(f"gang-{number}", annotations={"pod-group-name": "gang", MIN_MEMBER: "2"}))
        waiting = {"single", "gang-0", "gang-1"}
        assert pods.gated() == {"held", *waiting}
        switched(control_plane, webhook, mode)
        pods.wait_until_bound(*waiting)
        note = f"ungated: the mode is {mode}, so no pod is placed"
        for name in waiting:
            assert pods.get(name)["metadata"]["annotations"][PLACEMENT].startswith(note)
        pods.wait_until_told("single", "Ungated", note)
        assert pods.gated() == {"held"}
        gates = pods.get("held")["spec"]["schedulingGates"]
        control_plane.api.patch(
            f"{pods.path}/held", {"spec": {"schedulingGates": [gate for gate in gates if gate["name"] != OTHER_GATE]}}
        )
        control_plane.wait_for("the last one to be ungated", lambda: not pods.gated())


def test_enforce_after_observe_gates_the_next_pod_and_leaves_bound_ones(
    control_plane: ControlPlane, create_machines: Callable[..., None], pods: Pods
) -> None:
    with in_mode(control_plane, "Observe") as webhook:
        full_machine(control_plane, webhook, create_machines)
        assert not is_gated(pods.create(pod("before")))
        pods.wait_until_bound("before")
        switched(control_plane, webhook, "Enforce")
        control_plane.wait_for("the webhooks to be called", webhook.is_called)
        assert is_gated(pods.create(pod("after")))
        assert pods.bound() == {"before": "n0"}
