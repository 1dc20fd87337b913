"""The pods that kubelets rejected, by the workload that makes them.

A rejected pod stays with the phase Failed until its controller or the garbage collector deletes it. Its Event is there
for an hour. Both are counted, each pod once. The workload of a pod that only an Event knows is found by the pod's name:
the name of its controller and a random suffix.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.formats.kubernetes.rejected_pod import RejectionReason, rejection_reason
from webhook.model.options import Manage
from webhook.model.raw import Raw
from webhook.views.audit.managed_pods import ManagedPods

_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """The controller of a pod, or the pod itself."""

    namespace: str
    kind: str
    name: str


def workload_of(raw: Raw) -> Workload:
    """The controller of a pod. A ReplicaSet that a Deployment made is named as the Deployment, by the template hash."""
    metadata = raw["metadata"]
    namespace = str(metadata.get("namespace") or "")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
            suffix = f"-{(metadata.get('labels') or {}).get(_HASH, '')}"
            if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
                return Workload(namespace, "Deployment", name.removesuffix(suffix))
            return Workload(namespace, kind, name)
    return Workload(namespace, "Pod", str(metadata.get("name", "")))


@dataclass(frozen=True, slots=True)
class RejectionView:
    """The rejected pods of a workload."""

    workload: Workload
    pods: int
    reasons: Mapping[str, int]
    """How many by the kubelet's reason."""
    nodes: Mapping[str, int]
    """How many by node."""
    manage: Manage | None
    """The narrowest value of `manage` with which the service would manage these pods. None: none does (another
    scheduler or a DaemonSet places them), or the pods are gone."""


class Rejections:
    """Collects the rejected pods of a cluster."""

    def __init__(self, managed: ManagedPods) -> None:
        self._managed = managed
        self._pods: dict[str, tuple[Workload, str, str]] = {}  # by uid: workload, reason, node
        self._events: dict[str, tuple[str, str, str, str]] = {}  # by uid: namespace, name, reason, node
        self._modes: dict[Workload, Manage | None] = {}
        self._by_controller: dict[tuple[str, str], tuple[Workload, Manage | None]] = {}

    def add_pod(self, raw: Raw) -> None:
        """Take a pod, rejected or not."""
        workload = workload_of(raw)
        for owner in raw["metadata"].get("ownerReferences") or ():
            controller = workload.namespace, str(owner.get("name", ""))
            if owner.get("controller") and controller not in self._by_controller:
                self._by_controller[controller] = workload, self._managed.least_mode(raw)
        reason = rejection_reason(raw)
        if reason is not None:
            self._pods[_uid(raw["metadata"])] = workload, reason, str(raw["spec"].get("nodeName") or "")
            self._modes.setdefault(workload, self._managed.least_mode(raw))

    def add_event(self, raw: Raw) -> None:
        """Take an Event; others than those of rejections are ignored."""
        about = _mapping(raw.get("involvedObject") or raw.get("regarding"))
        reason, source = str(raw.get("reason")), _mapping(raw.get("source") or raw.get("deprecatedSource"))
        if RejectionReason.counting(reason) is RejectionReason.OTHER or about.get("kind") != "Pod":
            return
        node = source.get("host") or raw.get("reportingInstance") or ""
        namespace, name = str(about.get("namespace", "")), str(about.get("name", ""))
        self._events[str(about.get("uid") or f"{namespace}/{name}")] = namespace, name, reason, str(node)

    def views(self) -> tuple[RejectionView, ...]:
        """The workloads with rejected pods, those with most pods first."""
        rejected = dict(self._pods)
        modes = dict(self._modes)
        for uid, (namespace, name, reason, node) in self._events.items():
            if uid not in rejected:
                controller = namespace, name.rpartition("-")[0]
                workload, mode = self._by_controller.get(controller, (Workload(namespace, "Pod", name), None))
                rejected[uid] = workload, reason, node
                modes.setdefault(workload, mode)
        by_workload: dict[Workload, list[tuple[str, str]]] = {}
        for workload, reason, node in rejected.values():
            by_workload.setdefault(workload, []).append((reason, node))
        views = [
            RejectionView(
                workload,
                len(pods),
                _counted(reason for reason, _ in pods),
                _counted(node for _, node in pods if node),
                modes[workload],
            )
            for workload, pods in by_workload.items()
        ]
        return tuple(sorted(views, key=lambda view: (-view.pods, view.workload)))


def _counted(names: Any) -> Mapping[str, int]:
    """The number of each name, the most frequent first."""
    return dict(sorted(Counter(names).items(), key=lambda entry: (-entry[1], entry[0])))


def _uid(metadata: Raw) -> str:
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


def _mapping(value: object) -> Raw:
    return value if isinstance(value, Mapping) else {}
