"""Operators of other projects make the pods of annotated workloads. Their own controllers and webhooks run.

The annotations stand on the workload alone. Its pods are one gang, in one rack. Each has a NUMA node of its own, which
its kubelet's code admits. Then one member is killed, and the operator makes it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.controllers import collection
from tests.cluster.gated import SINGLE, Pods, wait_until_known
from tests.cluster.kinds import job
from tests.cluster.kubelets import kubelets
from tests.cluster.racked import RACKS, webhook
from tests.neighbours.catalogue import JOBSET, KUBERAY, LWS, TRAINER, Neighbour
from tests.neighbours.operators import operator, ray_flags
from tests.neighbours.racks import MACHINES, gangs, is_aligned, racks, template, uids
from tests.neighbours.trainer import INHERITING, TRAINERS, trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import Kubelets
    from tests.neighbours.build import NeighbourFiles

__all__ = ["webhook"]  # a fixture


@pytest.fixture
def machines(control_plane: ControlPlane, pods: Pods) -> Iterator[Kubelets]:
    wait_until_known(pods, 0)  # the machines of the last test have the same names
    with kubelets(control_plane, MACHINES) as running:
        wait_until_known(pods, len(MACHINES))
        yield running
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def create(pods: Pods, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = pods.plane.api.create(
        collection(pods.namespace, api_version, kind),
        {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": "w", "annotations": {**RACKS, **SINGLE}},
            "spec": spec,
        },
    )
    return workload


def wait_until_bound(pods: Pods, count: int) -> dict[str, str]:
    """Name -> UID of all pods, once so many are bound."""
    found: dict[str, str] = pods.plane.wait_for(
        f"{count} bound pods", lambda: len(live := uids(pods)) == len(pods.all()) == count and live
    )
    return found


@pytest.mark.neighbour("jobset")
def test_the_jobs_of_a_job_set_are_one_gang_and_a_lost_pod_comes_back_to_its_rack(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    jobs = [
        {"name": "lead", "replicas": 1, "template": {"spec": job(template(), 1)}},
        {"name": "work", "replicas": 2, "template": {"spec": job(template(), 2)}},
    ]
    with operator(control_plane, built(JOBSET)):
        made = create(pods, "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
        before = wait_until_bound(pods, 5)
        name = f"pg-w-{made['metadata']['uid']}"
        assert gangs(pods) == {name: set(before)}
        assert racks(pods, set(before)) == {"rack-1"}
        is_aligned(pods, machines)

        (lost,) = (each for each in before if each.startswith("w-work-1-1-"))
        pods.delete(lost)
        after = control_plane.wait_for("another pod", lambda: len(now := uids(pods)) == 5 and lost not in now and now)
        assert len(set(before.values()) & set(after.values())) == 4
        assert gangs(pods) == {name: set(after)}
        assert racks(pods, set(after)) == {"rack-1"}
        is_aligned(pods, machines)


@pytest.mark.neighbour("jobset")
def test_a_job_set_that_starts_again_after_a_failure_is_one_gang_again(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    spec = {**job(template(), 5), "backoffLimit": 0}
    jobs = [{"name": "work", "replicas": 1, "template": {"spec": spec}}]
    with operator(control_plane, built(JOBSET)):
        create(
            pods,
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 1}},
        )
        before = wait_until_bound(pods, 5)
        pods.delete(next(iter(before)))
        after = control_plane.wait_for(
            "five others", lambda: len(now := uids(pods)) == 5 and not set(now.values()) & set(before.values()) and now
        )
        (members,) = gangs(pods).values()
        assert members == set(after)
        assert racks(pods, members) == {"rack-1"}
        is_aligned(pods, machines)


@pytest.mark.neighbour("lws")
def test_each_replica_of_a_leader_worker_set_is_a_gang_and_is_made_again_as_one(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}
    with operator(control_plane, built(LWS)):
        made = create(pods, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
        before = wait_until_bound(pods, 8)
        name = f"pg-w-{made['metadata']['uid']}-group"
        replicas = {index: {f"w-{index}", *(f"w-{index}-{worker}" for worker in (1, 2, 3))} for index in range(2)}
        assert gangs(pods) == {f"{name}-{index}": members for index, members in replicas.items()}
        assert [len(racks(pods, members)) for members in replicas.values()] == [1, 1]
        is_aligned(pods, machines)

        # the default restartPolicy, RecreateGroupOnPodRestart: with one pod of a replica all of them are made again
        pods.delete("w-1-2")
        again = {name: before[name] for name in replicas[1]}
        after = control_plane.wait_for(
            "the replica", lambda: len(now := uids(pods)) == 8 and not set(now.values()) & set(again.values()) and now
        )
        assert {name: after[name] for name in replicas[0]} == {name: before[name] for name in replicas[0]}
        assert gangs(pods) == {f"{name}-{index}": members for index, members in replicas.items()}
        assert [len(racks(pods, members)) for members in replicas.values()] == [1, 1]
        is_aligned(pods, machines)


@pytest.mark.neighbour("kuberay")
def test_head_and_workers_of_a_ray_cluster_are_one_gang_and_a_lost_worker_comes_back_to_its_rack(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    group = {"groupName": "big", "replicas": 4, "minReplicas": 4, "maxReplicas": 4, "rayStartParams": {}}
    spec = {
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [{**group, "template": template()}],
    }
    with operator(control_plane, built(KUBERAY), ray_flags):
        made = create(pods, "ray.io/v1", "RayCluster", spec)
        before = wait_until_bound(pods, 5)
        name = f"pg-w-{made['metadata']['uid']}"
        assert gangs(pods) == {name: set(before)}
        assert racks(pods, set(before)) == {"rack-1"}
        is_aligned(pods, machines)

        lost = next(each for each in before if "worker" in each)
        pods.delete(lost)
        after = control_plane.wait_for("another pod", lambda: len(now := uids(pods)) == 5 and lost not in now and now)
        assert len(set(before.values()) & set(after.values())) == 4
        assert gangs(pods) == {name: set(after)}
        assert racks(pods, set(after)) == {"rack-1"}
        is_aligned(pods, machines)


@pytest.mark.neighbour("jobset", "trainer")
def test_the_nodes_of_a_train_job_are_one_gang_and_a_lost_one_comes_back_to_its_rack(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    (container,) = template()["spec"]["containers"]
    nodes = {"numNodes": 5, "resourcesPerNode": container["resources"]}
    with operator(control_plane, built(JOBSET)), trainer(control_plane, built(TRAINER)):
        create(pods, TRAINERS, "TrainJob", {"trainer": nodes, "runtimeRef": {"name": INHERITING}})
        before = wait_until_bound(pods, 5)
        job_set = control_plane.api.get(f"{collection(pods.namespace, 'jobset.x-k8s.io/v1alpha2', 'JobSet')}/w")
        name = f"pg-w-{job_set['metadata']['uid']}"
        assert gangs(pods) == {name: set(before)}
        assert racks(pods, set(before)) == {"rack-1"}
        is_aligned(pods, machines)

        lost = next(each for each in before if each.startswith("w-node-0-3-"))
        pods.delete(lost)
        after = control_plane.wait_for("another pod", lambda: len(now := uids(pods)) == 5 and lost not in now and now)
        assert len(set(before.values()) & set(after.values())) == 4
        assert gangs(pods) == {name: set(after)}
        assert racks(pods, set(after)) == {"rack-1"}
        is_aligned(pods, machines)
