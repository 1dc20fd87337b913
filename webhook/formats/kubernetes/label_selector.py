"""Label selectors, as PodDisruptionBudgets have them.

Source: k8s.io/apimachinery pkg/apis/meta/v1/helpers.go (LabelSelectorAsSelector).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings
from webhook.model.wording import quoted

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one label."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A selector: all requirements must be met. Without any, it matches everything."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def from_object(cls, raw: Mapping[str, Any], path: str) -> "LabelSelector":
        """Read `matchLabels` and `matchExpressions`; raises UserError."""
        labels = mapping(raw, "matchLabels", f"{path}.matchLabels")
        found = [Requirement(key, "In", frozenset({str(value)})) for key, value in labels.items()]
        for index, entry in enumerate(mappings(raw, "matchExpressions", f"{path}.matchExpressions")):
            operator = entry.get("operator")
            if operator not in OPERATORS:
                place = f"{path}.matchExpressions[{index}].operator"
                raise UserError(place, f"This must be one of {', '.join(OPERATORS)}, not {quoted(operator)}.")
            listed = entry.get("values") or ()
            if not isinstance(listed, list | tuple):
                raise UserError(
                    f"{path}.matchExpressions[{index}].values", f"This must be a list, not {quoted(listed)}."
                )
            values = frozenset(map(str, listed))
            found.append(Requirement(str(entry.get("key")), operator, values))
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)
