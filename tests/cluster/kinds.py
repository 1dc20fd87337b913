"""Workloads of every kind that the chart lists, and how their controllers create pods.

Each workload is named `w` and has groups of a few pods. The controllers are in `controllers`. For kinds that the API
server does not know there are CRDs with their group, version and names, which accept any spec.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tests.cluster import controllers
from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

Template = dict[str, Any]
NAME = "w"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUILT_IN = {"apps", "batch"}
WHOLE = {"topology-webhook.dev/min-member": "4"}
"""For kinds whose pods start one by one."""


@dataclass(frozen=True)
class APIKind:
    """A workload kind in one version."""

    api_version: str
    kind: str
    spec: Callable[[Template], dict[str, Any]]
    """Returns a spec with this pod template."""
    templates: tuple[str, ...]
    """Paths of the pod templates in the object."""
    play: Callable[[controllers.Controllers, dict[str, Any]], dict[str, Any]]
    """Does what its controller does; returns the top owner of the pods."""
    groups: Mapping[str, tuple[str, ...]]
    """Suffix of a group's name -> patterns of its pods' names, in order of rank."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Subgroup of the PodGroup -> its minimum."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    between: tuple[str, ...] = ()
    """Paths of templates of other workloads."""

    def __str__(self) -> str:
        return f"{self.kind} {self.api_version.rpartition('/')[2]}"

    def workload(self, annotations: Mapping[str, str], template: Template) -> dict[str, Any]:
        """An object of the kind; each of its pod templates is a copy of `template`."""
        metadata = {"name": NAME, "annotations": {**self.annotations, **annotations}}
        spec = json.loads(json.dumps(self.spec(template)))
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "spec": spec}


def job(template: Template, pods: int = 4) -> dict[str, Any]:
    """The spec of a Job."""
    counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {**counts, "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}


def _replicas(template: Template) -> dict[str, Any]:
    return {"replicas": 4, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}


def _job_set(template: Template) -> dict[str, Any]:
    jobs = [
        {"name": "lead", "replicas": 1, "template": {"spec": job(template, 1)}},
        {"name": "work", "replicas": 2, "template": {"spec": job(template, 2)}},
    ]
    return {"replicatedJobs": jobs}


def _training(field_name: str, template: Template, **replicas: int) -> dict[str, Any]:
    return {field_name: {name: {"replicas": count, "template": template} for name, count in replicas.items()}}


def _leader_worker_set(template: Template) -> dict[str, Any]:
    return {
        "replicas": 2,
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template, "workerTemplate": template},
    }


def _volcano(template: Template) -> dict[str, Any]:
    tasks = [
        {"name": name, "replicas": replicas, "template": template} for name, replicas in (("lead", 1), ("work", 3))
    ]
    return {"schedulerName": "default-scheduler", "minAvailable": 4, "tasks": tasks}


def _ray_cluster(template: Template) -> dict[str, Any]:
    groups = [
        {"groupName": "big", "replicas": 1, "minReplicas": 1, "numOfHosts": 2, "template": template},
        {"groupName": "small", "minReplicas": 1, "template": template},
    ]
    return {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups}


def _trained(kind: str, field_name: str, **replicas: int) -> APIKind:
    """A kind of the training operator."""
    return APIKind(
        "kubeflow.org/v1",
        kind,
        lambda template: _training(field_name, template, **replicas),
        tuple(f"spec.{field_name}.{name}.template" for name in replicas),
        partial(controllers.training_job, field_name),
        {"": tuple(f"{NAME}-{name.lower()}-{index}" for name, count in replicas.items() for index in range(count))},
        {name.lower(): count for name, count in replicas.items()} if len(replicas) > 1 else {},
    )


def _ray(kind: str, below: str, play: Callable[[controllers.Controllers, dict[str, Any]], dict[str, Any]]) -> APIKind:
    """A kind of Ray. below: the field with the cluster's spec; empty if that is the whole spec."""
    where = f"spec.{below}" if below else "spec"
    cluster = NAME if kind == "RayCluster" else f"{NAME}-*"
    return APIKind(
        "ray.io/v1",
        kind,
        lambda template: {below: _ray_cluster(template)} if below else _ray_cluster(template),
        (f"{where}.headGroupSpec.template", *(f"{where}.workerGroupSpecs[{index}].template" for index in range(2))),
        play,
        {"": (f"{cluster}-head-*", *[f"{cluster}-big-worker-*"] * 2, f"{cluster}-small-worker-*")},
        {"headgroup": 1, "big": 2, "small": 1},
    )


_MPI = ("spec.mpiReplicaSpecs.Launcher.template", "spec.mpiReplicaSpecs.Worker.template")
_MPI_PARTS = {"launcher": 1, "worker": 3}
_WORKERS = tuple(f"{NAME}-worker-{index}" for index in range(3))

KINDS = (
    APIKind(
        "batch/v1", "Job", job, ("spec.template",), controllers.real, {"": tuple(f"{NAME}-{i}-*" for i in range(4))}
    ),
    APIKind(
        "batch/v1",
        "CronJob",
        lambda template: {"schedule": "0 0 31 12 *", "suspend": True, "jobTemplate": {"spec": job(template)}},
        ("spec.jobTemplate.spec.template",),
        controllers.cron_job,
        {"": tuple(f"{NAME}-29*-{index}-*" for index in range(4))},
        between=("spec.jobTemplate",),
    ),
    APIKind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        _job_set,
        tuple(f"spec.replicatedJobs[{index}].template.spec.template" for index in range(2)),
        controllers.job_set,
        {"": (f"{NAME}-lead-0-0-*", *(f"{NAME}-work-{replica}-{pod}-*" for replica in range(2) for pod in range(2)))},
        {"lead": 1, "work": 4},
        between=tuple(f"spec.replicatedJobs[{index}].template" for index in range(2)),
    ),
    APIKind(
        "batch.volcano.sh/v1alpha1",
        "Job",
        _volcano,
        tuple(f"spec.tasks[{index}].template" for index in range(2)),
        controllers.volcano_job,
        {"": (f"{NAME}-lead-0", *(f"{NAME}-work-{index}" for index in range(3)))},
        {"lead": 1, "work": 3},
    ),
    *(
        APIKind("apps/v1", kind, _replicas, ("spec.template",), controllers.real, {"": (f"{NAME}-*",) * 4}, {}, WHOLE)
        for kind in ("Deployment", "ReplicaSet")
    ),
    APIKind(
        "apps/v1",
        "StatefulSet",
        lambda template: {"serviceName": NAME, "podManagementPolicy": "Parallel", **_replicas(template)},
        ("spec.template",),
        controllers.real,
        {"": tuple(f"{NAME}-{index}" for index in range(4))},
        {},
        WHOLE,
    ),
    _trained("JAXJob", "jaxReplicaSpecs", Worker=4),
    _trained("PaddleJob", "paddleReplicaSpecs", Master=1, Worker=3),
    _trained("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=3),
    _trained("TFJob", "tfReplicaSpecs", Chief=1, PS=1, Worker=2),
    _trained("XGBoostJob", "xgbReplicaSpecs", Master=1, Worker=3),
    *(
        APIKind(
            f"kubeflow.org/{version}",
            "MPIJob",
            lambda template: _training("mpiReplicaSpecs", template, Launcher=1, Worker=3),
            _MPI,
            controller,
            {"": (launcher, *_WORKERS)},
            _MPI_PARTS,
        )
        for version, controller, launcher in (
            ("v1", controllers.mpi_job_v1, f"{NAME}-launcher"),
            ("v2beta1", controllers.mpi_job_v2, f"{NAME}-launcher-*"),
        )
    ),
    APIKind(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        _leader_worker_set,
        tuple(f"spec.leaderWorkerTemplate.{name}Template" for name in ("leader", "worker")),
        controllers.leader_worker_set,
        {f"-group-{index}": (f"{NAME}-{index}", f"{NAME}-{index}-1", f"{NAME}-{index}-2") for index in range(2)},
        {"leader": 1, "workers": 2},
    ),
    _ray("RayCluster", "", controllers.ray_cluster),
    _ray("RayJob", "rayClusterSpec", controllers.ray_job),
    _ray("RayService", "rayClusterConfig", controllers.ray_service),
)


def at(raw: Any, path: str) -> Any:
    """The value at a path such as `spec.workerGroupSpecs[0].template`."""
    for key in path.replace("[", ".").replace("]", "").split("."):
        raw = raw[int(key) if key.isdigit() else key]
    return raw


@contextlib.contextmanager
def served(plane: ControlPlane, kinds: Iterable[APIKind] = KINDS) -> Iterator[None]:
    """Serve the kinds within this context. It ends when their CRDs are gone: until then their names are taken."""
    versions: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        group, version = kind.api_version.split("/")
        if group not in BUILT_IN:
            versions.setdefault((group, kind.kind), []).append(version)
    with serving(plane, versions):
        yield


@contextlib.contextmanager
def serving(plane: ControlPlane, versions: Mapping[tuple[str, str], list[str]]) -> Iterator[None]:
    """Serve kinds of any content by group and kind, with their versions. It ends as `served` does."""
    definitions = [_definition(group, kind, found) for (group, kind), found in versions.items()]
    with contextlib.ExitStack() as gone, contextlib.ExitStack() as deleted:
        for each in definitions:
            name = each["metadata"]["name"]
            plane.api.create(CRDS, each)
            gone.callback(plane.wait_for, f"{name} to be gone", partial(_is_gone, plane, name))
            deleted.callback(plane.api.delete, f"{CRDS}/{name}")
        for each in definitions:
            plane.wait_for(each["metadata"]["name"], partial(_is_served, plane, each))
        yield


def _definition(group: str, kind: str, versions: list[str]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # groups that end in .k8s.io are protected: https://github.com/kubernetes/enhancements/pull/1111
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [
                {"name": version, "served": True, "storage": version == versions[-1], "schema": schema}
                for version in versions
            ],
        },
    }


def _is_gone(plane: ControlPlane, name: str) -> bool:
    try:
        plane.api.get(f"{CRDS}/{name}")
    except ApiError as error:
        return error.status == HTTPStatus.NOT_FOUND
    return False


def _is_served(plane: ControlPlane, definition: Mapping[str, Any]) -> bool:
    spec = definition["spec"]
    try:
        for version in spec["versions"]:
            plane.api.get(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
    except ApiError:
        return False
    return True
