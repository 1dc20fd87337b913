"""The requests of a whole pod, and its QoS class.

Source: kubernetes component-helpers resource/helpers.go (requests), pkg/apis/core/v1/defaults.go (defaults),
component-helpers and pkg/apis/core/v1/helper/qos (QoS class).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from webhook.formats.kubernetes.containers import Container, ContainerKind, PodLevelResources
from webhook.model.fields import mapping
from webhook.model.resources import CPU, MAX_AMOUNT, MEMORY, is_hugepages, parse_list


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
