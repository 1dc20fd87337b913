"""A pod as the plugin reads it: a list of requests, each aligned by itself.

Scope "container": every init container, then every app container. Scope "pod": one request, per resource the larger of
the largest init container and the sum of the apps, plus the overhead; sidecars count as ordinary init containers.
Source: scheduler-plugins pkg/util/resource.go, pkg/noderesourcetopology/filter.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, Bools, Nodes, every
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import ContainerKind
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


def by_scope(node_arrays: NodeArrays, included: Bools, nodes: Nodes) -> Iterator[tuple[Scope, slice | Nodes]]:
    """Groups of nodes (indexes) with one scope: where they are in `nodes`. included: bool [N]: others are left out.

    Where all nodes decide equally, as in most clusters, the group is a slice: no index is needed.
    """
    scopes = node_arrays.plugin_scope
    if len(nodes) and every(included) and every(scopes == scopes[0]):
        yield Scope(int(scopes[0])), slice(None)
        return
    for scope in Scope:
        (where,) = (included & (scopes == scope)).take(nodes).nonzero()
        if len(where):
            yield scope, where


def published(snapshot: Snapshot, row: int) -> Amounts:
    """int64 [zone, node]: what is free, as published: the plugin does not infer a kubelet's managers."""
    plane, node_arrays = snapshot.free(row), snapshot.node_arrays
    if every(node_arrays.listed[row]):
        return plane
    return np.where(node_arrays.capacity[row] == UNLISTED, plane, np.maximum(plane, 0))


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
