"""How a node's kubelet aligns pods to NUMA nodes, as far as its NodeResourceTopology says.

Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig (precedence, limits),
k8stopologyawareschedwg/podfingerprint (methods).
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from webhook.model import names
from webhook.model.policy import TOPOLOGY_POLICIES, NUMAPolicy, Scope
from webhook.model.quoted import quoted

DEFAULT_MAX_NUMA_NODES: Final = 8
"""The kubelet's own default of max-allowable-numa-nodes."""
MAX_NUMA_NODES: Final = 1024
"""The largest number of NUMA nodes Linux is built with (CONFIG_NODES_SHIFT=10); upstream caps there too."""


_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class FingerprintMethod(StrEnum):
    """Which pods of a node an exporter's pod fingerprint counts."""

    ALL = "all"
    WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"
    """Pods with exclusive CPUs, memory of a NUMA node, or devices of one: resource-topology-exporter's default."""
    EXCLUDE_TERMINAL = "exclude-terminal"


class TopologyManagerConfig:
    """The topology manager's configuration, read field by field; of duplicates the last valid one wins.

    1. Defaults. 2. The first of `topologyPolicies` (deprecated). 3. The top-level attributes in their order.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.policy = NUMAPolicy.NONE
        self.scope = Scope.CONTAINER
        self.max_numa_nodes = DEFAULT_MAX_NUMA_NODES
        self.prefer_closest = False
        self.fingerprint: str | None = None
        self.fingerprint_method = FingerprintMethod.ALL

    def read_topology_policies(self, policies: object) -> None:
        """Take over the first of the deprecated list."""
        if not isinstance(policies, list) or not policies:
            return
        first = str(policies[0])
        if first in TOPOLOGY_POLICIES:
            self.policy, self.scope = TOPOLOGY_POLICIES[first]
        else:
            self.problems.append(
                f"topologyPolicies[0] {quoted(first)} is ignored: none of {', '.join(TOPOLOGY_POLICIES)}"
            )

    def read_attributes(self, attributes: Iterable[Mapping[str, Any]]) -> None:
        """Take over the top-level attributes in their order."""
        for attribute in attributes:
            name, value = attribute.get("name"), str(attribute.get("value"))
            if not self._read(name, value):
                self.problems.append(f"attribute {name} is ignored: its value {quoted(value)} is not valid")

    def _read(self, name: object, value: str) -> bool:
        """Whether the attribute is unknown, and so none of ours, or could be read."""
        match name:
            case names.ATTRIBUTE_POLICY:
                if (policy := NUMAPolicy.from_kubelet(value)) is None:
                    return False
                self.policy = policy
            case names.ATTRIBUTE_SCOPE:
                if (scope := Scope.from_kubelet(value)) is None:
                    return False
                self.scope = scope
            case names.ATTRIBUTE_MAX_NUMA_NODES:
                # Upstream's score divides by it and takes 2 as the least.
                if not _INTEGER.fullmatch(value) or (limit := int(value)) < 2:
                    return False
                self.max_numa_nodes = min(limit, MAX_NUMA_NODES)
            case names.ATTRIBUTE_POLICY_OPTIONS:
                self.prefer_closest = "prefer-closest-numa-nodes=true" in value.replace(" ", "").split(",")
            case names.ATTRIBUTE_PODS_FINGERPRINT:
                self.fingerprint = value
            case names.ATTRIBUTE_PODS_FINGERPRINT_METHOD:
                if value not in set(FingerprintMethod):
                    return False
                self.fingerprint_method = FingerprintMethod(value)
        return True
