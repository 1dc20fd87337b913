"""Pods that have a node, and whose condition `topology-webhook.dev/Placed` does not say so yet.

A pod has a node when it is assigned (our hint names the node, and our gate is removed) or bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.formats.kubernetes.resident import ResidentPod
from webhook.state.pod_info import PodInfo

# A pod that was bound longer ago runs: its condition tells nothing new. After an upgrade there are 50,000 of these.
_NEWS_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class UnconfirmedPod:
    """A pod whose condition is to be written."""

    uid: str
    bound: bool
    """Whether it is bound, not only assigned."""
    text: str
    """Its placement annotation."""


class UnconfirmedPods:
    """An index, current as of the last event. clock: seconds since the epoch by the API server's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.by_key: dict[str, UnconfirmedPod] = {}
        """By namespace/name; must not be changed."""
        self._clock = clock

    def put(self, pod: PodInfo) -> None:
        """Add the pod, or replace what is known about it."""
        record = pod.record
        if pod.unconfirmed and not self._is_old(record):
            self.by_key[record.key] = UnconfirmedPod(record.uid, bool(record.node), pod.unconfirmed)
        else:
            self.drop(record.key)

    def _is_old(self, record: ResidentPod) -> bool:
        return record.bound_at is not None and self._clock() - record.bound_at > _NEWS_SECONDS

    def drop(self, key: str) -> None:
        """Remove the pod namespace/name."""
        self.by_key.pop(key, None)
