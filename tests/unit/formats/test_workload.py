"""Workloads read as gangs: size, names in order of rank, minimum and topology request of every kind."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.pods import plain
from tests.builders.workloads import template, workload
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.formats.workload.readers import READERS, read_workload
from webhook.formats.workload.record import PodNames, WorkloadGang, rank_of
from webhook.formats.workload.topology_request import Levels, TopologyRequest
from webhook.model.errors import UserError

ON_RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
SEGMENTS = {"kai.scheduler/segment-size": "4", "kai.scheduler/segment-topology-required-placement": "rack"}
TEMPLATE: Mapping[str, Any] = template()


def gangs(
    api_version: str, kind: str, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> tuple[WorkloadGang, ...]:
    raw = workload(kind=kind, api_version=api_version, name="train", spec=spec, annotations=annotations)
    found = read_workload(raw)
    assert found is not None
    return tuple(found.gangs)


def shape(gang: WorkloadGang) -> dict[str, tuple[int, int]]:
    """Role -> pods, minimum."""
    return {pod_set.name: (len(pod_set.pods), pod_set.minimum) for pod_set in gang.all_pod_sets()}


@pytest.mark.parametrize(
    ("spec", "annotations", "size", "minimum"),
    [
        ({}, {}, 1, 1),
        ({"parallelism": 8}, {}, 8, 1),
        ({"parallelism": 8}, ON_RACK, 8, 8),
        ({"parallelism": 8, "completions": 5}, ON_RACK, 5, 5),
        ({"parallelism": 8, "completions": 20}, ON_RACK, 8, 8),
        ({"parallelism": 8}, {"kai.scheduler/batch-min-member": "6"}, 8, 6),
        ({"parallelism": 8}, {**ON_RACK, "kai.scheduler/batch-min-member": "6"}, 8, 6),
        ({"parallelism": 8}, {"topology-webhook.dev/min-member": "3"}, 8, 3),
        ({"parallelism": 8}, {"topology-webhook.dev/min-member": "9"}, 8, 8),
        ({"parallelism": 0}, ON_RACK, 0, 0),
    ],
)
def test_a_job_runs_as_many_pods_as_it_may_at_a_time(
    spec: dict[str, Any], annotations: dict[str, str], size: int, minimum: int
) -> None:
    (gang,) = gangs("batch/v1", "Job", {**spec, "template": TEMPLATE}, annotations)
    assert (gang.size, gang.minimum) == (size, minimum)
    assert gang.pod_sets[0].pods == tuple(f"train-{rank}" for rank in range(size))


def test_a_cron_job_makes_jobs() -> None:
    below = {"metadata": {"annotations": ON_RACK}, "spec": {"parallelism": 3, "template": TEMPLATE}}
    (gang,) = gangs("batch/v1", "CronJob", {"jobTemplate": below})
    assert (gang.size, gang.minimum, gang.request.required) == (3, 3, "rack")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, [{"driver": (1, 1), "workers": (8, 8)}]),
        ({"startupPolicyOrder": "InOrder"}, [{"driver": (1, 1)}, {"workers": (8, 8)}]),
        ({"startupPolicyOrder": "AnyOrder"}, [{"driver": (1, 1), "workers": (8, 8)}]),
    ],
)
def test_a_job_set_in_order_is_a_gang_for_each_replicated_job(
    policy: dict[str, str] | None, expected: list[dict[str, tuple[int, int]]]
) -> None:
    jobs = [
        {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": TEMPLATE}}},
    ]
    spec = {"replicatedJobs": jobs} | ({"startupPolicy": policy} if policy else {})
    found = gangs("jobset.x-k8s.io/v1alpha2", "JobSet", spec, ON_RACK)
    assert list(map(shape, found)) == expected
    workers = found[-1].pod_sets[-1]
    assert workers.pods[3:5] == ("train-workers-0-3", "train-workers-1-0")


def test_what_stands_on_a_template_of_jobs_is_asked_for_its_pods_and_told_with_its_place() -> None:
    below = {"metadata": {"annotations": ON_RACK}, "spec": {"parallelism": 2, "template": TEMPLATE}}
    (gang,) = gangs("batch/v1", "CronJob", {"jobTemplate": below}, SEGMENTS)
    assert (gang.request.path, gang.minimum) == ("spec.jobTemplate.metadata.annotations", 2)
    jobs = [{"name": "a", "template": {"spec": {"template": TEMPLATE}}}, {"name": "b", "template": below}]
    (gang,) = gangs("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    assert [(part.name, part.request.path) for part in gang.gangs] == [
        ("b", "spec.replicatedJobs[1].template.metadata.annotations")
    ]


def test_a_replicated_job_that_depends_on_another_does_not_hold_that_one_up() -> None:
    jobs: list[dict[str, Any]] = [{"name": name, "template": {"spec": {"template": TEMPLATE}}} for name in "ab"]
    jobs[1]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    found = gangs("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}, ON_RACK)
    assert [(gang.name, gang.minimum) for gang in found] == [("train-a", 1), ("train-b", 1)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"master": (1, 1), "worker": (7, 7)}),
        ({"runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}, {"master": (1, 1), "worker": (7, 4)}),
        ({"elasticPolicy": {"minReplicas": 3}}, {"master": (1, 1), "worker": (7, 2)}),
        (
            {"elasticPolicy": {"minReplicas": 3}, "runPolicy": {"schedulingPolicy": {"minAvailable": 5}}},
            {"master": (1, 1), "worker": (7, 4)},
        ),
    ],
)
def test_a_pytorch_job_starts_whole_or_with_its_minimum(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    replicas = {"Worker": {"replicas": 7, "template": TEMPLATE}, "Master": {"template": TEMPLATE}}
    (gang,) = gangs("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas, **spec})
    assert shape(gang) == expected
    assert gang.pod_sets[0].pods == ("train-master-0",)


@pytest.mark.parametrize(
    ("kind", "field", "types"),
    [
        ("TFJob", "tfReplicaSpecs", ["Chief", "PS", "Worker"]),
        ("XGBoostJob", "xgbReplicaSpecs", ["Master", "Worker"]),
        ("JAXJob", "jaxReplicaSpecs", ["Worker"]),
        ("PaddleJob", "paddleReplicaSpecs", ["Master", "Worker"]),
        ("MPIJob", "mpiReplicaSpecs", ["Launcher", "Worker"]),
    ],
)
def test_training_jobs_have_a_role_for_each_type(kind: str, field: str, types: list[str]) -> None:
    replicas = {name: {"replicas": 2, "template": TEMPLATE} for name in types}
    (gang,) = gangs("kubeflow.org/v1", kind, {field: replicas}, ON_RACK)
    assert shape(gang) == {name.lower(): (2, 2) for name in types}
    assert gang.request.required == "rack"


def test_an_mpi_job_does_not_wait_for_a_launcher_that_waits_for_its_workers() -> None:
    replicas = {"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": 4, "template": TEMPLATE}}
    spec = {"mpiReplicaSpecs": replicas, "launcherCreationPolicy": "WaitForWorkersReady"}
    (gang,) = gangs("kubeflow.org/v2beta1", "MPIJob", spec)
    assert shape(gang) == {"worker": (4, 4), "launcher": (1, 0)}
    assert (gang.pod_sets[1].pods, gang.at_once) == (("train-launcher",), 4)


def test_segments_stand_on_the_template_of_the_workers() -> None:
    replicas = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 8, "template": template(annotations=SEGMENTS)}}
    (gang,) = gangs("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas}, ON_RACK)
    master, worker = gang.pod_sets
    assert master.segments is None
    assert worker.segments is not None
    assert (worker.segments.size, worker.segments.required) == (4, "rack")


GROUPS = [
    {"groupName": "big", "replicas": 3, "minReplicas": 2, "numOfHosts": 2, "template": TEMPLATE},
    {"groupName": "small", "replicas": 2, "template": template(annotations=ON_RACK)},
    {"groupName": "least", "minReplicas": 1, "template": TEMPLATE},
    {"groupName": "off", "replicas": 5, "suspend": True, "template": TEMPLATE},
]
RAY = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": GROUPS}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("RayCluster", RAY), ("RayJob", {"rayClusterSpec": RAY}), ("RayService", {"rayClusterConfig": RAY})],
)
def test_a_ray_cluster_is_a_head_and_its_groups(kind: str, spec: dict[str, Any]) -> None:
    (gang,) = gangs("ray.io/v1", kind, spec)
    assert shape(gang) == {"headgroup": (1, 1), "big": (6, 4), "small": (2, 2), "least": (1, 1)}
    assert [part.name for part in gang.gangs] == ["small"]
    assert gang.gangs[0].request.required == "rack"


def leader_worker_set(**template_fields: Any) -> dict[str, Any]:
    return {"replicas": 2, "leaderWorkerTemplate": {"workerTemplate": TEMPLATE, **template_fields}}


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    found = gangs("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", leader_worker_set(size=4))
    assert [gang.name for gang in found] == ["train-0", "train-1"]
    assert shape(found[1]) == {"leader": (1, 1), "workers": (3, 3)}
    assert [pod_set.pods for pod_set in found[1].pod_sets] == [("train-1",), ("train-1-1", "train-1-2", "train-1-3")]


def test_a_leader_that_must_be_ready_first_does_not_wait_for_its_workers() -> None:
    spec = leader_worker_set(size=4) | {"startupPolicy": "LeaderReady"}
    assert shape(gangs("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)[0]) == {
        "leader": (1, 1),
        "workers": (3, 0),
    }


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (8, "LeaderWorker", {"leader": 1, "first-workers": 3, "workers": 4}),
        (9, "LeaderWorker", {"leader": 1, "first-workers": 4, "workers": 4}),
        (9, "LeaderExcluded", {"leader": 1, "workers": 8}),
    ],
)
def test_the_first_segment_of_a_leader_worker_set_holds_its_leader(
    size: int, policy: str, expected: dict[str, int]
) -> None:
    fields = {"size": size, "subGroupPolicy": {"subGroupSize": 4, "subGroupPolicyType": policy}}
    levels = {"kai.scheduler/segment-topology-required-placement": "rack"}
    spec = leader_worker_set(**fields, leaderTemplate=template())
    (gang, _) = gangs("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, {**ON_RACK, **levels})
    assert {pod_set.name: len(pod_set.pods) for pod_set in gang.all_pod_sets()} == expected
    if policy == "LeaderWorker":
        assert gang.gangs[0].request.required == "rack"
        assert {pod_set.name for pod_set in gang.gangs[0].pod_sets} == {"leader", "first-workers"}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_replicas_start_one_by_one_but_share_a_request(kind: str) -> None:
    spec = {"replicas": 3, "podManagementPolicy": "Parallel", "template": TEMPLATE}
    (gang,) = gangs("apps/v1", kind, spec, ON_RACK)
    assert (gang.size, gang.minimum, gang.request.required) == (3, 1, "rack")
    least = {**ON_RACK, "topology-webhook.dev/min-member": "3"}
    assert gangs("apps/v1", kind, spec, least)[0].minimum == 3


@pytest.mark.parametrize(
    ("spec", "tasks", "wanted"),
    [
        ({}, ({}, {}), {"a": (2, 2), "b": (3, 3)}),
        ({"minAvailable": 0}, ({"minAvailable": 1}, {}), {"a": (2, 1), "b": (3, 3)}),
        ({"minAvailable": 3}, ({}, {}), {"a": (2, 2), "b": (3, 1)}),
        ({"minAvailable": 4}, ({"minAvailable": 1}, {"minAvailable": 1}), {"a": (2, 2), "b": (3, 2)}),
        ({}, ({}, {"dependsOn": {"name": ["a"]}}), {"a": (2, 2), "b": (3, 0)}),
        ({"minAvailable": 5}, ({}, {"dependsOn": {"name": ["a"]}}), {"a": (2, 2), "b": (3, 0)}),
    ],
)
def test_the_tasks_of_a_volcano_job_start_together_as_its_minimums_say(
    spec: dict[str, Any], tasks: tuple[dict[str, Any], ...], wanted: dict[str, tuple[int, int]]
) -> None:
    sizes = (("a", 2), ("b", 3))
    made = [
        {"name": name, "replicas": size, "template": TEMPLATE, **task}
        for (name, size), task in zip(sizes, tasks, strict=True)
    ]
    (gang,) = gangs("batch.volcano.sh/v1alpha1", "Job", {**spec, "tasks": made}, ON_RACK)
    assert shape(gang) == wanted
    assert [name for pod_set in gang.all_pod_sets() for name in pod_set.pods] == [
        *(f"train-a-{index}" for index in range(2)),
        *(f"train-b-{index}" for index in range(3)),
    ]


def test_the_pods_of_a_volcano_job_have_the_scheduler_of_the_template_then_of_the_job_then_volcanos() -> None:
    named = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "schedulerName": "own"}}
    tasks = [{"replicas": 1, "template": template} for template in (named, TEMPLATE)]
    for spec, wanted in (({}, ["own", "volcano"]), ({"schedulerName": "other"}, ["own", "other"])):
        (gang,) = gangs("batch.volcano.sh/v1alpha1", "Job", {**spec, "tasks": tasks})
        assert [pod_set.name for pod_set in gang.all_pod_sets()] == ["default0", "default1"]
        assert [pod_set.template["spec"]["schedulerName"] for pod_set in gang.all_pod_sets()] == wanted


def test_no_pod_of_a_stateful_set_waits_for_one_that_is_made_when_it_runs() -> None:
    least = {"topology-webhook.dev/min-member": "3"}
    for replicas, minimum in ((3, 1), (1, 1), (0, 0)):
        (gang,) = gangs("apps/v1", "StatefulSet", {"replicas": replicas, "template": TEMPLATE}, least)
        assert (gang.size, gang.minimum, gang.at_once) == (replicas, minimum, minimum)


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_the_pods_of_a_stateful_set_are_numbered_from_its_first_ordinal(policy: str) -> None:
    spec = {"replicas": 3, "ordinals": {"start": 5}, "podManagementPolicy": policy, "template": TEMPLATE}
    (gang,) = gangs("apps/v1", "StatefulSet", spec)
    (pod_set,) = gang.all_pod_sets()
    assert list(pod_set.pods) == ["train-5", "train-6", "train-7"]
    assert isinstance(pod_set.pods, PodNames)
    assert (pod_set.pods.rank("train-6"), pod_set.pods.rank("train-1")) == (1, None)
    for start in (-1, "5", 2**31, True):
        with pytest.raises(UserError, match="is not the number of a pod"):
            gangs("apps/v1", "StatefulSet", {**spec, "ordinals": {"start": start}})


def test_a_bare_pod_is_a_gang_of_one() -> None:
    found = read_workload(plain(annotations=ON_RACK))
    assert found is not None
    assert [(gang.size, gang.request.required) for gang in found.gangs] == [(1, "rack")]


def test_a_kind_whose_pods_are_not_known_is_no_workload() -> None:
    assert read_workload(workload(kind="Workflow", api_version="example.com/v1", spec={})) is None


@pytest.mark.parametrize(("group", "kind"), READERS)
def test_every_kind_says_where_its_template_is_missing(group: str, kind: str) -> None:
    spec = {"JobSet": {"replicatedJobs": [{"name": "a"}]}, "Job": {"tasks": [{"name": "a"}]}}.get(kind, {})
    raw = workload(kind=kind, api_version=f"{group}/v1" if group else "v1", spec=spec)
    with pytest.raises(UserError) as fault:
        read_workload(raw)
    assert fault.value.path.startswith("spec.")
    assert "missing" in fault.value.message


@pytest.mark.parametrize(
    ("annotations", "path", "words"),
    [
        ({"kai.scheduler/topology-required-placement": "rack"}, "required-placement", "needs a topology"),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, "preferred-placement", "needs a topology"),
        ({**SEGMENTS, "kai.scheduler/segment-size": "four"}, "segment-size", '"four" is not a size'),
        ({**SEGMENTS, "kai.scheduler/segment-size": "0"}, "segment-size", '"0" is not a size'),
        ({"kai.scheduler/segment-topology-required-placement": "rack"}, "segment-topology", "need a size"),
        ({"kai.scheduler/batch-min-member": "-1"}, "batch-min-member", "not a number of pods"),
    ],
)
def test_what_is_wrong_without_any_cluster_is_said(annotations: dict[str, str], path: str, words: str) -> None:
    with pytest.raises(UserError) as fault:
        gangs("batch/v1", "Job", {"template": TEMPLATE}, annotations)
    assert path in fault.value.path
    assert words in fault.value.message


@pytest.mark.parametrize("replicas", [-1, "3", True, 10**9])
def test_a_number_of_pods_that_is_none_is_said(replicas: object) -> None:
    with pytest.raises(UserError, match="is not a number of pods"):
        gangs("apps/v1", "Deployment", {"replicas": replicas, "template": TEMPLATE})


def test_a_part_of_a_workload_may_name_another_topology() -> None:
    elsewhere = {**ON_RACK, "kai.scheduler/topology": "other"}
    replicas = {"Master": {"template": template(annotations=elsewhere)}, "Worker": {"template": TEMPLATE}}
    (gang,) = gangs("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas}, ON_RACK)
    assert gang.request.topology == "network"
    assert [(part.name, part.request.topology) for part in gang.gangs] == [("master", "other")]
    assert [pod_set.name for pod_set in gang.pod_sets] == ["worker"]


def test_the_parts_of_a_workload_name_a_few_topologies_at_most() -> None:
    jobs = [
        {
            "name": f"part-{n}",
            "template": {"spec": {"template": template(annotations={**ON_RACK, "kai.scheduler/topology": f"t{n}"})}},
        }
        for n in range(64)
    ]
    with pytest.raises(UserError, match="The parts name 64 topologies: t0, t1, t10, "):
        gangs("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


NETWORK = Topology(
    "network", TopologySource.KAI, (Level("topology.kubernetes.io/zone"), Level("example.com/rack", "r"))
)


def test_levels_are_found_by_label_alias_and_last_segment() -> None:
    assert TopologyRequest("network", "zone", "r").resolve(NETWORK) == Levels(0, 1)
    assert TopologyRequest("network", "topology.kubernetes.io/zone", None).resolve(NETWORK) == Levels(0, None)


@pytest.mark.parametrize(
    ("required", "preferred", "words"), [("rak", None, "no level"), ("rack", "zone", "coarser than the required")]
)
def test_levels_that_are_wrong_are_said(required: str, preferred: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        TopologyRequest("network", required, preferred, "metadata.annotations").resolve(NETWORK)


@pytest.mark.parametrize(
    ("name", "labels", "rank"),
    [
        ("job-x-abcde", {"batch.kubernetes.io/job-completion-index": "7"}, 7),
        ("w-abc", {"training.kubeflow.org/replica-index": "3"}, 3),
        ("lws-0-2", {"leaderworkerset.sigs.k8s.io/worker-index": "2"}, 2),
        ("web-12", {"apps.kubernetes.io/pod-index": "12"}, 12),
        ("web-12", {}, 12),
        ("web-xk2f9", {}, None),
        ("web-24567", {}, None),
        ("rc-head-xk2f9", {"ray.io/node-type": "head"}, 0),
    ],
)
def test_the_rank_is_what_the_controller_wrote(name: str, labels: dict[str, str], rank: int | None) -> None:
    assert rank_of(name, labels, {}) == rank


def test_a_user_may_name_the_label_of_the_rank() -> None:
    labels = {"example.com/index": "4", "batch.kubernetes.io/job-completion-index": "7"}
    assert rank_of("p", labels, {"kai.scheduler/pod-index-label": "example.com/index"}) == 4
