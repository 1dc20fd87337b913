"""Workloads and their owner chains."""

from collections.abc import Mapping
from typing import Any, Final

from tests.builders.pods import pod
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_chain_of
from webhook.formats.kubernetes.pod import Owner

TEMPLATE = {"spec": {"containers": [{"name": "main"}]}}
API_VERSIONS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "Pod": "v1",
    "PyTorchJob": "kubeflow.org/v1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "RayService": "ray.io/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}


def template(
    *, annotations: Mapping[str, Any] | None = None, labels: Mapping[str, Any] | None = None, **how: Any
) -> dict[str, Any]:
    """A template of Guaranteed pods without a NUMA policy of their own. how: as for a pod."""
    given = {"labels": labels, "annotations": annotations}
    metadata = {field: dict(texts) for field, texts in given.items() if texts}
    return {"metadata": metadata, "spec": pod(**how)["spec"]}


def workload(
    *,
    kind: str,
    spec: Mapping[str, Any],
    name: str = "w",
    annotations: Mapping[str, Any] | None = None,
    api_version: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A workload as a user writes it. api_version: the kind's own if left out."""
    own = {"name": name, "annotations": dict(annotations or {}), **(metadata or {})}
    return {"apiVersion": api_version or API_VERSIONS[kind], "kind": kind, "metadata": own, "spec": dict(spec)}


def owned(
    kind: str, api_version: str, spec: dict[str, Any], above: str = "", name: str = "w", **annotations: str
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": f"uid-{kind}", "annotations": annotations}
    if above:
        metadata["ownerReferences"] = [
            {
                "apiVersion": API_VERSIONS.get(above, "batch/v1"),
                "kind": above,
                "name": "above",
                "uid": f"uid-{above}",
                "controller": True,
            }
        ]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def job(above: str = "", **annotations: str) -> dict[str, Any]:
    return owned("Job", "batch/v1", {"parallelism": 4, "completions": 4, "template": TEMPLATE}, above, **annotations)


def of(*chain: dict[str, Any]) -> OwnerChain:
    return owner_chain_of(Owner("v1", "Thing", "thing", "uid-thing", True), chain)
