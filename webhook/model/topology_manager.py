"""How a node's kubelet aligns pods to NUMA nodes, as its NodeResourceTopology reports it.

Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig (precedence, limits),
k8stopologyawareschedwg/podfingerprint (methods).
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from webhook.model import names
from webhook.model.policy import NUMAPolicy, Scope, read_policy, read_policy_as_plugin, read_scope
from webhook.model.quoted import quoted

DEFAULT_MAX_NUMA_NODES: Final = 8
"""The kubelet's own default of max-allowable-numa-nodes."""
MAX_NUMA_NODES: Final = 1024
"""The most NUMA nodes that Linux supports (CONFIG_NODES_SHIFT=10); upstream has the same limit."""


_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class FingerprintMethod(StrEnum):
    """Which pods of a node an exporter's pod fingerprint counts."""

    ALL = "all"
    WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"
    """Pods with exclusive CPUs, NUMA memory or NUMA devices: resource-topology-exporter's default."""
    EXCLUDE_TERMINAL = "exclude-terminal"


class PluginConfig(NamedTuple):
    """Policy and scope as the plugin NodeResourceTopologyMatch reads them: only exact spellings count."""

    policy: NUMAPolicy = NUMAPolicy.NONE
    scope: Scope = Scope.CONTAINER

    @classmethod
    def read(cls, policies: object, attributes: Iterable[Mapping[str, Any]]) -> "PluginConfig":
        """Read `topologyPolicies` and the top-level attributes."""
        first = policies[0] if isinstance(policies, list) and policies else None
        policy, scope = (read_policy_as_plugin(first) if isinstance(first, str) else None) or cls()
        for attribute in attributes:
            name, value = attribute.get("name"), attribute.get("value")
            if not isinstance(value, str):
                continue
            if name == names.ATTRIBUTE_POLICY:
                found = NUMAPolicy.from_kubelet(value)
                policy = policy if found is None else found
            elif name == names.ATTRIBUTE_SCOPE:
                given = Scope.from_kubelet(value)
                scope = scope if given is None else given
        return cls(policy, scope)


class TopologyManagerConfig:
    """The topology manager's configuration, read field by field; of duplicates the last valid one wins.

    1. Defaults. 2. The first of `topologyPolicies` (deprecated). 3. The top-level attributes in their order.

    An unreadable policy must not count as none, which admits every pod. It is `unknown_policy`, even if the other
    source names a policy: that one is older, or says None because its publisher has no name for the policy.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.policy = NUMAPolicy.NONE
        self.unknown_policy = ""
        """The field with an unreadable policy, and its value; empty if it is readable. `policy` is then NONE."""
        self.scope = Scope.CONTAINER
        self.max_numa_nodes = DEFAULT_MAX_NUMA_NODES
        self.prefer_closest = False
        self.fingerprint: str | None = None
        self.fingerprint_method = FingerprintMethod.ALL
        self._in_attributes = False

    def read_topology_policies(self, policies: object) -> None:
        """Apply the first entry of the deprecated list."""
        if isinstance(policies, list) and policies:
            self._read_policy("topologyPolicies[0]", policies[0])

    def read_attributes(self, attributes: Iterable[Mapping[str, Any]]) -> None:
        """Apply the top-level attributes in their order."""
        for attribute in attributes:
            name, value = attribute.get("name"), attribute.get("value")
            if name == names.ATTRIBUTE_POLICY:
                if self._read_policy(names.ATTRIBUTE_POLICY, value, known=self._in_attributes):
                    self._in_attributes = True
            elif not self._read(name, str(value)):
                self.problems.append(f"attribute {name} is ignored: its value {quoted(str(value))} is not valid")

    def _read_policy(self, source: str, value: object, *, known: bool = False) -> bool:
        """Whether the value names a policy, which is then applied. known: the same source has named one before."""
        if value is None or value == "":
            return False  # exporters copy a kubelet's file, which may omit it
        found = read_policy(value) if isinstance(value, str) else None
        if found is not None:
            self.policy, scope = found
            self.scope = self.scope if scope is None else scope
            self.unknown_policy = ""
            return True
        text = f"{source} {quoted(value)}"
        if known:
            self.problems.append(f"{text} is ignored: no known policy")
        else:
            self.policy, self.unknown_policy = NUMAPolicy.NONE, text
            self.problems.append(f"{text} is no known policy: pods that its kubelet might reject stay away")
        return False

    def _read(self, name: object, value: str) -> bool:
        """Whether the attribute was read, or is not one of ours."""
        match name:
            case names.ATTRIBUTE_SCOPE:
                if (scope := read_scope(value)) is None:
                    return False
                self.scope = scope
            case names.ATTRIBUTE_MAX_NUMA_NODES:
                # Upstream's score divides by it, so its minimum there is 2.
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
