"""Pods that their kubelets rejected: what the placement should prevent.

A kubelet sets the phase Failed and a reason, and never changes them again (see `rejected_pod`). A pod counts
when it is seen to be rejected. One that comes with a list does not: an earlier process may have counted it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectedPod, rejected_pod, rejection_reason
from webhook.signal import Signal
from webhook.state.rules import Rules
from webhook.state.store import Store
from webhook.state.unmanaged import why_not_scheduled_by_ours, why_unmanaged


class KubeletRejections(Store[RejectedPod]):
    """The rejected pods that exist, by namespace/name, each announced once."""

    def __init__(self, rules: Rules, in_order: Callable[[], bool]) -> None:
        """in_order: whether failed pods arrive as they fail."""
        super().__init__("Pod", self._rejected, lambda pod: pod.key)
        self.seen = Signal[[KubeletRejection]]()
        """Emitted for each pod that was rejected since we know the cluster."""
        self.found = Signal[[RejectedPod, bool]]()
        """Emitted for each rejected pod, also one of a list; the flag: whether it was rejected just now."""
        self._rules = rules
        self._in_order = in_order

    def put(self, record: RejectedPod) -> None:
        """Add a pod, or replace it."""
        known = self.by_key().get(record.key)
        super().put(record)
        if known is None or known.uid != record.uid:
            in_order = self._in_order()
            if in_order:
                self.seen.emit(record.rejection)
            self.found.emit(record, in_order)

    def _rejected(self, raw: Mapping[str, Any]) -> RejectedPod | None:
        """None if the pod failed for another reason."""
        reason = rejection_reason(raw)
        if reason is None:
            return None
        rejected = rejected_pod(raw, reason, managed=why_unmanaged(raw, self._rules) is None)
        if why_not_scheduled_by_ours(raw, self._rules):
            return replace(rejected, groups=())  # we do not choose the next pod's node
        return rejected
