"""Workloads as groups: which are, what they are told, and who of them runs already."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import workloads
from tests.builders.gangs import GPU, TOPOLOGY, racks, whole_nodes
from tests.builders.pods import container
from tests.builders.records import resident, tell
from webhook.cli.offline.gang_members import RunningPod, running_members
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.workload.readers import read_workload
from webhook.formats.workload.record import Workload, WorkloadGang
from webhook.model.errors import UserError
from webhook.placing.gang.workload_judgement import (
    GangJudgement,
    annotations_in,
    check_gangs,
    judge_gangs,
    why_unmanaged,
)
from webhook.placing.pod.decision import Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}

# zone-a ─┬─ rack-1 ── n0 [4]  n1 [4]        [free GPUs]
#         └─ rack-2 ── n2 [3]  n3 [2]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2", n3="zone-a/rack-2")
FREE = {name: {GPU: amount} for name, amount in {"n0": 4, "n1": 4, "n2": 3, "n3": 2}.items()}


def template(gpus: int = 1, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    amounts = {GPU: gpus}
    asks = [container(requests=amounts, limits=amounts)]
    return workloads.template(annotations=annotations, containers=asks)


def read(kind: str, api_version: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> Workload:
    metadata = {"name": "train", "namespace": "team", "annotations": annotations or {}}
    workload = read_workload({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    assert workload is not None
    return workload


def job(pods: int, annotations: dict[str, str] | None = None, gpus: int = 1) -> Workload:
    return read("Job", "batch/v1", {"parallelism": pods, "template": template(gpus)}, annotations)


def in_cluster(workload: Workload, nodes: NodeArrays, running: dict[str, str] | None = None) -> GangJudgement:
    cluster_snapshot = ClusterSnapshot(Snapshot(nodes), {"network": TOPOLOGY})
    return judge_gangs(workload, cluster_snapshot, TopologyTrees(), Rules(), running)


def judged(workload: Workload, running: dict[str, str] | None = None) -> GangJudgement:
    return in_cluster(workload, whole_nodes(places=PLACES, free=FREE).node_arrays(), running)


def test_annotations_are_found_at_any_depth_with_their_place() -> None:
    raw = {"metadata": {"annotations": {"a": "1"}}, "spec": {"jobs": [{"template": template(annotations={"b": "2"})}]}}
    assert list(annotations_in(raw)) == [
        ("metadata.annotations", {"a": "1"}),
        ("spec.jobs[0].template.metadata.annotations", {"b": "2"}),
    ]


NO_RACK = "gang train does not fit now: no node is in any rack: "
NOT_EVEN_EMPTY = "; not even an empty cluster has a place for it: "
PREFERS = {"kai.scheduler/topology": "network", "kai.scheduler/topology-preferred-placement": "rack"}
# rack-1 takes two replicas of 4 pods, rack-2 one, and nothing the fourth.
FOUR_REPLICAS = {"replicas": 4, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}


@pytest.mark.parametrize(
    ("workload", "running", "verdict", "message"),
    [
        (job(5, RACK), None, Verdict.ALLOW, "gang train: 5 pods on 2 nodes in rack rack-2 (zone zone-a)"),
        (
            job(9, RACK),
            None,
            Verdict.WAIT,
            (
                f"gang train does not fit now: rack rack-1 holds 8 of 9 pods: {GPU}{NOT_EVEN_EMPTY}the best rack, "
                f"rack-1, would hold 8 of 9 pods; needed: at least 1 more {GPU} there"
            ),
        ),
        (
            job(15, {"kai.scheduler/batch-min-member": "4"}),
            None,
            Verdict.ALLOW,
            "gang train: 13 pods on 4 nodes; no room yet for 2 pods beyond the minimum",
        ),
        (
            job(4, RACK),
            {"train-1": "n0"},
            Verdict.ALLOW,
            "gang train: 3 pods on 1 node in rack rack-1 (zone zone-a), beside 1 that runs",
        ),
        (job(8, PREFERS), None, Verdict.ALLOW, "gang train: 8 pods on 2 nodes in rack rack-1 (zone zone-a)"),
        (
            job(9, PREFERS),
            None,
            Verdict.ALLOW,
            "gang train: 9 pods on 3 nodes in zone zone-a; preferred rack missed: in 2 racks (rack-1, rack-2)",
        ),
    ],
    ids=["its rack", "what is short where", "beyond the minimum", "beside one that runs", "preferred", "missed"],
)
def test_a_gang_is_told_where_it_goes_and_what_is_short(
    workload: Workload, running: dict[str, str] | None, verdict: Verdict, message: str
) -> None:
    judgement = judged(workload, running)
    assert (judgement.verdict, judgement.message) == (verdict, message)
    assert judgement.placement is not None
    assert bool(list(judgement.placement.pods())) is (verdict is Verdict.ALLOW)


def test_of_several_gangs_that_without_a_place_is_named() -> None:
    judgement = judged(read("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", FOUR_REPLICAS, RACK))
    assert judgement.verdict is Verdict.WAIT
    assert judgement.message.startswith("gang train-3 of workload train does not fit now: ")


def busy(workload: Workload) -> GangJudgement:
    """With all GPUs taken by others."""
    cluster = whole_nodes(places=PLACES, free=FREE)
    for name, free in FREE.items():
        tell(cluster, resident(name=f"on-{name}", node=name, requests=free))
    return in_cluster(workload, cluster.node_arrays())


def test_only_of_a_group_that_not_even_an_empty_cluster_holds_it_is_said() -> None:
    fits, too_large = busy(job(8, RACK)), busy(job(9, RACK))
    assert fits.message == f"gang train does not fit now: rack rack-1 holds 0 of 8 pods: {GPU}"
    assert too_large.message.endswith(f"; needed: at least 1 more {GPU} there")
    assert fits.placement is not None
    assert too_large.placement is not None
    assert (fits.placement.fits_when_empty, too_large.placement.fits_when_empty) == (True, False)


@pytest.mark.parametrize(
    ("gpus", "selector", "needed"),
    [
        (5, {}, f"at least 10 more {GPU} there"),
        (1, {"no": "where"}, "nodes that its node selectors, tolerations and NUMA policies allow"),
    ],
)
def test_what_is_needed_is_a_resource_or_nodes_that_may_be_used(
    gpus: int, selector: dict[str, str], needed: str
) -> None:
    whole = template(gpus)
    whole["spec"]["nodeSelector"] = selector
    judgement = judged(read("Job", "batch/v1", {"parallelism": 2, "template": whole}, RACK))
    assert judgement.message.endswith(
        f"{NOT_EVEN_EMPTY}the best rack, rack-1, would hold 0 of 2 pods; needed: {needed}"
    )


@pytest.mark.parametrize(
    ("places", "lacking", "needed"),
    [
        ({"n0": "zone-a/"}, "example.com/rack", "the label example.com/rack"),
        ({"n0": "/rack-1", "n1": "/rack-2"}, "example.com/zone", "the label example.com/zone"),
        (
            {"n0": "zone-a/", "n1": "/rack-2"},
            "example.com/rack beside example.com/zone",
            "the labels example.com/zone and example.com/rack on one node",
        ),
    ],
)
def test_of_a_rack_that_no_node_is_in_the_label_is_named_that_is_missing(
    places: dict[str, str], lacking: str, needed: str
) -> None:
    nodes = whole_nodes(places=racks(**places), free={name: {GPU: 4} for name in places}).node_arrays()
    assert in_cluster(job(2, RACK), nodes).message == (
        f"{NO_RACK}none has the label {lacking}{NOT_EVEN_EMPTY}no node is in any rack; needed: {needed}"
    )


def test_a_wrong_wish_denies_and_any_other_fault_is_raised() -> None:
    assert judged(job(2, {**RACK, "kai.scheduler/topology-required-placement": "zon"})).verdict is Verdict.DENY
    spec = {"parallelism": 1, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}}
    with pytest.raises(UserError, match=r"spec\.template\.spec\.containers"):
        judged(read("Job", "batch/v1", spec, RACK))


def test_groups_of_other_schedulers_are_not_ours() -> None:
    other = template()
    other["spec"]["schedulerName"] = "kai-scheduler"
    workload = read("Job", "batch/v1", {"template": other}, RACK)
    assert why_unmanaged(workload, Rules()) == "the scheduler kai-scheduler places it"
    assert why_unmanaged(job(1, RACK), Rules()) is None


def bound(name: str, kind: str = "Job", owner: str = "train", node: str = "n0") -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": True}]
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


def members(workload: Workload, *pods: dict[str, Any]) -> dict[str, str]:
    read_ones = (RunningPod.from_object(raw, raw["spec"].get("nodeName", "")) for raw in pods)
    return running_members(workload, [running for running in read_ones if running is not None])


@pytest.mark.parametrize(
    ("workload", "pods", "expected"),
    [
        (job(3), [bound("train-2-x7k2p"), bound("train-0-abcde", node="n1")], {"train-2": "n0", "train-0": "n1"}),
        (job(3), [bound("train-x7k2p"), bound("train-0-abcde", node="n1")], {"train-0": "n1", "train-1": "n0"}),
        (
            read("Deployment", "apps/v1", {"replicas": 2, "template": template()}),
            [bound("train-5d9-x7k2p", "ReplicaSet", "train-5d9")],
            {"train-0": "n0"},
        ),
        (job(1), [bound("train-aaaaa"), bound("train-bbbbb", node="n1")], {"train-0": "n0"}),
    ],
    ids=["by index", "the first free place without one", "a Deployment's by its ReplicaSet", "as many as places"],
)
def test_pods_are_known_by_their_controller_and_the_beginning_of_their_name(
    workload: Workload, pods: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    assert members(workload, *pods) == expected


def test_pods_of_others_and_ended_ones_are_no_members() -> None:
    ended, waiting, elsewhere = (bound(f"train-{index}-aaaaa") for index in range(3))
    ended["status"]["phase"] = "Succeeded"
    waiting["spec"] = {}
    elsewhere["metadata"]["namespace"] = "other"
    of_another = bound("train-2-ddddd", owner="training")
    assert members(job(3), ended, waiting, elsewhere, of_another) == {}


def test_a_part_that_misses_its_own_level_is_named() -> None:
    roles = {
        "Master": {"replicas": 1, "template": template()},
        "Worker": {"replicas": 9, "template": template(annotations=PREFERS)},
    }
    judgement = judged(read("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": roles}))
    assert "; preferred rack of worker missed: in 2 racks (rack-1, rack-2)" in judgement.message


def test_the_pods_of_a_workload_are_counted_as_often_for_fifty_templates_as_for_five(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[str] = []
    size = vars(WorkloadGang)["size"].fget

    def counting(gang: WorkloadGang) -> int:
        counted.append(gang.name)
        return int(size(gang))

    monkeypatch.setattr(WorkloadGang, "size", property(counting))

    def times(templates: int) -> int:
        counted.clear()
        jobs = [{"name": f"j{n}", "template": {"spec": {"template": template()}}} for n in range(templates)]
        check_gangs(read("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs}, RACK), {"network": TOPOLOGY})
        return len(counted)

    assert times(50) == times(5) > 0
