"""Hints by NUMA id for one machine at a time, on top of the engine's merge."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webhook.engine.kubelet.hints import Hints, merge
from webhook.model.policy import NUMAPolicy

if TYPE_CHECKING:
    from webhook.engine.arrays import Bools


class Hint(NamedTuple):
    """NUMA ids, ascending, None = any; and whether they are preferred."""

    mask: tuple[int, ...] | None
    preferred: bool


def merge_hints(
    policy: NUMAPolicy,
    nodes: Sequence[int],
    providers: Sequence[Mapping[str, Sequence[Hint] | None]],
    distances: Mapping[int, Sequence[int]] | Sequence[Sequence[int]] | None = None,
) -> tuple[Hint, bool]:
    """The merged hint and whether the policy admits it. distances: NUMA id -> row by NUMA id."""
    if policy is NUMAPolicy.NONE:
        return Hint(None, preferred=False), True
    positions = {node: position for position, node in enumerate(nodes)}
    lists = [_as_arrays(hints, positions) for provider in providers for hints in (provider or {"": None}).values()]
    whole = (1 << len(nodes)) - 1
    table = None
    if distances is not None:
        table = np.array([[distances[left][right] for right in nodes] for left in nodes], dtype=np.int16)[:, :, None]
    merged = merge(lists, policy, np.array([whole]), table)
    mask, preferred = int(merged.mask[0]), bool(merged.preferred[0])
    anywhere = policy is NUMAPolicy.SINGLE_NUMA_NODE and mask == whole
    chosen = None if anywhere else tuple(node for node in nodes if mask >> positions[node] & 1)
    return Hint(chosen, preferred), bool(merged.admitted(policy)[0])


def _as_arrays(hints: Sequence[Hint] | None, positions: Mapping[int, int]) -> Hints:
    """None: no preference. Empty: cannot be satisfied."""
    if not hints:
        hints = [Hint(None, preferred=hints is None)]
    named: dict[bool, Bools] = {kind: np.zeros((1 << len(positions), 1), dtype=np.bool_) for kind in (True, False)}
    anywhere: dict[bool, Bools] = {kind: np.zeros(1, dtype=np.bool_) for kind in (True, False)}
    for hint in hints:
        if hint.mask is None:
            anywhere[hint.preferred][0] = True
        else:
            named[hint.preferred][sum(1 << positions[node] for node in hint.mask), 0] = True
    return Hints(named[True], named[False], anywhere[True], anywhere[False])
