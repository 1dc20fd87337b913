"""Pods that their kubelets rejected: what the placement should prevent.

A kubelet sets the phase Failed and a reason, and never changes them again (see `rejected_pod`). A pod counts
when it is seen to be rejected. One that comes with a list does not: an earlier process may have counted it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectedPod, rejected_pod, rejection_reason
from webhook.signal import Signal
from webhook.state.feed import Feed
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_scheduled_by_ours, why_unmanaged


@dataclass(frozen=True, slots=True)
class _FailedPod:
    key: str
    rejected: RejectedPod | None
    """None if it failed for another reason."""


class KubeletRejections:
    """The rejected pods of the cluster, each announced once. in_order: whether failed pods arrive as they fail."""

    def __init__(self, rules: Rules, in_order: Callable[[], bool]) -> None:
        self.seen = Signal[[KubeletRejection]]()
        """Emitted for each pod that was rejected since we know the cluster."""
        self.found = Signal[[RejectedPod, bool]]()
        """Emitted for each rejected pod, also one of a list; the flag: whether it was rejected just now."""
        self.feed = Feed("Pod", self._read, self._put, self._drop)
        """Takes the failed pods."""
        self._rules = rules
        self._in_order = in_order
        self._known: dict[str, RejectedPod] = {}

    @property
    def pods(self) -> Mapping[str, RejectedPod]:
        """The rejected pods that exist, by namespace/name. The result must not be changed."""
        return self._known

    def _read(self, raw: Mapping[str, Any]) -> _FailedPod:
        metadata = raw["metadata"]
        reason = rejection_reason(raw)
        rejected = None
        if reason is not None:
            rejected = rejected_pod(raw, reason, managed=why_unmanaged(raw, self._rules) is None)
            if why_not_scheduled_by_ours(raw, self._rules):
                rejected = replace(rejected, groups=())  # we do not choose the next pod's node
        return _FailedPod(f"{metadata.get('namespace', '')}/{metadata['name']}", rejected)

    def _put(self, pod: _FailedPod) -> None:
        known, rejected = self._known.get(pod.key), pod.rejected
        if rejected is None:
            self._known.pop(pod.key, None)
            return
        self._known[pod.key] = rejected
        if known is None or known.uid != rejected.uid:
            in_order = self._in_order()
            if in_order:
                self.seen.emit(rejected.rejection)
            self.found.emit(rejected, in_order)

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
