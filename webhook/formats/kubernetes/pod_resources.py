"""The requests of a pod, of its containers one by one and together, and its QoS class.

1. Each container has a time at which it runs and what it requests (`Container`).
2. Together they request what they need at one time, or what the pod requests as a whole.
3. During an in-place resize, a running pod holds more (`held_requests`).

All of this is computed once for pods with equal containers: the fields that matter are a small part of a pod, and equal
for all pods of a template. As JSON text they are the key under which the result is remembered.

Source: kubernetes component-helpers resource/helpers.go (requests), pkg/apis/core/v1/defaults.go (defaults),
component-helpers and pkg/apis/core/v1/helper/qos (QoS class).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from webhook.codec import dumps, loads
from webhook.model.fields import NO_FIELDS, mapping, mappings
from webhook.model.limits import MAX_CONTAINERS, MAX_REQUESTS, MAX_RESOURCES
from webhook.model.resources import (
    CPU,
    MAX_AMOUNT,
    MEMORY,
    NO_RESOURCES,
    is_device,
    is_hugepages,
    largest_share,
    parse_list,
)
from webhook.records import record


class ContainerKind(IntEnum):
    """When a container runs: once before the apps, from its start to the pod's end, or as an app."""

    INIT = 0
    SIDECAR = 1
    APP = 2


@record
class Container:
    """One container. Missing requests are filled in from the limits. Amounts in engine units."""

    name: str
    kind: ContainerKind
    requests: Mapping[str, int]
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodLevelResources:
    """`spec.resources`: the requests of the whole pod; missing requests are filled in. Engine units."""

    requests: Mapping[str, int]
    limits: Mapping[str, int]


def parse_containers(spec: Mapping[str, Any]) -> tuple[Container, ...]:
    """Init containers and sidecars in start order, then the apps; raises UserError."""
    containers = []
    for index, raw in enumerate(mappings(spec, "initContainers", "spec.initContainers")):
        kind = ContainerKind.SIDECAR if raw.get("restartPolicy") == "Always" else ContainerKind.INIT
        containers.append(_container(raw, kind, f"spec.initContainers[{index}]"))
    for index, raw in enumerate(mappings(spec, "containers", "spec.containers")):
        containers.append(_container(raw, ContainerKind.APP, f"spec.containers[{index}]"))
    return tuple(containers)


def _container(raw: Mapping[str, Any], kind: ContainerKind, path: str) -> Container:
    resources = mapping(raw, "resources", f"{path}.resources")
    name = raw.get("name", "")
    if not resources:
        return Container(name, kind, NO_RESOURCES, NO_RESOURCES)
    limits = parse_list(resources.get("limits"), f"{path}.resources.limits")
    requests = parse_list(resources.get("requests"), f"{path}.resources.requests")
    # The API server fills in requests from limits before admission; a file on disk lacks them.
    if not limits.keys() <= requests.keys():
        requests = MappingProxyType({**limits, **requests})
    return Container(name, kind, requests, limits)


class QoS(StrEnum):
    """The quality-of-service class of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def pod_level_resources(spec: Mapping[str, Any], containers: Mapping[str, int]) -> PodLevelResources | None:
    """`spec.resources` with the API server's defaults; None if it names nothing relevant; raises UserError.

    `containers`: the sum of the containers' requests. If the pod has limits, a missing request becomes the containers'
    sum (except for huge pages, which cannot be overcommitted), else the limit.
    """
    raw = mapping(spec, "resources", "spec.resources")
    if not raw:
        return None
    requests = parse_list(raw.get("requests"), "spec.resources.requests")
    limits = parse_list(raw.get("limits"), "spec.resources.limits")
    if not any(map(_counts_at_pod_level, (*requests, *limits))):
        return None
    if not limits:
        return PodLevelResources(requests, limits)
    completed = {name: limit for name, limit in limits.items() if _counts_at_pod_level(name)}
    completed.update((name, total) for name, total in containers.items() if name in {CPU, MEMORY})
    completed.update(requests)
    return PodLevelResources(MappingProxyType(completed), limits)


def container_requests(containers: Iterable[Container]) -> Mapping[str, int]:
    """The most that the containers need at one time.

    1. Sidecars keep running beside the apps: sum of apps and sidecars.
    2. An init container runs beside the sidecars that were started before it.
    3. Per resource the larger of the two.
    """
    containers = tuple(containers)
    if len(containers) == 1:
        return containers[0].requests
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in containers:
        if container.kind is not ContainerKind.INIT:
            _add(running, container.requests)
        if container.kind is ContainerKind.SIDECAR:
            _add(sidecars, container.requests)
        elif container.kind is ContainerKind.INIT:
            for name, requested in container.requests.items():
                peak[name] = max(peak.get(name, 0), requested + sidecars.get(name, 0))
    for name, requested in peak.items():
        running[name] = max(running.get(name, 0), requested)
    return MappingProxyType(running)


def effective_requests(
    containers: Mapping[str, int], pod_level: PodLevelResources | None, overhead: Mapping[str, int]
) -> Mapping[str, int]:
    """What the scheduler counts for the pod on a node, in engine units, each at most MAX_AMOUNT.

    `containers`: the sum of the containers' requests. Pod-level requests replace it for cpu, memory and huge pages.
    The runtime's overhead is added.
    """
    if pod_level is None and not overhead:
        return containers
    total = dict(containers)
    if pod_level is not None:
        total |= {name: amount for name, amount in pod_level.requests.items() if _counts_at_pod_level(name)}
    _add(total, overhead)
    return MappingProxyType(total)


def qos_class(containers: Sequence[Container], pod_level: PodLevelResources | None) -> QoS:
    """The QoS class, from cpu and memory of all containers, or of pod-level resources alone if they are set."""
    parts: Sequence[Container | PodLevelResources] = containers if pod_level is None else (pod_level,)
    guaranteed = True
    any_set = False
    requested = limited = (0, 0)
    for part in parts:
        cpu, memory = part.requests.get(CPU, 0), part.requests.get(MEMORY, 0)
        cpu_limit, memory_limit = part.limits.get(CPU, 0), part.limits.get(MEMORY, 0)
        any_set = any_set or bool(cpu or memory or cpu_limit or memory_limit)
        guaranteed = guaranteed and cpu_limit > 0 and memory_limit > 0
        requested = (requested[0] + cpu, requested[1] + memory)
        limited = (limited[0] + cpu_limit, limited[1] + memory_limit)
    if not any_set:
        return QoS.BEST_EFFORT
    return QoS.GUARANTEED if guaranteed and requested == limited else QoS.BURSTABLE


def _counts_at_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or is_hugepages(name)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)


def held_requests(containers: tuple[Container, ...], status: Mapping[str, Any]) -> Mapping[str, int]:
    """The sum of the containers' requests as the scheduler counts it for a bound pod; raises UserError.

    An in-place resize has three numbers: requested (spec), allocated by the kubelet, and in effect. Until they agree
    the pod holds the largest. A resize that the kubelet calls infeasible does not count. Source: kubernetes
    component-helpers resource/helpers.go (AggregateContainerRequests with UseStatusResources).
    """
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
