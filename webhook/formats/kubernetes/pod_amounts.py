"""What a pod's containers request together: computed once for pods with equal containers.

The fields that matter are a small part of a pod, and equal for all pods of a template. As JSON text they are the key
under which the result is remembered.

What a running pod holds during an in-place resize of its containers.

A resize has three numbers: requested (spec), allocated by the kubelet, and in effect. Until they agree the pod holds
the largest. A resize that the kubelet calls infeasible does not count.
Source: kubernetes component-helpers resource/helpers.go (AggregateContainerRequests with UseStatusResources).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from webhook.codec import dumps, loads
from webhook.formats.kubernetes.containers import Container, ContainerKind, parse_containers
from webhook.formats.kubernetes.pod_resources import (
    QoS,
    container_requests,
    effective_requests,
    pod_level_resources,
    qos_class,
)
from webhook.model.fields import NO_FIELDS, mappings
from webhook.model.limits import MAX_CONTAINERS, MAX_REQUESTS, MAX_RESOURCES
from webhook.model.resources import CPU, NO_RESOURCES, is_device, largest_share, parse_list
from webhook.records import record


def held_requests(containers: tuple[Container, ...], status: Mapping[str, Any]) -> Mapping[str, int]:
    """The sum of the containers' requests as the scheduler counts it for a bound pod; raises UserError."""
    asked = container_requests(containers)
    statuses = {
        entry["name"]: entry
        for field in ("initContainerStatuses", "containerStatuses")
        for entry in status.get(field) or ()
        if entry.get("allocatedResources") or entry.get("resources")
    }
    if not statuses:
        return asked
    infeasible = _is_infeasible(status)
    allocated = tuple(_allocated(container, statuses, infeasible) for container in containers)
    in_effect = tuple(
        _in_effect(container, fallback, statuses) for container, fallback in zip(containers, allocated, strict=True)
    )
    if allocated == containers and in_effect == containers:
        return asked
    held: dict[str, int] = {} if infeasible else dict(asked)
    for requests in (container_requests(allocated), container_requests(in_effect)):
        for name, amount in requests.items():
            held[name] = max(held.get(name, 0), amount)
    return MappingProxyType(held)


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _allocated(container: Container, statuses: Mapping[str, Mapping[str, Any]], infeasible: bool) -> Container:
    raw = statuses.get(container.name, NO_FIELDS).get("allocatedResources")
    if raw:
        return _with_requests(container, parse_list(raw, "status.containerStatuses.allocatedResources"))
    return _with_requests(container, NO_RESOURCES) if infeasible else container


def _in_effect(container: Container, fallback: Container, statuses: Mapping[str, Mapping[str, Any]]) -> Container:
    raw = (statuses.get(container.name, NO_FIELDS).get("resources") or NO_FIELDS).get("requests")
    if raw:
        return _with_requests(container, parse_list(raw, "status.containerStatuses.resources.requests"))
    return fallback


def _with_requests(container: Container, requests: Mapping[str, int]) -> Container:
    # Equal lists are one object, so a pod without a resize costs nothing here.
    return container if requests is container.requests else replace(container, requests=requests)


# 4,096 results of that size take at most 50 MiB, whatever tenants write. Three containers during a resize need 2 KiB.
_REMEMBERED_BYTES: Final = 2048


@record
class PodAmounts:
    """What a pod requests. Amounts in engine units."""

    containers: tuple[Container, ...]
    """In admission order. A pod beyond our limits is one container with the sum of all requests."""
    requests: Mapping[str, int]
    """What the scheduler counts on the node."""
    qos: QoS
    pod_level: bool
    """Whether it has pod-level resources."""
    exclusive: bool
    """Whether the kubelet's managers may give it exclusive resources: CPUs, NUMA memory, devices."""
    exclusive_beyond_memory: bool
    """The same without a memory manager: exclusive CPUs or devices, once its init containers have finished."""

    @classmethod
    def of(cls, spec: Mapping[str, Any], status: Mapping[str, Any]) -> "PodAmounts":
        """Read the spec and the status of a pod; raises UserError."""
        fields = _fields_that_matter(spec, status)
        try:
            text = dumps(fields)
        except (TypeError, ValueError):  # not from JSON
            return _computed(fields)
        return _remembered(text) if len(text) <= _REMEMBERED_BYTES else _computed(fields)


def _fields_that_matter(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """A pod with the fields of `spec` and `status` that amounts depend on."""
    essence = {
        field: [
            {name: raw[name] for name in ("name", "restartPolicy", "resources") if name in raw}
            for raw in mappings(spec, field, f"spec.{field}")
        ]
        for field in ("initContainers", "containers")
        if field in spec
    }
    more = {field: spec[field] for field in ("overhead", "resources") if field in spec}
    return {"spec": essence | more, "status": dict(_of_a_resize(status))}


def _of_a_resize(status: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a status that tell what a running pod holds."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(field) or ():
            if entry.get("allocatedResources") or entry.get("resources"):
                names = ("name", "allocatedResources", "resources")
                yield field, [{name: one[name] for name in names if name in one} for one in status[field]]
                break
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            yield "conditions", [{name: condition.get(name) for name in ("type", "reason")}]


@lru_cache(maxsize=4096)
def _remembered(text: bytes) -> PodAmounts:
    return _computed(loads(text))


def _computed(pod: Mapping[str, Any]) -> PodAmounts:
    spec, status = pod["spec"], pod["status"]
    containers = parse_containers(spec)
    # A pod larger than our limits is never resized in practice.
    is_usual = len(containers) <= MAX_CONTAINERS
    together = held_requests(containers, status) if is_usual else container_requests(containers)
    pod_level = pod_level_resources(spec, together)
    qos = qos_class(containers, pod_level)
    containers = _kept(containers, together)
    whole = effective_requests(together, pod_level, parse_list(spec.get("overhead"), "spec.overhead"))
    return PodAmounts(
        containers=containers,
        requests=largest_share(whole, MAX_RESOURCES),
        qos=qos,
        pod_level=pod_level is not None,
        exclusive=_has_exclusive_resources(containers, qos),
        exclusive_beyond_memory=_has_exclusive_pieces(containers, qos),
    )


def _kept(containers: tuple[Container, ...], together: Mapping[str, int]) -> tuple[Container, ...]:
    """The containers. A pod beyond our limits is kept as one container with the sum of all requests."""
    if len(containers) <= MAX_CONTAINERS and sum(len(one.requests) for one in containers) <= MAX_REQUESTS:
        return containers
    requests = largest_share(together, MAX_RESOURCES)
    return (Container("", ContainerKind.APP, requests, requests),)


def _has_exclusive_resources(containers: tuple[Container, ...], qos: QoS) -> bool:
    """Static managers give whole CPUs and NUMA memory to Guaranteed pods, and devices to any pod."""
    return qos is QoS.GUARANTEED or any(is_device(name) for container in containers for name in container.requests)


def _has_exclusive_pieces(containers: tuple[Container, ...], qos: QoS) -> bool:
    """Whether containers that keep running have devices, or whole CPUs of a Guaranteed pod.

    Source: scheduler-plugins pkg/noderesourcetopology/resourcerequests/exclusive.go, without its memory.
    """
    return any(
        (amount > 0 and amount % 1000 == 0 and qos is QoS.GUARANTEED) if name == CPU else is_device(name)
        for container in containers
        if container.kind is not ContainerKind.INIT
        for name, amount in container.requests.items()
    )
