"""The condition `topology-webhook.dev/Placed` in a pod's status, for `kubectl wait` and for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from webhook.model.names import PLACED

# Of conditions in general. Source: kubernetes apimachinery pkg/apis/meta/v1 (Condition).
_LONGEST_MESSAGE: Final = 32_768


@dataclass(frozen=True, slots=True)
class PlacedCondition:
    """What the condition says."""

    status: Literal["True", "False"]
    reason: str
    message: str

    @classmethod
    def of(cls, status: Literal["True", "False"], reason: str, text: str) -> "PlacedCondition":
        """The condition with the placement text as its message, truncated to the limit of a condition."""
        return cls(status, reason, text[:_LONGEST_MESSAGE])

    def to_object(self, since: str) -> dict[str, str]:
        """The entry of `status.conditions`. since: when the status became what it is, as a timestamp."""
        return {
            "type": PLACED,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
        }

    def is_said(self, raw: Mapping[str, Any]) -> bool:
        """Whether the pod object has this condition."""
        found = placed_condition(raw)
        return (found.get("status"), found.get("reason"), found.get("message")) == (
            self.status,
            self.reason,
            self.message,
        )


def placed_condition(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition in a pod object; empty if it has none."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == PLACED), {})
