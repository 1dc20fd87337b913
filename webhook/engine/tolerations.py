"""Taints and tolerations: which sets of taints keep a pod away.

Source: kubernetes staging/src/k8s.io/api/core/v1/toleration.go, scheduler plugins tainttoleration, nodeunschedulable.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from webhook.model.node import Taint

CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What a pod has to tolerate to be placed on a cordoned node."""
NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
"""What a pod has to tolerate to be placed on a node that is not ready."""


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that none of the tolerations covers."""
    return next((taint for taint in taints if not tolerates(tolerations, taint)), None)


def _covers(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """An empty effect covers every effect, an empty key (with Exists) every key."""
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and (toleration.get("value") or "") == taint.value)
