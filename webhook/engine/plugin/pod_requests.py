"""A pod as the plugin reads it: a list of requests, each aligned by itself.

Scope "container": every init container, then every app container. Scope "pod": one request, per resource the larger of
the largest init container and the sum of the apps, plus the overhead; sidecars count as ordinary init containers.
Source: scheduler-plugins pkg/util/resource.go, pkg/noderesourcetopology/filter.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.engine.arrays import UNLISTED
from webhook.engine.request import PodRequest
from webhook.model.pod import ContainerKind
from webhook.model.policy import Scope


@dataclass(frozen=True, slots=True)
class Part:
    """One request that is aligned as a whole."""

    kind: ContainerKind
    amounts: Mapping[str, int]
    """Resource -> amount; a resource named with zero counts for some of the scores."""


def parts(request: PodRequest, scope: Scope) -> tuple[Part, ...]:
    """The requests to align under a scope, in order."""
    containers = tuple(
        Part(
            kind,
            {name: amount for name, amount in zip(request.resources, amounts, strict=True) if amount != UNLISTED},
        )
        for kind, amounts in zip(request.kinds, request.containers, strict=True)
    )
    return containers if scope is Scope.CONTAINER else (_together(request, containers),)


def _together(request: PodRequest, containers: tuple[Part, ...]) -> Part:
    total: dict[str, int] = {}
    for part in containers:
        if part.kind is ContainerKind.APP:
            for name, amount in part.amounts.items():
                total[name] = total.get(name, 0) + amount
    for part in containers:
        if part.kind is not ContainerKind.APP:
            for name, amount in part.amounts.items():
                total[name] = max(total.get(name, 0), amount)
    for name, amount in zip(request.resources, request.overhead, strict=True):
        if amount != UNLISTED:
            total[name] = total.get(name, 0) + amount
    return Part(ContainerKind.APP, total)
