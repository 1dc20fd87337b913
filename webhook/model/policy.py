"""NUMA policies: what a node's kubelet enforces, what a pod may ask for, and which of them go together.

Source: kubernetes pkg/kubelet/cm/topologymanager (policies, scopes), noderesourcetopology-api (the nine names in
topologyPolicies), koordinator apis/extension/numa_aware.go (the names on pods and on the node label).
"""

from enum import IntEnum, StrEnum
from typing import Final


class NUMAPolicy(IntEnum):
    """A NUMA topology policy, from loose to strict."""

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE_NUMA_NODE = 3

    @property
    def kubelet(self) -> str:
        """The kubelet's spelling, such as single-numa-node."""
        return _KUBELET_NAMES[self]

    @property
    def koordinator(self) -> str:
        """Koordinator's spelling, such as SingleNUMANode; empty for none."""
        return _KOORDINATOR_NAMES[self]

    @classmethod
    def from_kubelet(cls, name: str) -> "NUMAPolicy | None":
        """The policy of a kubelet's spelling; None for anything else."""
        return _BY_KUBELET_NAME.get(name)

    @classmethod
    def from_koordinator(cls, name: str) -> "NUMAPolicy | None":
        """The policy of Koordinator's spelling (empty: NONE); None for anything else, `None` included.

        Koordinator's documents let a node say `None`, but not a pod.
        """
        return _BY_KOORDINATOR_NAME.get(name)


class Scope(IntEnum):
    """What the topology manager aligns as a whole: each container, or the pod."""

    CONTAINER = 0
    POD = 1

    @property
    def kubelet(self) -> str:
        """The kubelet's spelling."""
        return self.name.lower()

    @classmethod
    def from_kubelet(cls, name: str) -> "Scope | None":
        """The scope of a kubelet's spelling; None for anything else."""
        return _BY_SCOPE_NAME.get(name)


class Exclusive(StrEnum):
    """Whether pods on one NUMA node and pods across several may share a NUMA node (singleNUMANodeExclusive)."""

    PREFERRED = "Preferred"
    REQUIRED = "Required"


_KUBELET_NAMES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_KOORDINATOR_NAMES: Final = ("", "BestEffort", "Restricted", "SingleNUMANode")
_BY_KUBELET_NAME: Final = {name: NUMAPolicy(index) for index, name in enumerate(_KUBELET_NAMES)}
_BY_KOORDINATOR_NAME: Final = {name: NUMAPolicy(index) for index, name in enumerate(_KOORDINATOR_NAMES)}
_BY_SCOPE_NAME: Final = {"container": Scope.CONTAINER, "pod": Scope.POD}

# A name without a level says nothing about the scope: it keeps the default.
TOPOLOGY_POLICIES: Final[dict[str, tuple[NUMAPolicy, Scope]]] = {
    "None": (NUMAPolicy.NONE, Scope.CONTAINER),
    "BestEffort": (NUMAPolicy.BEST_EFFORT, Scope.CONTAINER),
    "BestEffortContainerLevel": (NUMAPolicy.BEST_EFFORT, Scope.CONTAINER),
    "BestEffortPodLevel": (NUMAPolicy.BEST_EFFORT, Scope.POD),
    "Restricted": (NUMAPolicy.RESTRICTED, Scope.CONTAINER),
    "RestrictedContainerLevel": (NUMAPolicy.RESTRICTED, Scope.CONTAINER),
    "RestrictedPodLevel": (NUMAPolicy.RESTRICTED, Scope.POD),
    "SingleNUMANodeContainerLevel": (NUMAPolicy.SINGLE_NUMA_NODE, Scope.CONTAINER),
    "SingleNUMANodePodLevel": (NUMAPolicy.SINGLE_NUMA_NODE, Scope.POD),
}


def compatible(pod: NUMAPolicy | None, node: NUMAPolicy) -> bool:
    """Whether a pod that asks for `pod` may run on a node whose own policy is `node`.

    A pod without a policy goes anywhere, a node without one takes every pod; otherwise the two must be equal.
    """
    return not pod or node is NUMAPolicy.NONE or pod is node


def effective(pod: NUMAPolicy | None, node: NUMAPolicy) -> NUMAPolicy:
    """The policy that holds for the pod on the node: the pod's own if it has one, else the node's."""
    return pod or node
