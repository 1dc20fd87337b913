"""Bound pods as preemption sees them. Kept only where that is enabled: it is a record for each pod of the cluster."""

from collections.abc import Mapping
from typing import Any

from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.resident import ResidentPod


class BoundPods:
    """An index over all bound pods."""

    def __init__(self, *, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._by_key: dict[str, BoundPod] = {}

    def by_key(self) -> Mapping[str, BoundPod]:
        """The bound pods that have not ended, by namespace/name, live."""
        return self._by_key

    def read(self, raw: Mapping[str, Any], record: ResidentPod) -> BoundPod | None:
        """The record of a pod object; None if it has no node, has ended, or if preemption is off."""
        return BoundPod.of(raw, record) if self._is_enabled and record.node and not record.terminal else None

    def put(self, key: str, pod: BoundPod | None) -> None:
        """Add the pod, or replace what is known about it; None: it is not bound, or has ended."""
        if pod is None:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = pod
