"""The containers of a pod: when each runs and what it requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from webhook.model.fields import mapping, mappings
from webhook.model.resources import NO_RESOURCES, parse_list
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
