"""Pods that their kubelets rejected because of NUMA nodes, CPUs, memory or devices: what the placement should prevent.

A kubelet sets the phase Failed and one of two reasons, and never changes them again. A pod counts when it is seen to be
rejected. One that comes with a list does not: an earlier process may have counted it.

Source: kubernetes pkg/kubelet/cm/topologymanager (ErrorTopologyAffinity) and pkg/kubelet/lifecycle
(UnexpectedAdmissionError).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.cache.feed import Feed
from webhook.cache.unmanaged import why_unmanaged
from webhook.model.rules import Rules
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


@dataclass(frozen=True, slots=True)
class _FailedPod:
    key: str
    uid: str
    rejection: KubeletRejection | None


class KubeletRejections:
    """The rejected pods of the cluster, each announced once. in_order: whether failed pods arrive as they fail."""

    def __init__(self, rules: Rules, in_order: Callable[[], bool]) -> None:
        self.seen = Signal[[KubeletRejection]]()
        """Emitted for each pod that was rejected since we know the cluster."""
        self.feed = Feed("Pod", self._read, self._put, self._drop)
        """Takes the failed pods."""
        self._rules = rules
        self._in_order = in_order
        self._known: dict[str, str] = {}

    def _read(self, raw: Mapping[str, Any]) -> _FailedPod:
        metadata = raw["metadata"]
        reason = rejection_reason(raw)
        rejection = None if reason is None else KubeletRejection(reason, why_unmanaged(raw, self._rules) is None)
        return _FailedPod(f"{metadata.get('namespace', '')}/{metadata['name']}", metadata.get("uid", ""), rejection)

    def _put(self, pod: _FailedPod) -> None:
        if pod.rejection is None:
            self._known.pop(pod.key, None)
        elif self._known.get(pod.key) != pod.uid:
            self._known[pod.key] = pod.uid
            if self._in_order():
                self.seen.emit(pod.rejection)

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
