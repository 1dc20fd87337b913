"""The workload that makes a pod, as far as the pod itself shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """The controller of a pod, or the pod itself."""

    namespace: str
    kind: str
    name: str


def workload_of(raw: Mapping[str, Any]) -> Workload:
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
