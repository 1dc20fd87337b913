"""Workloads of every kind with each of their fields at its maximum."""

from collections.abc import Iterator
from typing import Any

from tests.bench.worst_cluster import ASKS_FOR_A_RACK
from tests.bench.worst_objects import Worst, apart, container, expression, template, workload
from webhook.model.names import NUMA_TOPOLOGY_SPEC


def workloads() -> Iterator[Worst]:  # noqa: PLR0915 # a list of cases
    """Workloads of every kind."""
    ways = ("mark", "workload", "owner")
    small = template()
    for kind, api in (
        ("Deployment", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("ReplicationController", "v1"),
    ):
        yield Worst(f"{kind} of 150000", ways, workload(api, kind, {"replicas": 150_000, "template": small}))
    yield Worst("Job of 150000", ways, workload("batch/v1", "Job", {"parallelism": 150_000, "template": small}))
    yield Worst(
        "CronJob of 150000",
        ways,
        workload("batch/v1", "CronJob", {"jobTemplate": {"spec": {"parallelism": 150_000, "template": small}}}),
    )
    lws = "leaderworkerset.x-k8s.io/v1"
    yield Worst(
        "LeaderWorkerSet of 150000 x 1",
        ways,
        workload(
            lws, "LeaderWorkerSet", {"replicas": 150_000, "leaderWorkerTemplate": {"size": 1, "workerTemplate": small}}
        ),
    )
    yield Worst(
        "LeaderWorkerSet of 1 x 150000",
        ways,
        workload(
            lws, "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": {"size": 150_000, "workerTemplate": small}}
        ),
    )
    segments = ASKS_FOR_A_RACK | {
        "kai.scheduler/segment-size": "1",
        "kai.scheduler/segment-topology-required-placement": "rack",
    }
    yield Worst(
        "LeaderWorkerSet of 75000 x 2 in segments",
        ways,
        workload(
            lws,
            "LeaderWorkerSet",
            {"replicas": 75_000, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": small, "workerTemplate": small}},
            segments,
        ),
    )
    ray = "ray.io/v1"
    groups = [
        {"groupName": f"g{n}", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
        for n in range(8_000)
    ]
    yield Worst(
        "RayCluster of 8000 groups",
        ways,
        workload(ray, "RayCluster", {"headGroupSpec": {"template": small}, "workerGroupSpecs": groups}),
    )
    asking = [{**group, "template": template(ASKS_FOR_A_RACK)} for group in groups]
    yield Worst(
        "RayCluster of 8000 groups that ask",
        ways,
        workload(ray, "RayCluster", {"headGroupSpec": {"template": small}, "workerGroupSpecs": asking}),
    )
    for kind, field in (("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")):
        yield Worst(
            f"{kind} of 8000 groups",
            ways,
            workload(ray, kind, {field: {"headGroupSpec": {"template": small}, "workerGroupSpecs": groups}}),
        )
    yield Worst(
        "RayCluster of 10 x 15000",
        ways,
        workload(
            ray,
            "RayCluster",
            {
                "headGroupSpec": {"template": small},
                "workerGroupSpecs": [{**group, "replicas": 15_000} for group in groups[:10]],
            },
        ),
    )
    jobset = "jobset.x-k8s.io/v1alpha2"
    inner = {"parallelism": 1, "template": small}
    jobs = [{"name": f"j{n}", "replicas": 1, "template": {"spec": inner}} for n in range(8_000)]
    yield Worst("JobSet of 8000 jobs", ways, workload(jobset, "JobSet", {"replicatedJobs": jobs}))
    yield Worst(
        "JobSet of 8000 jobs in order",
        ways,
        workload(jobset, "JobSet", {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}),
    )
    levels = [
        {
            "name": f"j{n}",
            "template": {
                "spec": {
                    "template": template(
                        {"kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": f"level-{n}"}
                    )
                }
            },
        }
        for n in range(5_000)
    ]
    yield Worst("JobSet of 5000 levels", ways, workload(jobset, "JobSet", {"replicatedJobs": levels}))
    names = [
        {
            "name": f"j{n}",
            "template": {
                "spec": {
                    "template": template(
                        {"kai.scheduler/topology": f"tree-{n}", "kai.scheduler/topology-required-placement": "rack"}
                    )
                }
            },
        }
        for n in range(5_000)
    ]
    yield Worst("JobSet of 5000 topologies", ways, workload(jobset, "JobSet", {"replicatedJobs": names}, {}))
    policies = [
        {
            "name": f"j{n}",
            "template": {"spec": {"template": template({NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "x"}'})}},
        }
        for n in range(5_000)
    ]
    yield Worst("JobSet of 5000 unknown policies", ways, workload(jobset, "JobSet", {"replicatedJobs": policies}))
    yield Worst(
        "JobSet of 100 x 1500",
        ways,
        workload(
            jobset,
            "JobSet",
            {"replicatedJobs": [{"name": f"j{n}", "replicas": 1_500, "template": {"spec": inner}} for n in range(100)]},
        ),
    )
    specs = {f"type{n}": {"replicas": 1, "template": small} for n in range(8_000)}
    for kind, field in (
        ("MPIJob", "mpiReplicaSpecs"),
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
    ):
        yield Worst(f"{kind} of 8000 types", ways, workload("kubeflow.org/v1", kind, {field: specs}))
    yield Worst(
        "PyTorchJob of 150000",
        ways,
        workload(
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"replicas": 150_000, "template": small}}},
        ),
    )
    yield Worst(
        "MPIJob of 149999 workers",
        ways,
        workload(
            "kubeflow.org/v1",
            "MPIJob",
            {
                "launcherCreationPolicy": "WaitForWorkersReady",
                "mpiReplicaSpecs": {
                    "Launcher": {"template": small},
                    "Worker": {"replicas": 149_999, "template": small},
                },
            },
        ),
    )
    heavy = {"spec": {"containers": [container(f"c{n}", **{f"example.com/r{n}": "1"}) for n in range(8_000)]}}
    yield Worst(
        "Job whose template has 8000 containers",
        ways,
        workload("batch/v1", "Job", {"parallelism": 4, "template": heavy}),
    )
    large = "x" * 250_000
    yield Worst(
        "Job with a level's name of 250000 characters",
        ways,
        workload(
            "batch/v1",
            "Job",
            {"template": small},
            {"kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": large},
        ),
    )
    yield Worst(
        "Job with a topology's name of 250000 characters",
        ways,
        workload(
            "batch/v1",
            "Job",
            {"template": small},
            {"kai.scheduler/topology": large, "kai.scheduler/topology-required-placement": "rack"},
        ),
    )
    yield Worst(
        "Job with a minimum of 250000 digits",
        ways,
        workload(
            "batch/v1", "Job", {"template": small}, ASKS_FOR_A_RACK | {"topology-webhook.dev/min-member": "9" * 250_000}
        ),
    )
    yield Worst(
        "Job with a segment of 250000 digits",
        ways,
        workload(
            "batch/v1", "Job", {"template": small}, ASKS_FOR_A_RACK | {"kai.scheduler/segment-size": "9" * 250_000}
        ),
    )
    yield Worst(
        "Job whose parallelism is an object of 1 MB",
        ways,
        workload("batch/v1", "Job", {"parallelism": {f"k{n}": n for n in range(60_000)}, "template": small}),
    )
    yield Worst(
        "Job whose template is a text of 1 MB", ways, workload("batch/v1", "Job", {"template": "x" * 1_000_000})
    )
    for depth in (900, 15_000):
        for form in ("objects", "lists"):
            raw = workload("example.com/v1", "Deep", {"a": f"<{depth} {form}>"})
            yield Worst(f"object of an unknown kind nested in {depth} {form}", ways, raw)
    path: Any = template({"kai.scheduler/topology-required-placement": "rack"})
    many = {f"k{n}" * 20: path for n in range(8_000)}
    yield Worst("object of an unknown kind with 8000 templates", ways, workload("example.com/v1", "Wide", many))
    long = {
        "x" * 300_000: {
            "y" * 300_000: {
                "z" * 300_000: {
                    f"t{n}": template({"kai.scheduler/topology-required-placement": "rack"}) for n in range(200)
                }
            }
        }
    }
    yield Worst(
        "object of an unknown kind with names of 300000 characters", ways, workload("example.com/v1", "Long", long)
    )
    forged = {f"t{n}": template({"topology-webhook.dev/numa": "x"}) for n in range(8_000)}
    yield Worst("object with 8000 forged templates", ways, workload("example.com/v1", "ReservedField", forged))
    numbers = {f"t{n}": template({NUMA_TOPOLOGY_SPEC: {f"k{m}": m for m in range(100)}}) for n in range(1_000)}  # type: ignore[dict-item]
    yield Worst("object with 1000 annotations that are no text", ways, workload("example.com/v1", "Numbers", numbers))
    for what, spec in (
        ("16 rules", apart(*[[expression(f"k{n}", "DoesNotExist")] for n in range(16)])),
        ("20 ports", {"containers": [{"ports": [{"hostPort": n + 1} for n in range(20)]}]}),
    ):
        excluding = [{"groupName": f"g{n}", "template": template(**spec)} for n in range(999)]
        raw = {"headGroupSpec": {"template": small}, "workerGroupSpecs": excluding}
        yield Worst(
            f"RayCluster of 999 groups with {what} each", ways, workload(ray, "RayCluster", raw, ASKS_FOR_A_RACK)
        )
