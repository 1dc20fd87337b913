"""`explain` of live pods and a live Job, in the namespace of the kubeconfig's context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import SPEC, Pods, pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.unit.cli.conftest import Printed, run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

# rack-0 ── m0 [16 16]        [free CPUs per NUMA node]
# rack-1 ── m1 [8 8]
MACHINES = [
    Machine("m0", free=(16, 16), labels={ZONE_LABEL: "zone-0", RACK_LABEL: "rack-0"}),
    Machine("m1", free=(8, 8), labels={ZONE_LABEL: "zone-0", RACK_LABEL: "rack-1"}),
]


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    # The leader must not end the pods that `explain` is asked about.
    values = {"settings": {"preemption": "Never"}}
    with topology_of_racks(control_plane), local_webhook(control_plane, values=values) as webhook:
        yield webhook


@pytest.fixture
def explain(pods: Pods, tmp_path: Path) -> Callable[..., Printed]:
    """`explain` with a kubeconfig whose context names the namespace."""
    config = json.loads(pods.plane.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = pods.namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return lambda *arguments: run_command("explain", *arguments, "--kubeconfig", kubeconfig)


def job(cpu: int, count: int) -> dict[str, Any]:
    raw = pod("", cpu=cpu)
    template = {
        "metadata": {"annotations": {SPEC: raw["metadata"]["annotations"][SPEC], **RACKS}},
        "spec": {**raw["spec"], "restartPolicy": "Never"},
    }
    return {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": template}


def test_a_pod_that_waits_and_a_bound_job(
    pods: Pods, known: Callable[..., None], control_plane: ControlPlane, explain: Callable[..., Printed]
) -> None:
    known(*MACHINES)
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    control_plane.api.create(path, {"metadata": {"name": "train"}, "spec": job(cpu=8, count=4)})
    control_plane.wait_for("the Job to be bound", lambda: len(pods.bound()) == 4)
    pods.create(pod("large", cpu=12))
    pods.wait_until_says("large", "no single NUMA node with 12 cpu")

    found = explain("job/train", "-o", "json")
    assert found.code == 0
    ranks = found.json["ranks"]
    assert [(each["rank"], each["node"], each["distance"]) for each in ranks["pods"]] == [
        (0, "m0", None), (1, "m0", 0), (2, "m0", 0), (3, "m0", 0),
    ]  # fmt: skip
    assert (ranks["topology"], ranks["neighbours"]) == ("racks", 3)
    for each in found.json["pods"]:
        assert [share["id"] for share in each["numaNodes"]] == pods.allocation(each["name"])[1]
        assert (each["gang"], each["hint"]["verdict"]) == (found.json["pods"][0]["gang"], "NotReported")

    waits = explain("pod/large", "-o", "json")
    assert (waits.code, waits.json["pod"]["state"], waits.json["verdict"]) == (1, "Waiting", "wait")
    assert {node["node"]: node["reason"] for node in waits.json["perNode"]} == {
        "m0": "InsufficientResources", "m1": "NoSingleNUMANode",
    }  # fmt: skip
    assert (
        waits.json["pod"]["placement"] == pods.get("large")["metadata"]["annotations"]["topology-webhook.dev/placement"]
    )


def test_a_pod_of_higher_priority_names_the_pods_that_would_end_for_it(
    pods: Pods, known: Callable[..., None], control_plane: ControlPlane, explain: Callable[..., Printed]
) -> None:
    known(*MACHINES)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    control_plane.api.create(classes, {"metadata": {"name": "explain-urgent"}, "value": 1000})
    budgets = f"/apis/policy/v1/namespaces/{pods.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}}
    control_plane.api.create(budgets, {"metadata": {"name": "train"}, "spec": spec})
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    control_plane.api.create(path, {"metadata": {"name": "train"}, "spec": job(cpu=8, count=4)})
    control_plane.wait_for("the Job to be bound", lambda: len(pods.bound()) == 4)
    pods.create(pod("urgent", cpu=12, priorityClassName="explain-urgent"))
    pods.wait_until_says("urgent", "no single NUMA node with 12 cpu")

    waits = explain("pod/urgent", "-o", "json").json["preemption"]
    # Two pods of a NUMA node would do, but the Job starts as a whole.
    assert (waits["verdict"], waits["nodes"], len(waits["victims"])) == ("Victims", ["m0"], 4)
    # The budget's controller does not run here, so it allows none.
    assert waits["violations"] == 4
    assert all(victim["gang"] and victim["priority"] == 0 for victim in waits["victims"])


def test_what_does_not_exist_is_named_with_what_does(
    pods: Pods, control_plane: ControlPlane, explain: Callable[..., Printed]
) -> None:
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    suspended = {**job(cpu=1, count=1), "suspend": True}
    control_plane.api.create(path, {"metadata": {"name": "train"}, "spec": suspended})
    assert explain("job/train").stdout == f"Job {pods.namespace}/train: it has no pods\n"
    missing = explain("job/trian")
    assert missing.code == 2
    assert "Did you mean train? There are: train" in missing.stderr
    assert explain("jobset/x").stderr == "error: the cluster does not serve jobsets.jobset.x-k8s.io\n"
    assert "There is no such namespace" in explain("pod/x", "-n", "no-such-namespace").stderr
