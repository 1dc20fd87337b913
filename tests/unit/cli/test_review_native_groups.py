"""`topology-webhook review` of Kubernetes' own PodGroups, with their pods in the same file or in the cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.native_pod_groups import gated_in_group, in_group, native_pod_group
from tests.builders.nodes import node
from tests.builders.pods import SINGLE
from tests.builders.topologies import topology
from tests.builders.workloads import workload
from tests.unit.cli.conftest import Printed, Review, run_command
from webhook.model.names import NUMA_TOPOLOGY_SPEC

RACK = "example.com/rack"
# rack-1 ── n1 [2]        [free CPUs]
# rack-2 ── n2 [2]  n3 [2]
NODES = {"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}
CLUSTER = [topology(labels=(RACK,)), *(node(name=name, cpus=2, labels={RACK: rack}) for name, rack in NODES.items())]

Judge = Callable[..., Printed]


@pytest.fixture
def judge(review: Review, tmp_path: Path) -> Judge:
    def run(*objects: dict[str, Any], beside: tuple[dict[str, Any], ...] = (), flags: tuple[str, ...] = ()) -> Printed:
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, [*CLUSTER, *beside])))
        (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
        cluster = tmp_path / "cluster.json"
        return review("-f", tmp_path / "objects.json", "-o", "json", *flags, cluster=cluster)

    return run


def pods(count: int, **how: Any) -> list[dict[str, Any]]:
    return [in_group(name=f"p-{n}", **{"cpu": 1, **how}) for n in range(count)]


def of_kind(outcome: Printed, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in outcome.json if entry["object"]["kind"] == kind]


GROUP = native_pod_group(minimum=3, level=RACK)


@pytest.mark.parametrize("first", [True, False])
def test_the_answer_is_that_of_the_group_whatever_the_order_of_the_file(judge: Judge, first: bool) -> None:
    outcome = judge(*([GROUP, *pods(4)] if first else [*pods(4), GROUP]))
    assert outcome.code == 0
    entries = of_kind(outcome, "Pod")
    assert {entry["verdict"] for entry in entries} == {"allow"}
    assert {pod["node"] for pod in entries[0]["group"]["pods"]} == {"n2", "n3"}
    (group,) = of_kind(outcome, "PodGroup")
    assert (group["verdict"], group["message"]) == ("allow", entries[0]["message"])
    assert group["group"] == entries[0]["group"]


def test_too_few_pods_wait_and_the_group_of_the_cluster_counts_as_well(judge: Judge) -> None:
    alone = judge(*pods(2), beside=(GROUP,))
    assert {entry["verdict"] for entry in alone.json} == {"wait"}
    assert alone.json[0]["message"] == "gang g: 2 of the 3 pods that must start together are there"
    waiting = gated_in_group(name="p-9", cpu=1)
    assert {entry["verdict"] for entry in judge(*pods(2), beside=(GROUP, waiting)).json} == {"allow"}


def test_numa_policies_of_the_pods_count_with_the_group(judge: Judge) -> None:
    outcome = judge(GROUP, *pods(3, annotations={NUMA_TOPOLOGY_SPEC: SINGLE}))
    assert (outcome.code, {entry["verdict"] for entry in outcome.json}) == (1, {"wait"})  # no node has an NRT


def test_a_group_of_another_namespace_is_not_taken(judge: Judge) -> None:
    elsewhere = native_pod_group(namespace="other", minimum=3, level=RACK)
    outcome = judge(elsewhere, *pods(3))
    assert {entry["verdict"] for entry in of_kind(outcome, "Pod")} == {"wait"}
    assert 'There is no PodGroup "g".' in of_kind(outcome, "Pod")[0]["message"]
    (group,) = of_kind(outcome, "PodGroup")
    assert (group["verdict"], "group" in group) == ("allow", False)


def test_a_group_that_requests_nothing_leaves_its_pods_to_the_scheduler(judge: Judge) -> None:
    free = native_pod_group(minimum=3)
    for objects in ([free, *pods(3)], [*pods(3), free]):
        entries = of_kind(judge(*objects), "Pod")
        assert all(entry["message"].startswith("unmanaged: ") for entry in entries)


def test_a_faulty_group_is_told_with_the_field_and_its_pods_wait(judge: Judge) -> None:
    outcome = judge(native_pod_group(minimum=0, level=RACK), *pods(1))
    (group,), (member,) = of_kind(outcome, "PodGroup"), of_kind(outcome, "Pod")
    assert "spec.schedulingPolicy.gang.minCount: 0 is not a number of pods." in member["message"]
    assert (member["verdict"], group["verdict"], group["message"]) == ("wait", "wait", member["message"])


def test_fields_that_have_no_effect_here_are_warned_of(judge: Judge) -> None:
    (group,) = of_kind(judge(native_pod_group(minimum=1, level=RACK, resourceClaims=[{"name": "c"}])), "PodGroup")
    assert group["warnings"] == [
        "spec.resourceClaims is allocated by the scheduler: these devices need not be near the CPUs of the pods."
    ]


def test_a_group_below_a_composite_one_and_its_pods_are_said_to_be_the_schedulers(judge: Judge) -> None:
    below = native_pod_group(minimum=1, level=RACK, version="v1beta1", parentCompositePodGroupName="all")
    outcome = judge(below, *pods(1, annotations={NUMA_TOPOLOGY_SPEC: SINGLE}))
    (group,), (member,) = of_kind(outcome, "PodGroup"), of_kind(outcome, "Pod")
    assert group["warnings"][0].startswith("spec.parentCompositePodGroupName leaves its pods to kube-scheduler")
    assert member["verdict"] == group["verdict"] == "allow"
    assert member["message"].startswith("unmanaged: PodGroup g is part of CompositePodGroup all, which only kube-sch")


def test_a_pod_whose_group_is_nowhere_is_judged_alone_with_a_warning(judge: Judge) -> None:
    (member,) = judge(*pods(1, annotations={NUMA_TOPOLOGY_SPEC: SINGLE})).json
    assert "spec.schedulingGroup: No PodGroup of scheduling.k8s.io is in the file or the clu" in member["warnings"][-1]


def test_with_gate_never_a_member_is_warned(judge: Judge) -> None:
    (_, member) = judge(GROUP, *pods(1), flags=("--gate=Never",)).json
    no_effect = "these have no effect: spec.schedulingGroup.podGroupName. Only gate=Always and gate=WhenNeeded place"
    assert no_effect in member["warnings"][0]


def test_a_template_that_names_a_group_waits_for_it_as_its_pods_do(judge: Judge) -> None:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": in_group(cpu=1)["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
    (alone,) = judge(body, beside=(native_pod_group(name="other", minimum=1, level=RACK),)).json
    assert alone["verdict"] == "wait"
    assert 'There is no PodGroup "g".' in alone["message"]
    spec["replicas"] = 2
    assert "gang g: 2 of the 3 pods that must start together are there" in judge(body, GROUP).json[0]["message"]
    spec["replicas"] = 3
    workload, _ = judge(body, GROUP).json
    assert workload["verdict"] == "allow"
    assert {pod["node"] for pod in workload["group"]["pods"]} == {"n2", "n3"}


def test_all_replicas_of_a_workload_are_one_gang_if_their_templates_name_one_group(judge: Judge) -> None:
    template = {"spec": in_group(cpu=1)["spec"]}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template, "workerTemplate": template}}
    group, entry = judge(
        native_pod_group(minimum=4, level=RACK), workload(kind="LeaderWorkerSet", name="w", spec=spec)
    ).json
    assert (entry["verdict"], len(entry["group"]["pods"])) == ("allow", 4)
    assert {pod["node"] for pod in entry["group"]["pods"]} == {"n2", "n3"}
    assert group["verdict"] == "allow"


def test_explain_and_waiting_answer_for_the_group(tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.json"
    group, waiting = native_pod_group(minimum=5, level=RACK), [gated_in_group(name=f"p-{n}", cpu=1) for n in range(5)]
    snapshot.write_text("\n".join(map(json.dumps, [*CLUSTER, group, *waiting])))
    text = run_command("explain", "pod/p-0", cluster=snapshot).stdout
    assert "rack rack-2 holds 4 of 5 pods" in " ".join(text.split())
    assert run_command("explain", "podgroup/g", "-o", "json", cluster=snapshot).json["pods"]
    (entry,) = run_command("waiting", "--what-frees", "1", "-o", "json", cluster=snapshot).json["waiting"]
    assert (entry["frees"]["helps"], entry["frees"]["slots"][0]["needed"]) == ("NoEnd", 5)


def test_a_snapshot_whose_waiting_pods_name_groups_that_are_not_in_it_is_warned_of(judge: Judge) -> None:
    outcome = judge(*pods(1), beside=(gated_in_group(name="p-9", cpu=1),))
    assert "warning: pod default/p-9 and others name PodGroups of scheduling.k8s.io" in outcome.stderr
    assert judge(*pods(1), beside=(GROUP, gated_in_group(name="p-9", cpu=1))).stderr == ""


def test_what_reservations_in_a_snapshot_hold_is_told_to_count_as_free(judge: Judge) -> None:
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"}}
    outcome = judge(*pods(1), beside=({**body, "spec": {}},))
    assert "warning: what 1 Reservation of Koordinator in the snapshot may hold counts as free here." in outcome.stderr
