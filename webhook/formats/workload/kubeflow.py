"""Kubeflow's training jobs as gangs: MPIJob, PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob.

All have replica specs by type (pytorchReplicaSpecs: {Master: .., Worker: ..}). All pods start together unless
`runPolicy.schedulingPolicy.minAvailable`, else (PyTorch) `elasticPolicy.minReplicas`, sets a minimum. Leading types
count into a minimum first. An MPIJob whose launcher is created after the workers are ready does not wait for it.

Source: training-operator pkg/apis/kubeflow.org/v1; mpi-operator v2beta1; KAI-Scheduler pkg/podgrouper plugins
kubeflow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from webhook.formats.workload.common_fields import (
    at_most_a_cluster,
    at_most_pod_sets,
    count,
    gang_of_pod_sets,
    min_member,
    template_of,
    with_minimum,
)
from webhook.formats.workload.record import PodNames, WorkloadGang, WorkloadPodSet
from webhook.model.errors import UserError
from webhook.model.fields import mapping

REPLICA_SPECS: Final[Mapping[str, str]] = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
}
# Leading types, in this order; all others follow by name.
_LEADERS: Final = ("launcher", "master", "chief")


def training_job(
    kind: str, name: str, owner: Mapping[str, str], spec: Mapping[str, Any], path: str
) -> tuple[WorkloadGang, ...]:
    """The gang of a training job."""
    field = REPLICA_SPECS[kind]
    specs = mapping(spec, field, f"{path}.{field}")
    if not specs:
        raise UserError(f"{path}.{field}", f"This is missing. A {kind} has its pod templates here.")
    at_most_pod_sets(len(specs), f"{path}.{field}")
    pod_sets: list[WorkloadPodSet] = []
    total = 0
    for kind_of in sorted(specs, key=_order):
        pod_sets.append(_pod_set(name, kind_of, specs, f"{path}.{field}"))
        total = at_most_a_cluster(total + len(pod_sets[-1].pods), f"{path}.{field}")
    if kind == "MPIJob" and spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        by = f"{path}.launcherCreationPolicy: AtStartup"
        launchers = [pod_set for pod_set in pod_sets if pod_set.name == "launcher"]
        launchers = [replace(pod_set, minimum=0, late=len(pod_set.pods), at_once_by=by) for pod_set in launchers]
        pod_sets = [*(pod_set for pod_set in pod_sets if pod_set.name != "launcher"), *launchers]
    return (gang_of_pod_sets(name, owner, with_minimum(pod_sets, _minimum(owner, spec, path))),)


def _order(kind_of: str) -> tuple[int, str]:
    lower = kind_of.lower()
    return (_LEADERS.index(lower) if lower in _LEADERS else len(_LEADERS)), lower


def _pod_set(name: str, kind_of: str, specs: Mapping[str, Any], path: str) -> WorkloadPodSet:
    spec = mapping(specs, kind_of, f"{path}.{kind_of}")
    size = count(spec, "replicas", f"{path}.{kind_of}", 1)
    pod_set = kind_of.lower()
    pods: Sequence[str] = PodNames(f"{name}-{pod_set}", range(size))
    if pod_set == "launcher" and size == 1:
        pods = (f"{name}-launcher",)
    return WorkloadPodSet(pod_set, pods, size, template_of(spec, f"{path}.{kind_of}"), f"{path}.{kind_of}.template")


def _minimum(owner: Mapping[str, str], spec: Mapping[str, Any], path: str) -> int | None:
    """Pods that must start together; None = all."""
    asked = min_member(owner)
    if asked is not None:
        return asked
    where = f"{path}.runPolicy"
    scheduling = mapping(mapping(spec, "runPolicy", where), "schedulingPolicy", f"{where}.schedulingPolicy")
    if scheduling.get("minAvailable") is not None:
        return count(scheduling, "minAvailable", f"{where}.schedulingPolicy", 1)
    elastic = mapping(spec, "elasticPolicy", f"{path}.elasticPolicy")
    if elastic.get("minReplicas") is not None:
        return count(elastic, "minReplicas", f"{path}.elasticPolicy", 1)
    return None
