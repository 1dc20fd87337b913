"""Pods that their kubelets rejected because of NUMA nodes, CPUs, memory or devices: what the placement should prevent.

A kubelet sets the phase Failed and one of two reasons, and never changes them again. A pod counts when it is seen to be
rejected. One that was rejected before we knew it, and comes with a list, does not: an earlier process may have counted
it.

Source: kubernetes pkg/kubelet/cm/topologymanager (ErrorTopologyAffinity) and pkg/kubelet/lifecycle
(UnexpectedAdmissionError).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.signal import Signal


class RejectionReason(StrEnum):
    """The kubelet's reason."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    """The Topology Manager found no NUMA nodes that its policy allows."""
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    """A manager failed to allocate, such as CPUs that are no longer free."""


_REASONS: Mapping[str, RejectionReason] = {reason.value: reason for reason in RejectionReason}


@dataclass(frozen=True, slots=True)
class KubeletRejection:
    """One rejected pod. managed: whether the service decides about it."""

    reason: RejectionReason
    managed: bool


def rejection_reason(raw: Mapping[str, Any]) -> RejectionReason | None:
    """Why a kubelet rejected the pod; None if none did."""
    status = raw.get("status") or {}
    if status.get("phase") != "Failed":
        return None
    reason = status.get("reason")
    return _REASONS.get(reason) if isinstance(reason, str) else None


class KubeletRejections:
    """The rejected pods of the cluster, each announced once."""

    def __init__(self) -> None:
        self.seen = Signal[[KubeletRejection]]()
        """Emitted for each pod that was rejected since we know the cluster."""
        self._known: dict[str, str] = {}

    def put(self, key: str, uid: str, rejection: KubeletRejection | None, *, is_news: bool) -> None:
        """Take a new or changed pod. is_news: whether the pod was known before, or comes from a watch."""
        if rejection is None:
            self._known.pop(key, None)
        elif self._known.get(key) != uid:
            self._known[key] = uid
            if is_news:
                self.seen.emit(rejection)

    def drop(self, key: str) -> None:
        """Take the deletion of a pod."""
        self._known.pop(key, None)
