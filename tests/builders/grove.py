"""Grove's PodGangs, topologies and pods, as its operator writes them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

GATE: Final = "grove.io/podgang-pending-creation"


def binding(*levels: str, name: str = "network") -> dict[str, Any]:
    """A ClusterTopologyBinding with these node labels, coarse to fine. A level is called by what follows the slash."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": [{"key": level, "domain": level.rpartition("/")[2]} for level in levels]},
    }


def pack(required: str = "", preferred: str = "") -> dict[str, Any]:
    """A topology constraint, as a field of the gang, a group config or a podgroup; {} without levels."""
    levels = {key: level for key, level in (("required", required), ("preferred", preferred)) if level}
    return {"topologyConstraint": {"packConstraint": levels}} if levels else {}


def podgroup(name: str, minimum: int, required: str = "", preferred: str = "") -> dict[str, Any]:
    return {"name": name, "podReferences": [], "minReplicas": minimum, **pack(required, preferred)}


def config(name: str, groups: Sequence[str], required: str = "", preferred: str = "") -> dict[str, Any]:
    """A group config of these podgroups."""
    return {"name": name, "podGroupNames": list(groups), **pack(required, preferred)}


def pod_gang(
    *groups: Mapping[str, Any],
    configs: Sequence[Mapping[str, Any]] = (),
    name: str = "g",
    namespace: str = "default",
    topology: str = "network",
    **spec: Any,
) -> dict[str, Any]:
    """A PodGang with these podgroups. namespace: "" = none, as in a manifest; topology: "" = none."""
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "annotations": {"grove.io/topology-name": topology} if topology else {},
        },
        "spec": {
            "podgroups": list(groups),
            **({"topologyConstraintGroupConfigs": list(configs)} if configs else {}),
            **spec,
        },
    }


def labels(clique: str, index: int, gang: str = "g", base: str = "") -> dict[str, str]:
    """The labels of a pod of a PodClique. base: the base PodGang, for a pod of a scaled one."""
    return {
        "app.kubernetes.io/managed-by": "grove-operator",
        "grove.io/podgang": gang,
        "grove.io/podclique": clique,
        "grove.io/podclique-pod-index": str(index),
        **({"grove.io/base-podgang": base} if base else {}),
    }
