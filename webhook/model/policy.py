"""NUMA policies: what a node's kubelet enforces, what a pod may request, and which of them are compatible.

Source: kubernetes pkg/kubelet/cm/topologymanager (policies, scopes), noderesourcetopology-api (the nine names in
topologyPolicies), koordinator apis/extension/numa_aware.go (the names on pods and on the node label),
scheduler-plugins pkg/noderesourcetopology/nodeconfig (what the plugin reads).
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
        """The policy with this kubelet spelling; None for anything else."""
        return _BY_KUBELET_NAME.get(name)

    @classmethod
    def from_koordinator(cls, name: str) -> "NUMAPolicy | None":
        """The policy with this Koordinator spelling (empty: NONE); None for anything else, including the text `None`.

        Koordinator's documents allow `None` on a node, but not on a pod.
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
        """The scope with this kubelet spelling; None for anything else."""
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

# The scope that a name's suffix sets.
_LEVELS: Final = {"containerlevel": Scope.CONTAINER, "podlevel": Scope.POD}
_BY_PLAIN_NAME: Final = {name.replace("-", ""): policy for name, policy in _BY_KUBELET_NAME.items()}
_LONGEST_NAME: Final = 64
_BETWEEN_WORDS: Final = str.maketrans("", "", "-_ ")

# The plugin knows neither the bare names nor None; it ignores names that it does not know.
_PLUGIN_NAMES: Final[dict[str, tuple[NUMAPolicy, Scope]]] = {
    f"{_KOORDINATOR_NAMES[policy]}{level}Level": (policy, scope)
    for policy in (NUMAPolicy.BEST_EFFORT, NUMAPolicy.RESTRICTED, NUMAPolicy.SINGLE_NUMA_NODE)
    for level, scope in (("Container", Scope.CONTAINER), ("Pod", Scope.POD))
}


def read_policy(name: str) -> tuple[NUMAPolicy, Scope | None] | None:
    """The policy that a node publishes, and the scope from the name's suffix; None for anything else.

    Case, dashes and underscores are ignored: the API's constants (SingleNUMANodePodLevel), its example
    (SingleNUMANode), the plugin's KEP (SingleNumaNode), the kubelet's own spelling (single-numa-node) and those of
    provider APIs (SINGLE_NUMA_NODE) are all in use.
    """
    if len(name) > _LONGEST_NAME:
        return None
    plain = name.lower().translate(_BETWEEN_WORDS)
    for level, scope in _LEVELS.items():
        if plain.endswith(level):
            policy = _BY_PLAIN_NAME.get(plain.removesuffix(level))
            return None if policy is None else (policy, scope)
    policy = _BY_PLAIN_NAME.get(plain)
    return None if policy is None else (policy, None)


def read_policy_as_plugin(name: str) -> tuple[NUMAPolicy, Scope] | None:
    """How the scheduler plugin NodeResourceTopologyMatch reads a name in topologyPolicies; None if it ignores it."""
    return _PLUGIN_NAMES.get(name)


def read_scope(text: str) -> Scope | None:
    """The scope that a node publishes; None for anything else."""
    return _BY_SCOPE_NAME.get(text.strip().lower()) if len(text) <= _LONGEST_NAME else None


def compatible(pod: NUMAPolicy | None, node: NUMAPolicy) -> bool:
    """Whether a pod that requests the policy `pod` may run on a node with the policy `node`.

    A pod without a policy may run on any node, a node without one takes any pod. Otherwise the two must be equal.
    """
    return not pod or node is NUMAPolicy.NONE or pod is node
