"""Devices of Dynamic Resource Allocation (DRA) as the API server gives them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

DRIVER: Final = "gpu.example.com"
NUMA: Final = "resource.kubernetes.io/numaNode"


def resource_slice(
    *,
    node: str,
    numa: Sequence[int | None] = (0, 0, 1, 1),
    driver: str = DRIVER,
    generation: int = 1,
    slices: int = 1,
    name: str = "",
    attributes: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A node's only slice of a driver: the devices gpu-0, gpu-1, ... numa: the NUMA node of each; None: not published.

    attributes: of every device.
    """
    devices = []
    for index, numa_id in enumerate(numa):
        own = {} if numa_id is None else {NUMA: {"int": numa_id}}
        devices.append({"name": f"gpu-{index}", "attributes": {**own, **(attributes or {})}})
    pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices, **spec},
    }


def device_class(
    *, name: str = DRIVER, extended: str = "", selector: str = f'device.driver == "{DRIVER}"', created: str = ""
) -> dict[str, Any]:
    """A class of devices. extended: the extended resource that it maps. selector: CEL; empty: all devices."""
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    if extended:
        spec["extendedResourceName"] = extended
    times = {"creationTimestamp": created} if created else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, **times},
        "spec": spec,
    }


def request(*, name: str = "gpu", class_name: str = DRIVER, count: int = 1, **fields: Any) -> dict[str, Any]:
    """A request for exactly so many devices. fields: others of `exactly`."""
    return {"name": name, "exactly": {"deviceClassName": class_name, "count": count, **fields}}


def claim(
    *,
    name: str = "gpu",
    namespace: str = "default",
    requests: Sequence[Mapping[str, Any]] | None = None,
    node: str = "",
    devices: Sequence[str] = (),
    driver: str = DRIVER,
    extended: bool = False,
    owner: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """A claim. node and devices: what it has, in the pool of the node, all for its first request.

    extended: whether kube-scheduler made it for extended resources. owner: the uid of the pod that it is made for.
    """
    requests = [dict(one) for one in (requests or [request(count=len(devices) or 1)])]
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"claim-{namespace}-{name}"}
    if extended:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        ]
    first = requests[0]["name"]
    results = [{"request": first, "driver": driver, "pool": node, "device": device} for device in devices]
    on_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [on_node]}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests, **spec}},
        **({"status": status} if results else {}),
    }


def claim_template(
    *,
    name: str = "gpu",
    namespace: str = "default",
    requests: Sequence[Mapping[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """The template of claims with these requests."""
    devices = {"requests": [dict(one) for one in (requests or [request()])], **spec}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": devices}},
    }
