"""Taints and tolerations: which sets of taints exclude a pod.

Source: kubernetes staging/src/k8s.io/api/core/v1/toleration.go, scheduler plugins tainttoleration,
nodeunschedulable.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from webhook.formats.kubernetes.node import Taint

CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that a pod must tolerate to run on a cordoned node."""
NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
"""The taint that a pod must tolerate to run on a node that is not ready."""


class Tolerations:
    """A pod's tolerations, indexed by what they cover, so that the time for a taint does not depend on their number."""

    __slots__ = ("_reported",)

    def __init__(self, raws: Iterable[Mapping[str, Any]]) -> None:
        # (key, effect, value); an empty effect covers every effect, an empty key every key, Exists every value.
        self._reported: set[tuple[str | None, str | None, str | None]] = set()
        for raw in raws:
            operator = raw.get("operator") or "Equal"
            if operator in {"Exists", "Equal"}:
                value = None if operator == "Exists" else raw.get("value") or ""
                self._reported.add((raw.get("key") or None, raw.get("effect") or None, value))

    def cover(self, taint: Taint) -> bool:
        """Whether any of them covers the taint."""
        return bool(self._reported) and any(
            (key, effect, value) in self._reported
            for key in (taint.key, None)
            for effect in (taint.effect, None)
            for value in (taint.value, None)
        )

    def first_uncovered(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that no toleration covers."""
        return next((taint for taint in taints if not self.cover(taint)), None)


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return Tolerations(tolerations).cover(taint)


def untolerated(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that no toleration covers."""
    return Tolerations(tolerations).first_uncovered(taints)
