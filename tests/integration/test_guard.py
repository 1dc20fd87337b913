"""Bindings guarded and forgeries refused, as the API server, the scheduler and clients see it."""

from __future__ import annotations

import json
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.nodes import NODES, Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
NUMA = "topology-webhook.dev/numa"
STATUS = "scheduling.koordinator.sh/resource-status"
PLACEMENT = "topology-webhook.dev/placement"
POLICY_LABEL = "node.koordinator.sh/numa-topology-policy"
SINGLE = {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
HOLD = "example.com/hold"
BINDERS = {"schedulerUsers": ["system:kube-scheduler", "admin"]}
# The tests' own user is in system:masters, and is to be a tenant here.
TENANTS: dict[str, list[str]] = {"trustedGroups": []}


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    """No pod is gated and placed by the leader, so that every one meets the guard as the scheduler chose."""
    with local_webhook(control_plane, values={"settings": {"gate": "Never", **BINDERS, **TENANTS}}) as webhook:
        control_plane.wait_for("a leader", lambda: "leads since" in _readyz(webhook))
        yield webhook


def _readyz(webhook: LocalWebhook) -> str:
    url = f"{webhook.replicas[0].metrics_url}/readyz?verbose"
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own http URL
        return str(answer.read().decode())


def pod(name: str, cpu: int = 8, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    return {
        "metadata": {"name": name, "annotations": SINGLE if annotations is None else annotations},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
            **spec,
        },
    }


def binding(name: str, node: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations or {}},
        "target": target,
    }


class GuardedPods(Pods):
    """The pods of one namespace, and how those who touch them are answered."""

    def patch(self, name: str, change: object) -> None:
        self.plane.api.patch(f"{self.path}/{name}", change)

    def node(self, name: str) -> str:
        return str(self.get(name)["spec"].get("nodeName", ""))

    def refusal(self, call: Callable[[], object]) -> str:
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.status == 403
        return refused.value.message


@pytest.fixture
def known_machines(
    create_machines: Callable[..., None], pods: GuardedPods, control_plane: ControlPlane
) -> Callable[[Machine], None]:
    """A function that makes a machine, and returns when the webhook knows it and what its roomiest NUMA node has free.

    Until then machines and pods of the last test may seem to be there.
    """

    def known(machine: Machine) -> bool:
        try:
            tried = control_plane.api.create(f"{pods.path}?dryRun=All", pod("any", cpu=max(machine.free)))
        except ApiError:
            return False
        return f"best {machine.name} " in tried["metadata"]["annotations"][PLACEMENT]

    def create(machine: Machine) -> None:
        wait_until_known(pods, 0)
        create_machines(machine)
        control_plane.wait_for(f"the webhook to know {machine.name}", partial(known, machine))

    return create


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> GuardedPods:
    return GuardedPods(control_plane, namespace)


def test_of_two_pods_that_race_for_one_numa_node_one_is_bound_and_the_other_told_why(
    known_machines: Callable[[Machine], None], pods: GuardedPods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [8]  NUMA 1 [2]      [free cpus of 16: by its sum the node has room for both]
    known_machines(Machine("n0", free=(8, 2)))
    for name in ("a", "b"):
        pods.create(pod(name, schedulingGates=[{"name": HOLD}]))
    for name in ("a", "b"):
        pods.patch(name, {"spec": {"schedulingGates": []}})
    control_plane.wait_for("one of them on n0", lambda: pods.node("a") or pods.node("b"))
    winner, loser = ("a", "b") if pods.node("a") else ("b", "a")
    pods.wait_until_told(
        loser,
        "FailedScheduling",
        "node n0 can no longer hold this pod on one NUMA node: needs 8 cpu, most free on one is 2 (NUMA 1)",
    )
    zones = [{"node": 0, "resources": {"cpu": "8", "memory": "1Gi"}}]
    annotations = pods.get(winner)["metadata"]["annotations"]
    assert json.loads(annotations[NUMA]) == {"node": "n0", "numaNodeResources": zones}
    assert json.loads(annotations[STATUS]) == {"numaNodeResources": zones}
    assert not pods.node(loser)
    assert NUMA not in pods.get(loser)["metadata"]["annotations"]
    pods.delete(winner)
    pods.wait_until_bound(loser)
    assert json.loads(pods.get(loser)["metadata"]["annotations"][NUMA])["node"] == "n0"


@pytest.mark.parametrize("path", ["pods/{}/binding", "bindings"])
def test_whoever_binds_and_however_the_guard_is_asked(
    known_machines: Callable[[Machine], None], pods: GuardedPods, control_plane: ControlPlane, namespace: str, path: str
) -> None:
    known_machines(Machine("n0", free=(8, 2)))
    # The claim does not exist: the scheduler waits for it, so nobody binds these pods but this test.
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    for name in ("a", "b"):
        pods.create(pod(name, volumes=[claim]))

    def bind(name: str, **more: Any) -> object:
        collection = f"/api/v1/namespaces/{namespace}/{path.format(name)}"
        return control_plane.api.create(collection, binding(name, "n0", **more))

    assert f"[{STATUS}]" in pods.refusal(partial(bind, "b", annotations={STATUS: "{}"}))
    bind("b", annotations={"example.com/by": "hand"})
    annotations = pods.get("b")["metadata"]["annotations"]
    assert json.loads(annotations[NUMA])["numaNodeResources"][0]["node"] == 0
    assert annotations["example.com/by"] == "hand"
    assert "needs 8 cpu, most free on one is 2 (NUMA 1)" in pods.refusal(partial(bind, "a"))


def test_a_binding_by_a_user_who_is_no_scheduler_is_judged_and_given_nothing(
    known_machines: Callable[[Machine], None], pods: GuardedPods, control_plane: ControlPlane
) -> None:
    known_machines(Machine("n0", free=(8, 2)))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    for name, cpu in (("fits", 8), ("not", 9)):
        pods.create(pod(name, cpu=cpu, volumes=[claim]))
    operator = control_plane.api.acting_as("operator", "system:masters")
    try:
        bind = partial(operator.create, f"{pods.path}/not/binding", binding("not", "n0"))
        assert "node n0 can no longer hold this pod" in pods.refusal(bind)
        operator.create(f"{pods.path}/fits/binding", binding("fits", "n0"))
    finally:
        operator.close()
    assert pods.node("fits") == "n0"
    assert not {NUMA, STATUS} & pods.get("fits")["metadata"]["annotations"].keys()


def test_pods_that_ask_for_nothing_are_bound_as_they_are(
    create_machines: Callable[..., None], pods: GuardedPods
) -> None:
    create_machines(Machine("n0", free=(0, 0)))
    pods.create(pod("plain", annotations={}))
    pods.wait_until_bound("plain")
    assert "annotations" not in pods.get("plain")["metadata"]


@pytest.mark.parametrize("annotation", [NUMA, STATUS])
def test_nobody_makes_a_pod_with_what_node_agents_obey(
    known_machines: Callable[[Machine], None], pods: GuardedPods, annotation: str
) -> None:
    known_machines(Machine("n0", free=(8, 2)))
    forged = {annotation: '{"numaNodeResources": []}'}
    for raw in (pod("a", annotations=forged), pod("a", annotations={**SINGLE, **forged}), _disguised(forged)):
        assert f"[{annotation}]: Only topology-webhook writes this, and admin may not set it." in pods.refusal(
            partial(pods.create, raw)
        )


def _disguised(annotations: dict[str, str]) -> dict[str, Any]:
    raw = pod("a", annotations=annotations)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    raw["metadata"]["ownerReferences"] = [owner]
    return raw


def test_nobody_changes_what_was_written_into_a_pod(
    known_machines: Callable[[Machine], None], pods: GuardedPods, control_plane: ControlPlane
) -> None:
    known_machines(Machine("n0", free=(8, 2)))
    pods.create(pod("a"))
    pods.wait_until_bound("a")
    for value in ("anything", None):
        for annotation in (PLACEMENT, NUMA, STATUS):
            message = pods.refusal(partial(pods.patch, "a", {"metadata": {"annotations": {annotation: value}}}))
            assert f"metadata.annotations[{annotation}]: Only topology-webhook writes this" in message
            assert message == pods.refusal(
                partial(pods.patch, "a/status", {"metadata": {"annotations": {annotation: value}}})
            )
    for way in ("a", "a/status"):
        message = pods.refusal(partial(pods.patch, way, {"metadata": {"labels": {"topology-webhook.dev/rank": "1"}}}))
        assert "labels" in message
    before = pods.get("a")["metadata"]["annotations"]
    served = {resource["name"] for resource in control_plane.api.get("/api/v1")["resources"]}
    for subresource in ("ephemeralcontainers", "resize"):  # the API server lets neither of them touch annotations
        if f"pods/{subresource}" in served:  # 1.30 has no resize
            pods.patch(f"a/{subresource}", {"metadata": {"annotations": {NUMA: "anything"}}})
    assert pods.get("a")["metadata"]["annotations"] == before
    pods.patch("a", {"metadata": {"annotations": {"team": "x"}, "labels": {"team": "x"}}})


def test_nobody_else_removes_the_gate(pods: GuardedPods) -> None:
    pods.create(pod("a", annotations={}, schedulingGates=[{"name": "topology-webhook.dev/placement"}, {"name": HOLD}]))
    change = {"spec": {"schedulingGates": [{"name": HOLD}]}}
    assert "topology-webhook removes the gate" in pods.refusal(partial(pods.patch, "a", change))
    pods.patch("a", {"spec": {"schedulingGates": [{"name": "topology-webhook.dev/placement"}]}})


def test_a_template_with_a_forgery_makes_no_pod_and_its_controller_says_why(
    pods: GuardedPods, control_plane: ControlPlane, namespace: str
) -> None:
    template = pod("", annotations={STATUS: "{}"})
    template["metadata"] |= {"name": "", "labels": {"app": "forger"}}
    # The chart's list of workloads does not have this kind, so its template comes in unseen.
    controller = {"metadata": {"name": "forger"}, "spec": {"replicas": 1, "template": template}}
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/replicationcontrollers", controller)
    pods.wait_until_told(
        "forger", "FailedCreate", "Only topology-webhook writes this, and system:serviceaccount:kube-system:"
    )


def test_a_node_label_without_meaning_is_refused(
    create_machines: Callable[..., None], pods: GuardedPods, control_plane: ControlPlane
) -> None:
    create_machines(Machine("n0", free=(8, 2)))
    for way in (f"{NODES}/n0", f"{NODES}/n0/status"):
        patch = partial(control_plane.api.patch, way)
        message = pods.refusal(partial(patch, {"metadata": {"labels": {POLICY_LABEL: "single-numa-node"}}}))
        assert "Did you mean SingleNUMANode?" in message
        patch({"metadata": {"labels": {POLICY_LABEL: "SingleNUMANode"}}})
