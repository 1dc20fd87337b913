"""Objects of Dynamic Resource Allocation (DRA) as the API server gives them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

DRIVER: Final = "gpu.example.com"
NUMA: Final = "resource.kubernetes.io/numaNode"


def device(name: str, *, capacity: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A device. Other fields by their names; attributes as values: int, bool and str, or as the API has them."""
    attributes = {key: _attribute(value) for key, value in fields.pop("attributes", {}).items()}
    found: dict[str, Any] = {"name": name, **fields}
    if attributes:
        found["attributes"] = attributes
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    return found


def _attribute(value: Any) -> Any:
    for kind, key in ((bool, "bool"), (int, "int"), (str, "string")):
        if type(value) is kind:
            return {key: value}
    return value


def gpus(*numa: int | None) -> list[dict[str, Any]]:
    """The devices gpu-0, gpu-1, ..., and the NUMA node that each publishes; None: it publishes none."""
    return [
        device(f"gpu-{number}", attributes={} if numa_id is None else {NUMA: numa_id})
        for number, numa_id in enumerate(numa)
    ]


def resource_slice(
    node: str,
    devices: Sequence[Mapping[str, Any]] | None = None,
    *,
    driver: str = DRIVER,
    pool: str = "",
    name: str = "",
    generation: int = 1,
    slices: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """A ResourceSlice of a node. node: empty if `spec` says which nodes can use it. pool: "" = the node's name.

    devices: by default two GPUs in each of two NUMA nodes.
    """
    where = {"nodeName": node} if node else {}
    what = {"devices": list(gpus(0, 0, 1, 1) if devices is None else devices)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node or 'shared'}-{driver}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node or "shared", "generation": generation, "resourceSliceCount": slices},
            **where,
            **(what if what["devices"] else {}),
            **spec,
        },
    }


def selectors(*expressions: str) -> list[dict[str, Any]]:
    """Selectors of a class or request."""
    return [{"cel": {"expression": expression}} for expression in expressions]


def device_class(
    name: str = DRIVER, *expressions: str, resource: str = "", created: str = "2030-01-01T00:00:00Z"
) -> dict[str, Any]:
    """A DeviceClass. Without expressions, it selects the devices of the driver of its name."""
    spec: dict[str, Any] = {"selectors": selectors(*(expressions or (f'device.driver == "{name}"',)))}
    if resource:
        spec["extendedResourceName"] = resource
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": spec,
    }


def request(
    name: str = "gpu", count: int | None = 1, *expressions: str, cls: str = DRIVER, **exactly: Any
) -> dict[str, Any]:
    """A request for `count` devices. count: None = all."""
    how = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    own = {"selectors": selectors(*expressions)} if expressions else {}
    return {"name": name, "exactly": {"deviceClassName": cls, **how, **own, **exactly}}


def first_available(name: str, *subrequests: Mapping[str, Any]) -> dict[str, Any]:
    """A request for the first of several that can be allocated."""
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in subrequests]}


def match(attribute: str, *requests: str) -> dict[str, Any]:
    """A constraint: equal on all devices."""
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def distinct(attribute: str, *requests: str) -> dict[str, Any]:
    """A constraint: different on each device."""
    return {"distinctAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def result(device: str, *, pool: str, request: str = "gpu", driver: str = DRIVER, **fields: Any) -> dict[str, Any]:
    """A device of an allocated claim."""
    return {"request": request, "driver": driver, "pool": pool, "device": device, **fields}


def claim(
    name: str = "gpu",
    requests: Sequence[Mapping[str, Any]] | None = None,
    *,
    constraints: Sequence[Mapping[str, Any]] = (),
    devices: Sequence[str] = (),
    results: Sequence[Mapping[str, Any]] | None = None,
    node: str = "",
    reserved_for: Sequence[str] = (),
    namespace: str = "default",
    extended: bool = False,
    owner: str = "",
) -> dict[str, Any]:
    """A ResourceClaim, by default for as many devices as it has, or for one.

    devices: what it has in the pool of the node. results: the same in full; without either it is not allocated.
    node: where that is. reserved_for: pods.
    extended: whether kube-scheduler made it for extended resources. owner: the uid of the pod that it is made for.
    """
    if results is None and devices:
        results = [result(each, pool=node) for each in devices]
    metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"}
    if extended:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        ]
    status: dict[str, Any] = {}
    if results is not None:
        status["allocation"] = {"devices": {"results": list(results)}}
        if node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    if reserved_for:
        status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in reserved_for]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": _claim_spec([request(count=len(devices) or 1)] if requests is None else requests, constraints),
        "status": status,
    }


def claim_template(
    name: str = "gpu",
    requests: Sequence[Mapping[str, Any]] | None = None,
    *,
    constraints: Sequence[Mapping[str, Any]] = (),
    namespace: str = "default",
) -> dict[str, Any]:
    """The ResourceClaimTemplate of such claims, by default for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": _claim_spec([request()] if requests is None else requests, constraints)},
    }


def _claim_spec(requests: Sequence[Mapping[str, Any]], constraints: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"devices": {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {})}}


def taint_rule(name: str, selector: Mapping[str, Any] | None, *, effect: str = "NoSchedule") -> dict[str, Any]:
    """A DeviceTaintRule."""
    taint = {"key": name, "value": "", "effect": effect}
    spec = {"taint": taint, **({} if selector is None else {"deviceSelector": selector})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }
