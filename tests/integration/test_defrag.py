"""`defrag --apply` on the real control plane with simulated kubelets: a rack becomes free, no pod loses its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import SINGLE, Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.preempting import SLOW
from tests.unit.cli.conftest import Printed, run_command
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

# k0 ── NUMA 0 [8]  NUMA 1 [8], rack r0; k1 likewise, rack r1
FLEET = [even_machine(f"k{number}", cpus=8, labels={ZONE_LABEL: "z0", RACK_LABEL: f"r{number}"}) for number in range(2)]


@pytest.fixture(scope="module")
def machines(control_plane: ControlPlane) -> Iterator[Kubelets]:
    with topology_of_racks(control_plane), kubelets(control_plane, FLEET, lag=1.0) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, machines: Kubelets) -> Iterator[LocalWebhook]:
    del machines
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    pods = Pods(control_plane, namespace)
    wait_until_known(pods, len(FLEET))
    yield pods
    control_plane.delete_namespace(namespace)


def defrag(pods: Pods, *arguments: str) -> Printed:
    return run_command("defrag", *arguments, "-o", "json", "--kubeconfig", pods.plane.kubeconfig)


def create_small(pods: Pods) -> str:
    """The ReplicaSet `small` of one pod of 2 CPUs; returns its pod."""
    labels = {"app": "small"}
    template = {
        "metadata": {"annotations": SINGLE, "labels": labels},
        "spec": {**pod("", cpu=2)["spec"], "terminationGracePeriodSeconds": 5},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    pods.plane.api.create(path, {"metadata": {"name": "small"}, "spec": spec})
    pods.plane.wait_for("the small pod", lambda: small(pods))
    return small(pods)[0]


def small(pods: Pods) -> list[str]:
    """The pods of the ReplicaSet that run, and do not end."""
    found = {name: raw for name, raw in pods.all().items() if name.startswith("small-")}
    return [
        name
        for name, raw in found.items()
        if raw["status"].get("phase") == "Running" and "deletionTimestamp" not in raw["metadata"]
    ]


def a_gang_waits_for_a_rack(pods: Pods) -> str:
    """k0 has one small pod, and k1 one large pod without a controller. Returns the small pod."""
    large: dict[str, dict[str, Any]] = {
        name: pod(name, nodeSelector={"kubernetes.io/hostname": "k1"}) for name in ("large-0", "large-1")
    }
    for name, raw in large.items():
        pods.create(raw)
        pods.wait_until_bound(name)
    moving = create_small(pods)
    assert pods.bound()[moving] == "k0"
    pods.delete("large-1")
    annotations = {POD_GROUP_NAME: "train", MIN_MEMBER: "2", **RACKS}
    for rank in range(2):
        pods.create(pod(f"train-{rank}", annotations=annotations))
    pods.wait_until_says("train-0", "holds 1 of 2 pods")
    return moving


def test_a_rack_is_freed_a_gang_starts_and_the_pod_that_moved_runs_elsewhere(pods: Pods) -> None:
    moving = a_gang_waits_for_a_rack(pods)
    planned = defrag(pods)
    (view,) = planned.json["plan"]
    assert (planned.code, view["name"], view["verdict"], view["atLeast"]) == (0, "train", "Moves", 1)
    assert [(move["name"], move["node"], move["toNode"]) for move in view["moves"]] == [(moving, "k0", "k1")]
    assert moving in small(pods), "a plan evicts nothing"
    # It ends slowly: its next pod exists before its place is free.
    pods.plane.api.patch(f"{pods.path}/{moving}", {"metadata": {"finalizers": [SLOW]}})
    applied = defrag(pods, "--apply")
    assert (applied.code, applied.json["evicted"]) == (0, [f"{pods.namespace}/{moving}"])
    pods.plane.wait_for("the next small pod to run", lambda: small(pods))
    assert pods.bound()[small(pods)[0]] == "k1"
    pods.wait_until_says("train-0", "1 pod on node k0 must terminate first")
    assert moving in pods.bound()
    pods.plane.api.patch(f"{pods.path}/{moving}", {"metadata": {"finalizers": None}})
    pods.wait_until_bound("train-0", "train-1")
    assert {pods.bound()[f"train-{rank}"] for rank in range(2)} == {"k0"}
    again = defrag(pods, "--apply").json
    assert (again["plan"], again["evicted"]) == ([], [])


def test_nothing_is_evicted_if_the_api_server_refuses_it(pods: Pods) -> None:
    moving = a_gang_waits_for_a_rack(pods)
    # Refuses evictions by a policy: the plan cannot know that.
    path = "/apis/admissionregistration.k8s.io/v1"
    resources = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    policy = {
        "metadata": {"name": "stay"},
        "spec": {
            "matchConstraints": {"resourceRules": [resources]},
            "validations": [{"expression": "false", "message": "pods stay here"}],
        },
    }
    binding = {"metadata": {"name": "stay"}, "spec": {"policyName": "stay", "validationActions": ["Deny"]}}
    pods.plane.api.create(f"{path}/validatingadmissionpolicies", policy)
    pods.plane.api.create(f"{path}/validatingadmissionpolicybindings", binding)
    try:
        pods.plane.wait_for("the policy", lambda: refused(pods))
        assert moving in small(pods)
        assert pods.gated() == {"train-0", "train-1"}
    finally:
        pods.plane.api.delete(f"{path}/validatingadmissionpolicybindings/stay")
        pods.plane.api.delete(f"{path}/validatingadmissionpolicies/stay")


def refused(pods: Pods) -> bool:
    """Whether an eviction is refused; until the API server knows the policy, only a dry run may ask."""
    (name,) = small(pods)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": pods.namespace},
        "deleteOptions": {"dryRun": ["All"]},
    }
    try:
        pods.plane.api.create(f"{pods.path}/{name}/eviction", eviction)
    except ApiError:
        outcome = defrag(pods, "--apply")
        assert (outcome.code, outcome.stdout) == (2, "")
        assert "pods stay here" in outcome.stderr
        assert "No pod was evicted" in outcome.stderr
        return True
    return False
