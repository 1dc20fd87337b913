"""Where the pods of a workload come from: the kinds whose pod template is known."""

from collections.abc import Mapping
from typing import Any, Final

_TEMPLATE = ("spec", "template")

# (API group, kind) -> path of what becomes the pod; () is the object itself.
_POD_PATHS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}

# Its pods run on every node that matches: there is nothing to choose.
DAEMON_SET: Final = ("apps", "DaemonSet")


def pod_path(group: str, kind: str) -> tuple[str, ...] | None:
    """The path of the pod, or of its template, in an object of this kind; None when it has none that is known."""
    return _POD_PATHS.get((group, kind))


def at(held: Any, path: tuple[str, ...]) -> Any:
    """What stands at the path, None when something on the way is missing."""
    for key in path:
        held = held.get(key) if isinstance(held, Mapping) else None
    return held


def with_at(held: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Any:
    """A copy of the object with `value` at the path."""
    if not path:
        return value
    return {**held, path[0]: with_at(held[path[0]], path[1:], value)}
