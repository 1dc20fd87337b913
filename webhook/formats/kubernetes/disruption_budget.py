"""PodDisruptionBudgets: how many of the pods that one selects may be disrupted now.

As in the eviction API, an empty selector selects all pods of the namespace. For kube-scheduler's preemption it selects
none.

Source: k8s.io/api policy/v1 types.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.formats.kubernetes.label_selector import LabelSelector
from webhook.model.fields import mapping


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """One PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector | None
    """None: it selects no pod."""
    allowed: int
    """`status.disruptionsAllowed`; 0 until its controller has written it."""
    disrupted: frozenset[str]
    """Names of pods whose eviction is already counted."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "DisruptionBudget":
        """Read a PodDisruptionBudget; raises UserError."""
        metadata = mapping(raw, "metadata", "metadata")
        spec = mapping(raw, "spec", "spec")
        status = mapping(raw, "status", "status")
        selector = None
        if spec.get("selector") is not None:
            selector = LabelSelector.from_object(mapping(spec, "selector", "spec.selector"), "spec.selector")
        allowed = status.get("disruptionsAllowed")
        return cls(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            selector=selector,
            allowed=allowed if type(allowed) is int and allowed > 0 else 0,
            disrupted=frozenset(mapping(status, "disruptedPods", "status.disruptedPods")),
        )

    def covers(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the end of this pod counts."""
        if self.selector is None or namespace != self.namespace or name in self.disrupted:
            return False
        return self.selector.matches(labels)
