"""Which pods with a node are members of a workload: they hold their places, and the others go near them.

1. A pod belongs to a workload by its controller: the workload itself, or an object that the workload makes, which
   carries its name as a prefix (the ReplicaSet of a Deployment, the Jobs of a JobSet, the sets of a LeaderWorkerSet).
2. Its place in the workload: the pod of that very name; else the one whose name its own begins with, as controllers
   append random characters; else the first that is free.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.names import POD_GROUP_NAME
from webhook.model.workload.record import Workload

# Kind of a workload -> kinds of what it makes that then makes the pods.
_MAKES: Final[Mapping[str, frozenset[str]]] = {
    "Deployment": frozenset({"ReplicaSet"}),
    "JobSet": frozenset({"Job"}),
    "LeaderWorkerSet": frozenset({"StatefulSet", "Pod"}),
    "RayJob": frozenset({"RayCluster"}),
    "RayService": frozenset({"RayCluster"}),
    "MPIJob": frozenset({"Job"}),
}
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that has its node and that others may belong with."""

    namespace: str
    name: str
    node: str
    owner_kind: str
    owner_name: str
    group: str
    """The `pod-group-name` that it names."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any], node: str) -> "RunningPod | None":
        """Read a pod that is bound to `node`, or was placed there; None if nobody belongs with it, or it has ended."""
        metadata = raw.get("metadata") or {}
        group = (metadata.get("annotations") or {}).get(POD_GROUP_NAME) or ""
        owners = metadata.get("ownerReferences") or ()
        owner = next((owner for owner in owners if owner.get("controller")), None)
        ended = (raw.get("status") or {}).get("phase") in _ENDED or "deletionTimestamp" in metadata
        if not node or ended or (owner is None and not group):
            return None
        owner = owner or {}
        return cls(
            metadata.get("namespace") or "default",
            metadata.get("name") or "",
            node,
            owner.get("kind") or "",
            owner.get("name") or "",
            group,
        )


def running_members(workload: Workload, pods: Iterable[RunningPod]) -> dict[str, str]:
    """Pod name as in the workload's roles -> node, of those that run already."""
    names = [name for gang in workload.gangs for pod_set in gang.all_pod_sets() for name in pod_set.pods]
    free = dict.fromkeys(names)
    running: dict[str, str] = {}
    mine = sorted((pod for pod in pods if _belongs(pod, workload)), key=lambda pod: pod.name)
    # Certain places first: a pod of an exact name must not find its place taken.
    for place in (_of_that_name, _of_that_beginning, _first_free):
        left = []
        for pod in mine:
            name = place(pod.name, free)
            if name is None:
                left.append(pod)
            else:
                running[name] = pod.node
                del free[name]
        mine = left
    return running


def _belongs(pod: RunningPod, workload: Workload) -> bool:
    if pod.namespace != workload.namespace or not pod.owner_name:
        return False
    if (pod.owner_kind, pod.owner_name) == (workload.kind, workload.name):
        return True
    made = pod.owner_kind in _MAKES.get(workload.kind, ())
    return made and (pod.owner_name == workload.name or pod.owner_name.startswith(f"{workload.name}-"))


def _of_that_name(name: str, free: Mapping[str, None]) -> str | None:
    return name if name in free else None


def _of_that_beginning(name: str, free: Mapping[str, None]) -> str | None:
    while "-" in name:
        name = name.rpartition("-")[0]
        if name in free:
            return name
    return None


def _first_free(_: str, free: Mapping[str, None]) -> str | None:
    return next(iter(free), None)
