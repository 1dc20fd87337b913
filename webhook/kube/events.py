"""Events, as `kubectl describe` shows them: each written once, in the background, without delaying callers.

1. `tell` queues an event. A repetition for the same object within a short time is dropped. If the queue is full, the
   oldest event of the namespace with the most is dropped: the pods' annotations have the same text.
2. `run` writes them at a limited rate, taking turns between namespaces. A failure is logged and not retried.
3. In a burst of pods their Events wait until it is over, at most for half a minute: a burst needs the API server for
   itself. They do not wait if a Warning is among them, or if the queue is half full.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final, Literal, NoReturn
from uuid import uuid4

import structlog

from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.pacing import FairQueue, RateLimiter
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

COMPONENT: Final = "topology-webhook"

IsBusy = Callable[[], bool]
"""Whether many pods get their nodes at once, from us or from the scheduler."""

# The API server keeps events for an hour; client-go's recorder limits a controller to about this rate.
_RATE, _BURST = 20.0, 100
# Source: kubernetes pkg/apis/core/validation/events.go (objects without a namespace).
_OF_NODES: Final = "default"
_WAITING = 1000
_LONGEST_DELAY_SECONDS: Final = 30.0
_BUSY_CHECK_SECONDS: Final = 0.25
_REMEMBERED = 10_000
# Source: kubernetes pkg/apis/core/validation (NoteLengthLimit).
_LONGEST_NOTE = 1024
# Of a character in UTF-8.
_MOST_BYTES = 4


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event about an object in a namespace."""

    key: str
    """namespace/name."""
    uid: str
    reason: str
    note: str
    action: str
    type: Literal["Normal", "Warning"] = "Normal"
    api_version: str = field(kw_only=True)
    kind: str = field(kw_only=True)
    is_namespaced: bool = field(default=True, kw_only=True)
    """False: the namespace in `key` is that of the Event alone."""
    occurrence: int = field(default=0, kw_only=True)
    """Not written. An event that equals an earlier one is dropped; another number lets it be written again."""


@dataclass(frozen=True, slots=True)
class PodEvent(ObjectEvent):
    """An event about a pod."""

    api_version: str = field(default="v1", kw_only=True)
    kind: str = field(default="Pod", kw_only=True)


def node_warning(node: str, reason: str, note: str, action: str, occurrence: int) -> ObjectEvent:
    """A Warning about a node. Its uid is the node's name, as in the kubelet's Events; `kubectl describe` shows both.

    Source: kubectl pkg/describe (NodeDescriber).
    """
    key = f"{_OF_NODES}/{node}"
    return ObjectEvent(
        key,
        node,
        reason,
        note,
        action,
        "Warning",
        api_version="v1",
        kind="Node",
        is_namespaced=False,
        occurrence=occurrence,
    )


class EventRecorder:
    """Writes events as `instance` of our component."""

    def __init__(self, client: Client, instance: str) -> None:
        self._client = client
        self._instance = instance
        self._pace = RateLimiter(_RATE, _BURST)
        self._waiting: FairQueue[ObjectEvent, ObjectEvent] = FairQueue(_WAITING)
        self._told: OrderedDict[ObjectEvent, None] = OrderedDict()
        self._arrived = asyncio.Event()
        self._busy_since: float | None = None
        self._is_urgent = False
        """Whether a Warning is queued."""

    def tell(self, event: ObjectEvent) -> None:
        """Queue an event; the text is truncated to the length that is written."""
        event = replace(event, note=_note(event.note))
        if event in self._told:
            return
        self._told[event] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._waiting.put(event.key.partition("/")[0], event, event)
        self._is_urgent |= event.type == "Warning"
        self._arrived.set()

    async def run(self, is_busy: IsBusy) -> NoReturn:
        """Write queued events until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._pace.turn()
                if self._may_wait(is_busy(), monotonic()):
                    await asyncio.sleep(_BUSY_CHECK_SECONDS)
                elif self._waiting:
                    event, _ = self._waiting.pop()
                    with contained(Where.WRITE, object=event.key, event_reason=event.reason):
                        await self._write(event)
            self._is_urgent = False

    def _may_wait(self, is_busy: bool, now: float) -> bool:
        """Whether all queued events may wait for the end of a burst. now: seconds of `time.monotonic`."""
        if not is_busy:
            self._busy_since = None
            return False
        if self._busy_since is None:
            self._busy_since = now
        has_room = len(self._waiting) < _WAITING // 2
        return has_room and not self._is_urgent and now - self._busy_since < _LONGEST_DELAY_SECONDS

    async def _write(self, event: ObjectEvent) -> None:
        namespace = event.key.partition("/")[0]
        try:
            await self._client.add(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", self._object(event))
        except ClusterError as error:
            # The namespace may be terminating, which is not worth a log line.
            log.debug("event.failed", kind=event.kind, object=event.key, reason=event.reason, error=str(error))

    def _object(self, event: ObjectEvent) -> Raw:
        namespace, _, name = event.key.partition("/")
        regarding = {
            "apiVersion": event.api_version,
            "kind": event.kind,
            **({"namespace": namespace} if event.is_namespaced else {}),
            "name": name,
            "uid": event.uid,
        }
        return event_object(regarding, event.reason, event.note, event.action, event.type, self._instance)


def event_object(
    regarding: Raw, reason: str, note: str, action: str, kind: Literal["Normal", "Warning"], instance: str
) -> Raw:
    """An Event (events.k8s.io/v1) about the object `regarding`, dated now, by `instance` of our component."""
    name = f"{regarding['name'][:230].rstrip('.-')}.{uuid4().hex[:16]}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": regarding.get("namespace") or _OF_NODES, "name": name},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"{COMPONENT}.dev/{COMPONENT}",
        "reportingInstance": instance[:128],
        "action": action,
        "reason": reason,
        "type": kind,
        "regarding": regarding,
        "note": _note(note),
    }


def _note(text: str) -> str:
    """The text, truncated to the limit of an Event, which counts bytes."""
    if len(text) * _MOST_BYTES <= _LONGEST_NOTE or len(encoded := text.encode(errors="replace")) <= _LONGEST_NOTE:
        return text
    return encoded[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
