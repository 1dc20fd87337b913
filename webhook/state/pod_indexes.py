"""The pods of the cluster as controllers look them up, beside what is counted per node.

- unbound: without a node, with their objects
- gated: those of them whose only gate is ours
- unconfirmed: with a node, but the condition `topology-webhook.dev/Placed` does not say so yet. A pod has a node when
  it is assigned (our hint names the node, and our gate is removed) or bound.
- bound: as preemption sees them. Kept only where that is enabled: it is a record for each pod of the cluster.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.raw import Raw
from webhook.state.pod_info import PodInfo
from webhook.state.unmanaged import is_annotated

Record = TypeVar("Record")

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


class BoundPods:
    """The bound pods as preemption sees them; empty where it is not enabled."""

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
        _set(self._by_key, key, pod)


class PodIndexes:
    """Each by namespace/name, current as of the last event. The mappings are live and must not be changed."""

    def __init__(self, clock: Callable[[], float], *, preempts: bool) -> None:
        """clock: seconds since the epoch by the API server's clock. preempts: whether `bound` is kept."""
        self.unbound: dict[str, Raw] = {}
        """An unmanaged pod without our gate has only its name and uid."""
        self.gated: dict[str, Raw] = {}
        self.unconfirmed: dict[str, UnconfirmedPod] = {}
        self.bound = BoundPods(is_enabled=preempts)
        self._clock = clock

    def ungated(self) -> dict[str, Raw]:
        """The managed pods without a node and without any gate."""
        without_gate = ((key, raw) for key, raw in self.unbound.items() if not raw["spec"].get("schedulingGates"))
        return {key: raw for key, raw in without_gate if is_annotated(raw)}

    def put(self, pod: PodInfo) -> None:
        """Add the pod, or replace what is known about it."""
        record, waiting = pod.record, pod.waiting
        key = record.key
        _set(self.unbound, key, waiting)
        _set(self.gated, key, waiting if waiting is not None and waits_for_us_alone(waiting) else None)
        news = pod.unconfirmed if pod.unconfirmed and not self._is_old(record) else ""
        _set(self.unconfirmed, key, UnconfirmedPod(record.uid, bool(record.node), news) if news else None)
        self.bound.put(key, pod.bound)

    def drop(self, key: str) -> None:
        """Remove a pod that was deleted."""
        for index in (self.unbound, self.gated, self.unconfirmed):
            index.pop(key, None)
        self.bound.put(key, None)

    def _is_old(self, record: ResidentPod) -> bool:
        return record.bound_at is not None and self._clock() - record.bound_at > _NEWS_SECONDS


def _set(index: dict[str, Record], key: str, record: Record | None) -> None:
    """Set what is known under a key; None: nothing."""
    if record is None:
        index.pop(key, None)
    else:
        index[key] = record
