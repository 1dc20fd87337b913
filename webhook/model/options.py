"""How nodes are judged and ranked: what an operator may choose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

Fidelity = Literal["Kubelet", "Plugin"]
ScoreStrategy = Literal["Packing", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]


class GangStrategy(StrEnum):
    """Which of several domains that hold a group is chosen."""

    BIN_PACK = "BinPack"
    """Where the fewest domains below and the fewest nodes are needed; then the most preferred; then the tightest."""
    SPREAD = "Spread"
    """The most preferred; then the one with most room."""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a decision."""

    fidelity: Fidelity = "Kubelet"
    """`kubelet` predicts the node's own admission; `plugin` repeats scheduler-plugins' NodeResourceTopologyMatch."""
    score_strategy: ScoreStrategy = "Packing"
    """`Packing` is Koordinator's: few NUMA nodes, the fuller ones first. The others are the plugin's."""
    resource_weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Weight of each resource in the plugin's scores; a resource that is not named weighs 1."""
    preference_weight: int = 0
    """Share of the preferred node affinity and soft taints in a score, in percent; 0: between equal scores only."""
    gang_strategy: GangStrategy = GangStrategy.BIN_PACK
    """Where groups go."""
