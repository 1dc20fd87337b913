"""A pod's scheduling gates."""

from collections.abc import Mapping
from typing import Any

from webhook.model.names import PLACEMENT_GATE


def waits_for_us_alone(raw: Mapping[str, Any]) -> bool:
    """Whether our gate is the pod's only one. A pod with another gate needs no assignment yet."""
    return gates_of(raw) == [PLACEMENT_GATE]


def has_gate(raw: Mapping[str, Any]) -> bool:
    """Whether the pod has our gate."""
    return PLACEMENT_GATE in gates_of(raw)


def is_gated(raw: Mapping[str, Any]) -> bool:
    """Whether any gate holds the pod back."""
    return bool((raw.get("spec") or {}).get("schedulingGates"))


def gates_of(raw: Mapping[str, Any]) -> list[str]:
    """The names of a pod's scheduling gates, in order."""
    return [gate.get("name", "") for gate in (raw.get("spec") or {}).get("schedulingGates") or ()]
