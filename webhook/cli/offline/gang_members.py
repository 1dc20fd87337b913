"""Which assigned or bound pods are members of a workload. They keep their nodes, and the others are placed near them.

1. A pod belongs to a workload by its controller: the workload itself, or an object that the workload creates and whose
   name starts with the workload's (the ReplicaSet of a Deployment, the Jobs of a JobSet, the sets of a
   LeaderWorkerSet).
2. Its rank in the workload: that of the pod with the same name; else of the one whose name is its prefix, because
   controllers append random characters; else the first free rank.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.formats.workload.record import Workload
from webhook.model.names import POD_GROUP_NAME
from webhook.model.raw import Raw

MAKES: Final[Mapping[str, frozenset[str]]] = {
    "Deployment": frozenset({"ReplicaSet"}),
    "JobSet": frozenset({"Job"}),
    "LeaderWorkerSet": frozenset({"StatefulSet", "Pod"}),
    "RayJob": frozenset({"RayCluster"}),
    "RayService": frozenset({"RayCluster"}),
    "MPIJob": frozenset({"Job"}),
}
"""Kind of a workload -> kinds of the objects that it creates and that then create the pods."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod with a node that may be a member of a gang."""

    namespace: str
    name: str
    node: str
    owner_kind: str
    owner_name: str
    group: str
    """The `pod-group-name` on the pod."""

    @classmethod
    def from_object(cls, raw: Raw, node: str) -> "RunningPod | None":
        """Read a pod that is bound or assigned to `node`; None if it cannot be a member of a gang, or has ended."""
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
    """Pod name as in the workload's pod sets -> node, for running pods."""
    names = [name for gang in workload.gangs for pod_set in gang.all_pod_sets() for name in pod_set.pods]
    free = dict.fromkeys(names)
    running: dict[str, str] = {}
    mine = sorted((pod for pod in pods if _belongs(pod, workload)), key=lambda pod: pod.name)
    # Exact names first: their rank must not be taken by another pod.
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
    made = pod.owner_kind in MAKES.get(workload.kind, ())
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
