"""`explain` of live pods and a live Job, in the namespace of the kubeconfig's context."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import SPEC, Pods, pod
from tests.cluster.nodes import RACK_LABEL, TOPOLOGIES, ZONE_LABEL, Machine
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

RUNNING = {
    "name": "main", "image": "none", "imageID": "none", "ready": True, "restartCount": 0,
    "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}},
}  # fmt: skip
GIBS = count(1)


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


def test_where_an_agent_sees_a_pod_counts_once_the_exporter_has_counted_the_pod(
    pods: Pods, known: Callable[..., None], control_plane: ControlPlane, explain: Callable[..., Printed]
) -> None:
    known(*MACHINES)
    pods.create(pod("seen", cpu=12))
    pods.wait_until_bound("seen")
    assert pods.allocation("seen") == ("m0", [0])
    running = {"phase": "Running", "containerStatuses": [RUNNING], "startTime": "2030-01-01T00:00:00Z"}
    control_plane.api.patch(f"{pods.path}/seen/status", {"status": running})

    def is_shown(agent: int, exporter: tuple[int, int], source: str, numa: int) -> dict[str, Any] | None:
        """Write what the agent sees, and what the exporter publishes; what is explained, if it is this."""
        zones = [{"zone": f"node-{agent}", "amount": {"cpu": "12", "memory": str(2**30)}}]
        annotations = {"kai.scheduler/numa-placement-observed": json.dumps(zones)}
        control_plane.api.patch(f"{pods.path}/seen", {"metadata": {"annotations": annotations}})
        topology = replace(MACHINES[0], free=exporter).topology()
        topology["attributes"] = [one for one in topology["attributes"] if "Fingerprint" not in one["name"]]
        for memory, zone in zip((0, 2**30 * next(GIBS)), topology["zones"], strict=True):  # so that it is a new report
            zone["resources"][1]["available"] = str(2**36 - memory)
        control_plane.api.patch(f"{TOPOLOGIES}/m0", topology)
        found = explain("pod/seen", "-o", "json", "--nrt-age-seconds", "1").json["pod"]
        is_it = (found["numaSource"], [each["id"] for each in found["numaNodes"]]) == (source, [numa])
        return found if is_it else None

    found = control_plane.wait_for("the observed one", lambda: is_shown(1, (16, 4), "Observed", 1))
    assert found["hint"]["verdict"] == "Disagrees"
    found = control_plane.wait_for("the allocated one", lambda: is_shown(0, (16, 4), "Allocated", 0))
    assert found["ignoredObservation"] == "the NodeResourceTopology shows less as taken there"


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
