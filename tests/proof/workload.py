"""What a user creates: a ReplicaSet or a Job of equal pods, with annotations that the webhook reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tests.cluster.kubelets import RUN_SECONDS
from tests.cluster.nodes import RACK_LABEL
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, NUMA_TOPOLOGY_SPEC
from webhook.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKLOAD_LABEL = "example.com/workload"
TOPOLOGY = "racks"
"""The Topology object of scenarios with racks."""
# A Job gives up after six failures; how often a pod has to be made again is what is measured here.
_NEVER_GIVE_UP = 1000

Amounts = dict[str, str]


class ControllerKind(StrEnum):
    """The controller that creates the pods, and recreates them if the kubelet rejects them."""

    REPLICA_SET = "ReplicaSet"
    JOB = "Job"


_COLLECTIONS = {ControllerKind.REPLICA_SET: "apis/apps/v1", ControllerKind.JOB: "apis/batch/v1"}
_PLURALS = {ControllerKind.REPLICA_SET: "replicasets", ControllerKind.JOB: "jobs"}


def claim_template_of(gpus: int) -> str:
    """The name of the ResourceClaimTemplate for so many GPUs."""
    return f"gpus-{gpus}"


@dataclass(frozen=True)
class Burst:
    """Equal pods, created at the same time."""

    name: str
    pods: int
    containers: Sequence[Amounts]
    """Amounts by resource of each container; requests equal limits, so that the pods are Guaranteed."""
    kind: ControllerKind = ControllerKind.REPLICA_SET
    at: float = 0.0
    """Seconds after the start of the run."""
    policy: str | None = "SingleNUMANode"
    """The NUMA policy in the annotation; "": the node's own applies; None: not annotated, and not Guaranteed."""
    run_seconds: float | None = None
    """How long a pod runs; None: until it is deleted."""
    one_rack: bool = False
    """Whether all pods must be in one rack."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of the workload, not of its pods."""
    priority: str = ""
    """The PriorityClass of its pods; empty: none."""
    gpus: int = 0
    """GPUs of each pod by a ResourceClaim that is made for it from a template; 0: it has no claim."""
    scheduler: str = ""
    """The scheduler of its pods, which have no annotations then; empty: the default one."""

    @property
    def millicores(self) -> int:
        """The request of one pod."""
        return sum(Quantity.parse(amounts["cpu"]).milli() for amounts in self.containers)

    def path(self, namespace: str) -> str:
        """The API collection in which it is created."""
        return f"/{_COLLECTIONS[self.kind]}/namespaces/{namespace}/{_PLURALS[self.kind]}"

    def body(self) -> dict[str, Any]:
        """The object to create."""
        labels = {WORKLOAD_LABEL: self.name}
        pod: dict[str, Any] = {
            "restartPolicy": "Always" if self.kind is ControllerKind.REPLICA_SET else "Never",
            "nodeSelector": dict(self.node_selector),
            "containers": [self._container(number, amounts) for number, amounts in enumerate(self.containers)],
        }
        if self.gpus:
            pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claim_template_of(self.gpus)}]
            pod["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        if self.priority:
            pod["priorityClassName"] = self.priority
        if self.scheduler:
            pod["schedulerName"] = self.scheduler
        template = {"metadata": {"labels": labels, "annotations": self._pod_annotations()}, "spec": pod}
        spec: dict[str, Any]
        if self.kind is ControllerKind.REPLICA_SET:
            spec = {"replicas": self.pods, "selector": {"matchLabels": labels}, "template": template}
        else:
            size = {"parallelism": self.pods, "completions": self.pods, "backoffLimit": _NEVER_GIVE_UP}
            spec = {**size, "template": template}
        metadata = {"name": self.name, "labels": dict(self.labels), "annotations": self._rack_annotations()}
        return {"metadata": metadata, "spec": spec}

    def _container(self, number: int, amounts: Amounts) -> dict[str, Any]:
        # Devices are given by their limits, whatever the pod's quality of service.
        limits = amounts if self.policy is not None else {name: amounts[name] for name in amounts if "/" in name}
        return {"name": f"c{number}", "image": "none", "resources": {"requests": amounts, "limits": limits}}

    def _pod_annotations(self) -> dict[str, str]:
        annotations = self._rack_annotations()
        if self.policy is not None and not self.scheduler:
            annotations[NUMA_TOPOLOGY_SPEC] = json.dumps({"numaTopologyPolicy": self.policy})
        if self.run_seconds is not None:
            annotations[RUN_SECONDS] = f"{self.run_seconds:.3f}"
        return annotations

    def _rack_annotations(self) -> dict[str, str]:
        return {KAI_TOPOLOGY: TOPOLOGY, KAI_REQUIRED_PLACEMENT: RACK_LABEL} if self.one_rack else {}
