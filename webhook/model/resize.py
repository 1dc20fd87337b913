"""What a running pod holds during an in-place resize of its containers.

A resize has three numbers: requested (spec), allocated by the kubelet, and in effect. Until they agree the pod holds
the largest. A resize that the kubelet calls infeasible does not count.
Source: kubernetes component-helpers resource/helpers.go (AggregateContainerRequests with UseStatusResources).
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from webhook.model.containers import Container
from webhook.model.fields import NO_FIELDS
from webhook.model.pod_resources import container_requests
from webhook.model.resources import NO_RESOURCES, parse_list


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
