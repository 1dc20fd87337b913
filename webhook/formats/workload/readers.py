"""The kinds that create pods, and the reader of each kind."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from webhook.formats.workload.apps import bare_pod, replicas, stateful_set
from webhook.formats.workload.batch import cron_job, job, job_set
from webhook.formats.workload.common_fields import annotations_of
from webhook.formats.workload.kubeflow import REPLICA_SPECS, training_job
from webhook.formats.workload.lws import leader_worker_set
from webhook.formats.workload.ray import ray_cluster, ray_job, ray_service
from webhook.formats.workload.record import Workload, WorkloadGang
from webhook.formats.workload.volcano import VOLCANO_JOB, volcano_job
from webhook.model.fields import mapping

Reader = Callable[[str, Mapping[str, str], Mapping[str, Any], str], Sequence[WorkloadGang]]
"""(name, annotations of the object, its spec, the spec's path) -> gangs; raises UserError."""

READERS: Final[Mapping[tuple[str, str], Reader]] = {
    ("", "ReplicationController"): replicas,
    ("apps", "Deployment"): replicas,
    ("apps", "ReplicaSet"): replicas,
    ("apps", "StatefulSet"): stateful_set,
    ("batch", "Job"): job,
    ("batch", "CronJob"): cron_job,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
    VOLCANO_JOB: volcano_job,
    ("ray.io", "RayCluster"): ray_cluster,
    ("ray.io", "RayJob"): ray_job,
    ("ray.io", "RayService"): ray_service,
    **{("kubeflow.org", kind): partial(training_job, kind) for kind in REPLICA_SPECS},
}
"""(API group, kind) -> its reader, for any version."""

ASKED_ABOUT: Final = frozenset(READERS) - {("", "ReplicationController")}
"""(API group, kind) of the workloads that the webhook validates with the chart's defaults."""

MAKERS: Final = frozenset(READERS) | {("", "Pod")}
"""(API group, kind) of the controllers whose objects were checked with them. The leader of a LeaderWorkerSet's group, a
Pod, is the controller of its workers' StatefulSet."""


def kind_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """The API group and kind of an object, or those that a reference names."""
    return str(raw.get("apiVersion") or "").rpartition("/")[0], str(raw.get("kind") or "")


def made_by(raw: Mapping[str, Any]) -> tuple[str, str] | None:
    """The API group and kind of an object's controller; None if it has none."""
    owners = (raw.get("metadata") or {}).get("ownerReferences") or ()
    return next((kind_of(owner) for owner in owners if owner.get("controller")), None)


def is_made_by_another(raw: Mapping[str, Any]) -> bool:
    """Whether the object's controller is one of `MAKERS`, whose annotations are checked instead."""
    return made_by(raw) in MAKERS


def read_workload(raw: Mapping[str, Any]) -> Workload | None:
    """The workload of an object; None if its kind's spec does not define its pods. Raises UserError."""
    group, kind = kind_of(raw)
    metadata = mapping(raw, "metadata", "metadata")
    name = str(metadata.get("name") or str(metadata.get("generateName") or kind.lower()).rstrip("-"))
    annotations = annotations_of(raw, "")
    if (group, kind) == ("", "Pod"):
        gangs: Sequence[WorkloadGang] = bare_pod(raw, name)
    elif (group, kind) in READERS:
        gangs = READERS[group, kind](name, annotations, mapping(raw, "spec", "spec"), "spec")
    else:
        return None
    namespace = str(metadata.get("namespace") or "default")
    return Workload(kind, namespace, name, str(metadata.get("uid") or ""), gangs, annotations)
