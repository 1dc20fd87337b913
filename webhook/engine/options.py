"""How nodes are judged and ranked: what an operator may choose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Fidelity = Literal["kubelet", "plugin"]
ScoreStrategy = Literal["Packing", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
GroupStrategy = Literal["bin-pack", "spread"]


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a decision."""

    fidelity: Fidelity = "kubelet"
    """`kubelet` predicts the node's own admission; `plugin` repeats scheduler-plugins' NodeResourceTopologyMatch."""
    score_strategy: ScoreStrategy = "Packing"
    """`Packing` is Koordinator's: few NUMA nodes, the fuller ones first. The others are the plugin's."""
    resource_weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Weight of each resource in the plugin's scores; a resource that is not named weighs 1."""
    group_strategy: GroupStrategy = "bin-pack"
    """Which of several domains that hold a group is chosen: the tightest, or the one with most room."""
