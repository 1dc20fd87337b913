"""A group of equal machines that an autoscaler may add to, and its Nodes before a kubelet has taken them over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.nodes import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine

GROUP_LABEL: Final = "kwok-nodegroup"
NOT_READY: Final = "node.kubernetes.io/not-ready"
"""The taint of a Node without a ready kubelet. In a cluster the API server adds it; the tests' has that plugin off."""
MAXIMUM: Final = 20


@dataclass(frozen=True)
class GroupOfMachines:
    """Machines that are like `sample` but for their names."""

    name: str
    sample: SimulatedMachine
    minimum: int = 0
    maximum: int = MAXIMUM
    """How many Nodes it must have, and may have."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What all its Nodes carry."""
        own = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", GROUP_LABEL: self.name}
        return {**self.sample.labels, **own}

    @property
    def amounts(self) -> Mapping[str, str]:
        """What pods can allocate on one of its machines."""
        return {
            "cpu": f"{self.sample.millicores}m",
            "memory": f"{self.sample.memory_gib * self.sample.numa_nodes}Gi",
            "pods": str(self.sample.max_pods),
            **{name: str(sum(pieces)) for name, pieces in self.sample.devices.items()},
        }

    def machine(self, name: str) -> SimulatedMachine:
        """The machine behind one of its Nodes."""
        return replace(self.sample, name=name, labels=self.labels)

    def node(self, name: str, annotations: Mapping[str, str], provider_id: str) -> dict[str, Any]:
        """A Node as a cloud provider creates it: nothing runs there yet."""
        status = {"capacity": dict(self.amounts), "allocatable": dict(self.amounts)}
        metadata = {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **self.labels},
            "annotations": dict(annotations),
        }
        taints = [{"key": NOT_READY, "effect": "NoSchedule"}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "spec": {"providerID": provider_id, "taints": taints},
            "status": status,
        }


def nodes_of(plane: ControlPlane, groups: Sequence[GroupOfMachines]) -> dict[str, dict[str, Any]]:
    """The Nodes of these groups by name."""
    names = ",".join(group.name for group in groups)
    listed = plane.api.get(f"{NODES}?labelSelector={GROUP_LABEL}%20in%20({names})")["items"]
    return {node["metadata"]["name"]: node for node in listed}
