"""Rows for rare resources, created for one decision on a pod that names them (see `rare_resources`)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, read_only
from webhook.engine.snapshot.node_arrays import NodeArrays

_OF_ZONES: Final = ("available", "capacity", "zone_allocatable")


def with_rows(node_arrays: NodeArrays, names: Iterable[str]) -> NodeArrays:
    """The snapshot with a row for each of these resources that some node offers; unchanged if it has them all."""
    rare = tuple(
        name for name in dict.fromkeys(names) if name in node_arrays.rare and name not in node_arrays.resources
    )
    if not rare:
        return node_arrays
    z, n = node_arrays.zone_ids.shape
    zones = {field: np.full((len(rare), z, n), UNLISTED, dtype=np.int64) for field in _OF_ZONES}
    allocatable = np.full((len(rare), n), UNLISTED, dtype=np.int64)
    requested = np.zeros((len(rare), n), dtype=np.int64)
    for row, resource in enumerate(rare):
        for name, amounts in node_arrays.rare[resource].items():
            node = node_arrays.index.get(name)
            if node is not None:
                for field in _OF_ZONES:
                    column = getattr(amounts, field)
                    zones[field][row, : len(column), node] = column
                allocatable[row, node] = amounts.allocatable
                requested[row, node] = amounts.requested
    return _extended(node_arrays, rare, zones, allocatable, requested)


def with_node_rows(node_arrays: NodeArrays, amounts: Mapping[str, Amounts]) -> NodeArrays:
    """The snapshot with a row for each of these, of which nodes have so much and their NUMA nodes nothing.

    amounts: int64 [node].
    """
    z, n = node_arrays.zone_ids.shape
    zones = {field: np.full((len(amounts), z, n), UNLISTED, dtype=np.int64) for field in _OF_ZONES}
    allocatable = np.array(list(amounts.values()), dtype=np.int64)
    return _extended(node_arrays, tuple(amounts), zones, allocatable, np.zeros_like(allocatable))


def _extended(
    node_arrays: NodeArrays,
    names: Iterable[str],
    zones: Mapping[str, Amounts],
    allocatable: Amounts,
    requested: Amounts,
) -> NodeArrays:
    more: dict[str, Any] = {
        **zones,
        "listed": (zones["zone_allocatable"] > UNLISTED).any(axis=1),
        "allocatable": allocatable,
        "requested": requested,
        "node_free": np.maximum(allocatable, 0) - requested,
    }
    arrays: dict[str, Any] = {
        field: read_only(np.concatenate([getattr(node_arrays, field), rows])) for field, rows in more.items()
    }
    return replace(node_arrays, resources=node_arrays.resources.with_names(names), **arrays)
