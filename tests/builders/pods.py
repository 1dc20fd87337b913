"""Pods as the API server gives them."""

from collections.abc import Mapping
from typing import Any, Final

from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT_GATE, POD_GROUP_NAME

SINGLE: Final = '{"numaTopologyPolicy": "SingleNUMANode"}'
GATES: Final = [{"name": PLACEMENT_GATE}]


def pod(
    *,
    name: str = "p",
    cpu: str = "8",
    numa: str = SINGLE,
    annotations: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Guaranteed pod of one container, as a user creates it. annotations: in addition to the one with `numa`."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    own = {"name": name, "namespace": "default", "annotations": {NUMA_TOPOLOGY_SPEC: numa, **(annotations or {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**own, **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def created(
    *,
    name: str = "p",
    namespace: str = "default",
    second: int = 0,
    group: str = "",
    annotations: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **how: Any,
) -> dict[str, Any]:
    """A pod as the API server stores it, created in this second of 2030. group: the gang that its annotation names."""
    known = {
        "namespace": namespace,
        "uid": name if namespace == "default" else f"{namespace}/{name}",
        "creationTimestamp": f"2030-01-01T00:00:{second:02}Z",
        "resourceVersion": "1",
    }
    gang = {POD_GROUP_NAME: group} if group else {}
    return pod(name=name, annotations={**gang, **(annotations or {})}, metadata={**known, **(metadata or {})}, **how)


def gated(**how: Any) -> dict[str, Any]:
    """A pod that has only our gate."""
    return created(**{"schedulingGates": GATES, **how})


def bound(*, node: str, **how: Any) -> dict[str, Any]:
    """A pod that runs on a node."""
    return {**created(**how, nodeName=node), "status": {"phase": "Running"}}
