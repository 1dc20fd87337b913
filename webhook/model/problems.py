"""What could not be used of a cluster's object, kept short: nodes and exporters can write 1.5 MiB of it."""

from collections.abc import Sequence
from typing import Final

MAX_TAINTS: Final = 64
"""The most taints read from a node. Nodes in use have a handful."""
MAX_NODE_RESOURCES: Final = 512
"""The most resources read from a node or NUMA node. Machines in use have a few dozen."""
MAX_ZONES: Final = 16
"""The most NUMA nodes with CPUs, memory or devices that are read from a node: all 2^n sets of them are tried.

The kubelet's limit is 8 by default, and counts the others, too.
"""

_TOLD: Final = 10
_LONGEST: Final = 300


def told(problems: Sequence[str]) -> tuple[str, ...]:
    """The first problems, truncated if long, and how many more there are."""
    shown = [one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…" for one in problems[:_TOLD]]
    if len(problems) > _TOLD:
        shown.append(f"and {len(problems) - _TOLD} more")
    return tuple(shown)
