"""Simulated controllers of workloads: they create objects and pods with the owners, names and labels of the real ones.

The Jobs, StatefulSets and Deployments that they create are picked up by the real controllers of Kubernetes.

Source: training-operator v1.9 pkg/controller.v1 (common/pod.go, mpi/mpijob_controller.go); mpi-operator
pkg/controller/mpi_job_controller.go; volcano pkg/controllers/job (job_controller_util.go); jobset
pkg/controllers/jobset_controller.go; lws pkg/controllers and pkg/webhooks/pod_webhook.go; kuberay
ray-operator/controllers/ray (raycluster, rayjob, rayservice, common/pod.go).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.lws_webhook import LWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Draft


def collection(namespace: str, api_version: str, kind: str) -> str:
    """The path of the objects of a kind."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    return f"{root}/namespaces/{namespace}/{kind.lower()}s"


class Controllers:
    """The simulated controllers of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._pods: dict[str, Draft] = {}

    def create(self, owner: Draft, api_version: str, kind: str, name: str, spec: Draft, **metadata: Any) -> Draft:
        """Create an object that `owner` controls."""
        metadata |= {"name": name, "ownerReferences": [_reference(owner)]}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
        created: Draft = self.plane.api.create(collection(self.namespace, api_version, kind), body)
        return created

    def pod(self, owner: Draft, name: str, template: Draft, labels: Mapping[str, str]) -> None:
        """Create a pod that `owner` controls; a name that ends with a hyphen gets a random ending."""
        metadata = {
            "generateName" if name.endswith("-") else "name": name,
            "annotations": template["metadata"].get("annotations", {}),
            "labels": {**template["metadata"].get("labels", {}), **labels},
            "ownerReferences": [_reference(owner)],
        }
        body = {"metadata": metadata, "spec": template["spec"]}
        created = self.plane.api.create(collection(self.namespace, "v1", "Pod"), body)
        self._pods[created["metadata"]["name"]] = body

    def replace(self, name: str) -> None:
        """React to a deleted pod: create another one if its real controller does not."""
        self.plane.api.delete(f"{collection(self.namespace, 'v1', 'Pod')}/{name}", {"gracePeriodSeconds": 0})
        if body := self._pods.get(name):
            self.plane.api.create(collection(self.namespace, "v1", "Pod"), body)


def real(controllers: Controllers, workload: Draft) -> Draft:
    """Do nothing: the real controller creates the pods."""
    del controllers
    return workload


def cron_job(controllers: Controllers, workload: Draft) -> Draft:
    """Create a Job that is named by its time, in minutes since 1970."""
    template = workload["spec"]["jobTemplate"]
    return controllers.create(workload, "batch/v1", "Job", f"{workload['metadata']['name']}-29400000", template["spec"])


def job_set(controllers: Controllers, workload: Draft) -> Draft:
    """Create a Job for each replica of a replicated job, with labels on the Job and its template."""
    name = workload["metadata"]["name"]
    for each in workload["spec"]["replicatedJobs"]:
        for index in range(each["replicas"]):
            domain = "jobset.sigs.k8s.io"
            values = {"jobset-name": name, "replicatedjob-name": each["name"], "job-index": str(index)}
            labels = {f"{domain}/{key}": value for key, value in values.items()}
            spec = dict(each["template"]["spec"])
            metadata = {**spec["template"]["metadata"]}
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
            metadata["annotations"] = {**metadata.get("annotations", {}), **labels}
            spec["template"] = {**spec["template"], "metadata": metadata}
            controllers.create(workload, "batch/v1", "Job", f"{name}-{each['name']}-{index}", spec, labels=labels)
    return workload


def volcano_job(controllers: Controllers, workload: Draft) -> Draft:
    """Create the pods of each task."""
    name = workload["metadata"]["name"]
    for task in workload["spec"]["tasks"]:
        for index in range(task["replicas"]):
            values = {"job-name": name, "task-spec": task["name"], "task-index": str(index)}
            labels = {f"volcano.sh/{key}": value for key, value in values.items()}
            controllers.pod(workload, f"{name}-{task['name']}-{index}", task["template"], labels)
    return workload


def training_job(field: str, controllers: Controllers, workload: Draft) -> Draft:
    """Create the pods of each replica type."""
    for kind, replicas in workload["spec"][field].items():
        for index in range(replicas["replicas"]):
            labels = {**_training_labels(workload), "replica-type": kind.lower(), "replica-index": str(index)}
            if kind in {"Master", "Chief"}:
                labels["job-role"] = "master"
            name = f"{workload['metadata']['name']}-{kind.lower()}-{index}"
            controllers.pod(workload, name, replicas["template"], _of_training(labels))
    return workload


def mpi_job_v1(controllers: Controllers, workload: Draft) -> Draft:
    """Create the pods as the training operator does: the launcher is a pod."""
    _mpi_workers(controllers, workload)
    template = workload["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    labels = {**_training_labels(workload), "replica-type": "launcher", "job-role": "launcher"}
    controllers.pod(workload, f"{workload['metadata']['name']}-launcher", template, _of_training(labels))
    return workload


def mpi_job_v2(controllers: Controllers, workload: Draft) -> Draft:
    """Create the pods as the MPI operator does: the launcher is a Job."""
    _mpi_workers(controllers, workload)
    template = workload["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    labels = _of_training({**_training_labels(workload), "job-role": "launcher"})
    metadata = {**template["metadata"], "labels": {**template["metadata"].get("labels", {}), **labels}}
    spec = {"template": {"metadata": metadata, "spec": {**template["spec"], "restartPolicy": "Never"}}}
    controllers.create(workload, "batch/v1", "Job", f"{workload['metadata']['name']}-launcher", spec)
    return workload


def leader_worker_set(controllers: Controllers, workload: Draft) -> Draft:
    """Create a StatefulSet of the leaders, and for each leader one of its workers, which the leader pod controls.

    Within `pod_webhook_of_lws` (lws_webhook.py), which numbers the pods.
    """
    name, spec = workload["metadata"]["name"], workload["spec"]
    sets = spec["leaderWorkerTemplate"]
    common = {"serviceName": name, "podManagementPolicy": "Parallel"}
    of_leaders = {f"{LWS}/name": name, f"{LWS}/worker-index": "0"}
    leaders = {
        **common,
        "replicas": spec["replicas"],
        "selector": {"matchLabels": of_leaders},
        "template": _labelled(sets["leaderTemplate"], of_leaders),
    }
    annotations = workload["metadata"].get("annotations", {})
    controllers.create(workload, "apps/v1", "StatefulSet", name, leaders, annotations=annotations)
    for index in range(spec["replicas"]):
        leader = controllers.plane.wait_for("a leader", partial(_found, controllers, f"{name}-{index}"))
        of_workers = {f"{LWS}/name": name, f"{LWS}/group-index": str(index)}
        workers = {
            **common,
            "replicas": sets["size"] - 1,
            "ordinals": {"start": 1},
            "selector": {"matchLabels": of_workers},
            "template": _labelled(sets["workerTemplate"], of_workers),
        }
        owner = {**leader, "apiVersion": "v1", "kind": "Pod"}
        controllers.create(owner, "apps/v1", "StatefulSet", f"{name}-{index}", workers, annotations=annotations)
    return workload


def ray_cluster(controllers: Controllers, workload: Draft) -> Draft:
    """Create the head and the workers of each group: the wanted number, within the group's bounds."""
    name, spec = workload["metadata"]["name"], workload["spec"]
    labels = {"ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    controllers.pod(workload, f"{name}-head-", spec["headGroupSpec"]["template"], labels)
    for group in spec["workerGroupSpecs"]:
        labels = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
        for _ in range(max(group.get("replicas", 0), group.get("minReplicas", 0)) * group.get("numOfHosts", 1)):
            controllers.pod(workload, f"{name}-{group['groupName']}-worker-", group["template"], labels)
    return workload


def ray_job(controllers: Controllers, workload: Draft) -> Draft:
    """Create a RayCluster with a random name and the annotations."""
    return _ray_cluster_of(controllers, workload, workload["spec"]["rayClusterSpec"])


def ray_service(controllers: Controllers, workload: Draft) -> Draft:
    """Create a RayCluster, as `ray_job` does."""
    return _ray_cluster_of(controllers, workload, workload["spec"]["rayClusterConfig"])


def _ray_cluster_of(controllers: Controllers, workload: Draft, spec: Draft) -> Draft:
    annotations = workload["metadata"].get("annotations", {})
    name = f"{workload['metadata']['name']}-x7k2p"
    cluster = controllers.create(workload, "ray.io/v1", "RayCluster", name, spec, annotations=annotations)
    ray_cluster(controllers, cluster)
    return workload


def _mpi_workers(controllers: Controllers, workload: Draft) -> None:
    replicas = workload["spec"]["mpiReplicaSpecs"]["Worker"]
    for index in range(replicas["replicas"]):
        labels = {**_training_labels(workload), "job-role": "worker", "replica-index": str(index)}
        name = f"{workload['metadata']['name']}-worker-{index}"
        controllers.pod(workload, name, replicas["template"], _of_training(labels))


def _training_labels(workload: Draft) -> dict[str, str]:
    return {"operator-name": f"{workload['kind'].lower()}-controller", "job-name": workload["metadata"]["name"]}


def _of_training(labels: Mapping[str, str]) -> dict[str, str]:
    return {f"training.kubeflow.org/{key}": value for key, value in labels.items()}


def _labelled(template: Draft, labels: Mapping[str, str]) -> Draft:
    metadata = template["metadata"]
    return {**template, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}


def _found(controllers: Controllers, name: str) -> Draft | None:
    path = collection(controllers.namespace, "v1", "Pod")
    found: list[Draft] = controllers.plane.api.get(f"{path}?fieldSelector=metadata.name={name}")["items"]
    return found[0] if found else None


def _reference(owner: Draft) -> Draft:
    uid = owner["metadata"]["uid"]
    name = owner["metadata"]["name"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid, "controller": True}
