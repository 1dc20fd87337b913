"""The operator's settings for decisions: which pods are managed, and how nodes are filtered and ranked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal


class Manage(StrEnum):
    """The setting `manage`: which pods are assigned, checked at binding, and counted.

    The namespace label has the same values in lower case.
    """

    ANNOTATED = "Annotated"
    """Pods with a request in their own annotations or their owners'."""
    ALIGNED = "Aligned"
    """Also pods that a kubelet aligns: exclusive CPUs, memory, huge pages, devices of NUMA nodes."""
    ALL = "All"

    @property
    def label(self) -> str:
        """The value of the label `topology-webhook.dev/manage`."""
        return self.value.lower()


BY_LABEL: Final = {manage.label: manage for manage in Manage}


Fidelity = Literal["Kubelet", "Plugin"]
ScoreStrategy = Literal["Packing", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]


class GangStrategy(StrEnum):
    """How to choose among several domains that fit a gang."""

    BIN_PACK = "BinPack"
    """The fewest subdomains and nodes; then the most preferred; then the tightest."""
    SPREAD = "Spread"
    """The most preferred; then the one with the most free capacity."""
    BALANCED = "Balanced"
    """Where the pods can be shared most evenly over the fewest subdomains; then as with BinPack."""
    NEAREST = "Nearest"
    """If no domain of the preferred level holds them, the one that holds most, then the nearest; else as BinPack."""


class Unenforced(StrEnum):
    """What happens on nodes that do not enforce the NUMA policy that a pod asks for."""

    ALLOW = "Allow"
    """They count like all others."""
    LAST = "Last"
    """A pod goes there only while no node that enforces its policy fits."""
    DENY = "Deny"
    """No pod with such a policy goes there."""


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
    """Share of the preferred node affinity and soft taints in a score, in percent; 0: only to break ties."""
    gang_strategy: GangStrategy = GangStrategy.BIN_PACK
    """How gangs choose a domain."""
