"""The assignment of a workload: its object in, the node of every pod out."""

from typing import Any

import pytest

from tests.builders import workloads
from tests.builders.gangs import GPU, TOPOLOGY, racks, whole_nodes
from tests.builders.pods import container
from tests.unit.engine.gang.assignments import nodes_of, values_of
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.workload_gang import assign_workload
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.workload.readers import read_workload
from webhook.model.errors import UserError

ON_RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}

# zone-a ─┬─ rack-1 ── n0 [4]  n1 [4]        [free GPUs]
#         └─ rack-2 ── n2 [3]  n3 [2]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2", n3="zone-a/rack-2")
FREE = {name: {GPU: amount} for name, amount in {"n0": 4, "n1": 4, "n2": 3, "n3": 2}.items()}


def template(gpus: int = 1, **annotations: str) -> dict[str, Any]:
    amounts = {GPU: gpus}
    return workloads.template(annotations=annotations, containers=[container(requests=amounts, limits=amounts)])


def answers(
    kind: str,
    spec: dict[str, Any],
    annotations: dict[str, str],
    running: dict[str, str] | None = None,
) -> tuple[GangAssignment, ...]:
    workload = read_workload(workloads.workload(kind=kind, name="train", annotations=annotations, spec=spec))
    assert workload is not None
    snapshot = Snapshot(whole_nodes(places=PLACES, free=FREE).node_arrays())
    return assign_workload(workload, snapshot, {"network": TOPOLOGY}, TopologyTrees(), running or {})


def test_a_job_goes_to_the_rack_it_requires() -> None:
    (answer,) = answers("Job", {"parallelism": 5, "template": template()}, ON_RACK)
    assert values_of(answer) == ["zone-a", "rack-2"]
    assert nodes_of(answer) == {"n2": ["train-0", "train-1", "train-2"], "n3": ["train-3", "train-4"]}


def test_a_job_without_a_topology_is_placed_anywhere() -> None:
    (answer,) = answers("Job", {"parallelism": 13, "template": template()}, {})
    assert answer.assigned
    assert answer.to_object()["topology"] is None
    assert answer.to_object()["domain"] is None


def test_replicas_of_a_set_do_not_share_what_is_free() -> None:
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}
    found = answers("LeaderWorkerSet", spec, ON_RACK)
    assert [answer.assigned for answer in found] == [True, True, True]
    taken: dict[str, int] = {}
    for answer in found:
        for node, pods in nodes_of(answer).items():
            taken[node] = taken.get(node, 0) + len(pods)
    assert all(count <= FREE[node][GPU] for node, count in taken.items())
    assert sum(taken.values()) == 12


def test_pods_that_run_are_joined_by_the_others() -> None:
    (answer,) = answers("Job", {"parallelism": 3, "template": template()}, ON_RACK, running={"train-1": "n3"})
    assert values_of(answer) == ["zone-a", "rack-2"]
    assert [each.name for each in answer.pods()] == ["train-0", "train-2"]


def test_a_part_has_a_rack_of_its_own() -> None:
    replicas = {
        "Master": {"template": template(3)},
        "Worker": {"replicas": 2, "template": template(4, **ON_RACK)},
    }
    (answer,) = answers("PyTorchJob", {"pytorchReplicaSpecs": replicas}, {})
    assert nodes_of(answer) == {"n2": ["train-master-0"], "n0": ["train-worker-0"], "n1": ["train-worker-1"]}


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({**ON_RACK, "kai.scheduler/topology": "netwrok"}, 'no topology "netwrok".*Did you mean network'),
        ({**ON_RACK, "kai.scheduler/topology-required-placement": "rak"}, '"rak" is no level'),
    ],
)
def test_a_topology_or_level_that_is_not_there_is_said(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        answers("Job", {"template": template()}, annotations)


def test_a_fault_in_a_template_has_its_path() -> None:
    broken = workloads.template(containers=[container(requests={"cpu": "many"})])
    with pytest.raises(UserError) as fault:
        answers("Job", {"template": broken}, {})
    paths = [each.path for each in fault.value.faults]
    assert paths == ["spec.template.spec.containers[0].resources.requests[cpu]"]


SEGMENTS_OF_2 = {
    "kai.scheduler/topology": "network",
    "kai.scheduler/segment-size": "2",
    "kai.scheduler/segment-topology-required-placement": "rack",
}
WORKER = template(1, **SEGMENTS_OF_2)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Master": {"template": template()},
                    "Worker": {"replicas": 6, "template": WORKER},
                }
            },
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "lead", "template": {"spec": {"template": template()}}},
                    {"name": "work", "template": {"spec": {"parallelism": 6, "completions": 6, "template": WORKER}}},
                ]
            },
        ),
        (
            "RayCluster",
            {
                "headGroupSpec": {"template": template()},
                "workerGroupSpecs": [{"groupName": "w", "replicas": 6, "minReplicas": 6, "template": WORKER}],
            },
        ),
    ],
)
def test_a_role_may_ask_for_segments_of_its_own(kind: str, spec: dict[str, Any]) -> None:
    (answer,) = answers(kind, spec, {})
    assert answer.assigned
    rack_of = {pod.name: pod.domain[1][1] for pod in answer.pods()}
    workers = [pod.name for pod in answer.pods() if any(mark in pod.name for mark in ("worker", "work-", "-w-"))]
    assert len(workers) == 6
    assert all(rack_of[workers[at]] == rack_of[workers[at + 1]] for at in (0, 2, 4))


@pytest.mark.parametrize("leader", [{}, {"leaderTemplate": template()}])
@pytest.mark.parametrize("kind_of", ["LeaderWorker", "LeaderExcluded"])
def test_a_leader_worker_set_may_size_its_segments_and_name_their_level_on_the_workers(
    leader: dict[str, Any], kind_of: str
) -> None:
    level = {key: text for key, text in SEGMENTS_OF_2.items() if key != "kai.scheduler/segment-size"}
    policy = {"subGroupSize": 2, "subGroupPolicyType": kind_of}
    below = {"size": 7, "subGroupPolicy": policy, "workerTemplate": template(1, **level), **leader}
    (answer,) = answers("LeaderWorkerSet", {"leaderWorkerTemplate": below}, {})
    assert answer.assigned
    rack_of = {pod.name: pod.domain[1][1] for pod in answer.pods()}
    assert all(rack_of[f"train-0-{at}"] == rack_of[f"train-0-{at + 1}"] for at in (1, 3, 5))


def test_segments_without_any_topology_are_told_what_is_missing() -> None:
    level = {key: text for key, text in SEGMENTS_OF_2.items() if key != "kai.scheduler/topology"}
    with pytest.raises(UserError, match=r"A level needs a topology. Name it in the annotation kai.scheduler/topology"):
        answers("Job", {"parallelism": 4, "template": template(1, **level)}, {})
