"""Pods as the API server gives them."""

from collections.abc import Mapping
from typing import Any, Final

from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT_GATE, POD_GROUP_NAME

SINGLE: Final = '{"numaTopologyPolicy": "SingleNUMANode"}'
GATES: Final = [{"name": PLACEMENT_GATE}]


def container(
    *,
    name: str = "main",
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A container with these requests and limits; None: it has none."""
    given = {"requests": requests, "limits": limits}
    resources = {field: dict(amounts) for field, amounts in given.items() if amounts is not None}
    return {"name": name, "image": "none", "resources": resources, **fields}


def guaranteed(
    *,
    name: str = "main",
    cpu: int | str = 8,
    memory: str = "1Gi",
    devices: Mapping[str, int] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A container whose limits are its requests."""
    amounts = {"cpu": str(cpu), "memory": memory, **{device: str(count) for device, count in (devices or {}).items()}}
    return container(name=name, requests=amounts, limits=amounts, **fields)


def pod(
    *,
    name: str = "p",
    namespace: str = "default",
    cpu: int | str = 8,
    memory: str = "1Gi",
    devices: Mapping[str, int] | None = None,
    numa: str | None = SINGLE,
    annotations: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Guaranteed pod of one container, as a user creates it.

    numa: the value of the annotation with the pod's NUMA policy; None: no such annotation.
    annotations: others. namespace: "" = none, as in a manifest. spec: may replace the containers.
    """
    named = {"name": name, **({"namespace": namespace} if namespace else {})}
    own = {**({} if numa is None else {NUMA_TOPOLOGY_SPEC: numa}), **(annotations or {})}
    noted = {"annotations": own} if own else {}
    containers = [guaranteed(cpu=cpu, memory=memory, devices=devices)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, **noted, **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }


def plain(**how: Any) -> dict[str, Any]:
    """A pod without a NUMA policy of its own."""
    return pod(**{"numa": None, **how})


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
        "uid": name if namespace == "default" else f"{namespace}/{name}",
        "creationTimestamp": f"2030-01-01T00:00:{second:02}Z",
        "resourceVersion": "1",
    }
    gang = {POD_GROUP_NAME: group} if group else {}
    return pod(
        name=name,
        namespace=namespace,
        annotations={**gang, **(annotations or {})},
        metadata={**known, **(metadata or {})},
        **how,
    )


def gated(**how: Any) -> dict[str, Any]:
    """A pod that has only our gate."""
    return created(**{"schedulingGates": GATES, **how})


def bound(*, node: str, status: Mapping[str, Any] | None = None, **how: Any) -> dict[str, Any]:
    """A pod that runs on a node."""
    return {**created(**how, nodeName=node), "status": {"phase": "Running", **(status or {})}}
