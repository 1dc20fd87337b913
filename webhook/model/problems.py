"""What could not be used of a cluster's object, kept short: nodes and their exporters may write 1.5 MiB of it."""

from collections.abc import Sequence
from typing import Final

MAX_TAINTS: Final = 64
"""Taints of a node that are read. Clusters in use have a handful on a node."""
MAX_NODE_RESOURCES: Final = 512
"""Resources of a node, or of one of its NUMA nodes, that are read. Machines in use have a few dozen."""
MAX_ZONES: Final = 16
"""NUMA nodes of a node that are read: the kubelet's own limit is 8 unless raised, and it tries all 2^n sets of them."""

_TOLD: Final = 10
_LONGEST: Final = 300


def told(problems: Sequence[str]) -> tuple[str, ...]:
    """The first ones, each cut where it is long, and how many more there are."""
    shown = [one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…" for one in problems[:_TOLD]]
    if len(problems) > _TOLD:
        shown.append(f"and {len(problems) - _TOLD} more")
    return tuple(shown)
