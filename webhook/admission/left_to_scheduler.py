"""Pods whose node only the scheduler can choose: what decides it is not simulated here.

- Inter-pod affinity and anti-affinity, topology spread constraints: where other pods are, by their labels.
- Volumes whose claim is bound, or provisioned, where a node can reach it.
- Ports of the host, devices by resource claims.

Such a pod is not held to one node, which might be closed to it for ever.
"""

from collections.abc import Mapping
from typing import Any, Final

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AMONG_PODS: Final = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}
_VOLUMES: Final = ("persistentVolumeClaim", "ephemeral", "csi")


def why_left_to_scheduler(raw: Mapping[str, Any]) -> str | None:
    """What of the pod only the scheduler can judge, in words; None when it has nothing of the kind."""
    spec: Mapping[str, Any] = raw.get("spec") or {}
    affinity = spec.get("affinity") or {}
    for kind, name in _AMONG_PODS.items():
        terms = affinity.get(kind) or {}
        if terms.get(_REQUIRED) or terms.get(_PREFERRED):
            return name
    if spec.get("topologySpreadConstraints"):
        return "topology spread constraints"
    if any(volume.get(kind) for volume in spec.get("volumes") or () for kind in _VOLUMES):
        return "volumes"
    if spec.get("resourceClaims"):
        return "resource claims"
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if any(port.get("hostPort") for container in containers for port in container.get("ports") or ()):
        return "host ports"
    return None
