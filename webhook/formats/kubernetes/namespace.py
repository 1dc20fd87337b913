"""The settings of a namespace: which pods are managed, and the defaults for pods without annotations.

1. The label `topology-webhook.dev/manage` overrides the setting `manage`. An unknown value counts as no label.
2. The NUMA annotations, named and written as on a pod, are defaults for the managed pods. A fault in them is
   reported on the pods that need them: see `webhook.state.management`.

Both are read when a pod is created. They are written into the pod, so a later change affects new pods only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.formats.koordinator.intent import NO_SPEC, NUMASpec, parse_numa_spec
from webhook.model.errors import UserError, sentences
from webhook.model.fields import NO_FIELDS
from webhook.model.names import MANAGE_LABEL
from webhook.model.options import BY_LABEL, Manage
from webhook.model.wording import did_you_mean, quoted

# Each of them quotes text of the user, for every pod of the namespace.
_MOST_WARNINGS: Final = 5


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace."""

    name: str
    manage: Manage | None = None
    """None: the setting applies."""
    defaults: NUMASpec = NO_SPEC
    fault: str = ""
    """Why its annotations cannot be read; one sentence or more."""
    warnings: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """All faults, for the log."""
        return (self.fault, *self.warnings) if self.fault else self.warnings

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "Namespace":
        """Read a Namespace object."""
        metadata: Mapping[str, Any] = raw["metadata"]
        name = metadata.get("name") or ""
        manage, warnings = _manage(name, metadata.get("labels") or NO_FIELDS)
        annotations = metadata.get("annotations") or NO_FIELDS
        try:
            defaults, odd = parse_numa_spec(annotations, f"namespace {name}: metadata.annotations")
        except UserError as error:
            return cls(name, manage, NO_SPEC, sentences(error.faults), warnings)
        return cls(name, manage, defaults, "", (*warnings, *odd)[:_MOST_WARNINGS])


def _manage(name: str, labels: Mapping[str, Any]) -> tuple[Manage | None, tuple[str, ...]]:
    if MANAGE_LABEL not in labels:
        return None, ()
    value = labels[MANAGE_LABEL]
    known = BY_LABEL.get(value) if isinstance(value, str) else None
    if known is not None:
        return known, ()
    meant = did_you_mean(value, BY_LABEL) if isinstance(value, str) else ""
    warning = (
        f"namespace {name}: metadata.labels[{MANAGE_LABEL}]: {quoted(value)} is unknown, so the setting manage "
        f"applies. Allowed are {', '.join(BY_LABEL)}.{meant}"
    )
    return None, (warning,)
