"""A local, current copy of one collection of objects: list once, then watch.

Phases:
1. LIST, in pages of `page_size`. The handler gets each object as soon as it is decoded, so 50,000 pods are never in
   memory as JSON. Objects that a list no longer has are deleted after the last page. Until then the copy
   may have too many objects, never too few, which errs towards "in use" for everything counted from it.
2. WATCH from the list's resource version, with bookmarks. The server ends a watch every few minutes; it is reopened
   from the last version seen.
3. Recovery. A version that the server can no longer serve (410, as a status or as an ERROR event) leads back to 1.
   So does a silent watch: bookmarks should come, and a server restored from a backup would send nothing until it
   catches up with our version. After any other failure the watch resumes where it was. Each retry waits first:
   exponential backoff, full jitter, Retry-After.

The status says in which phase an informer is, and since when it has heard of the API server.

The LIST sets no resource version, so the answer is exact and paged. `resourceVersion=0` would be cheaper for old API
servers, but they then ignore `limit` and return 50,000 pods at once, possibly older than the state that this
process's predecessor acted on. Since 1.34 exact pages come from the watch cache as well.

A handler contains its own faults: an unusable object must not affect the others. Any other exception ends `run`; a
restarted `run` begins with a list.
"""

import asyncio
import random
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any, Final, NoReturn, Protocol

import structlog

from webhook.codec import loads
from webhook.collector import collector_paused
from webhook.kube.api_errors import (
    APIError,
    ClusterError,
    MalformedAnswerError,
    SilenceError,
    UnreachableError,
    mapping_or_empty,
)
from webhook.kube.client import Client
from webhook.kube.large_field import LargeField
from webhook.kube.pacing import Backoff, Turns
from webhook.kube.resource import Resource, is_object, key_of
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.signal import Signal


class Phase(StrEnum):
    """What an informer is doing."""

    STARTING = "starting"
    ABSENT = "absent"  # the server does not serve the resource: a CRD that is not installed
    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"  # after a failure, for the next attempt


@dataclass(slots=True)
class InformerStatus:
    """One informer's status for /readyz and /metrics; `last_contact` is on the clock of `time.monotonic`."""

    name: str
    phase: Phase = Phase.STARTING
    synced: bool = False
    objects: int = 0
    lists: int = 0
    caught_up: bool = False
    """Whether a list or an event has come since the last failure. A reopened watch may still have events to deliver."""
    last_contact: float = field(default_factory=monotonic)
    error: str = ""

    def in_order(self) -> bool:
        """Whether what comes now was made after all that came before: a list has no such order."""
        return self.phase is Phase.WATCHING


log = structlog.get_logger(__name__)

PAGE_SIZE: Final = 500
"""Objects a page of a list, as client-go has it."""
# The server ends a watch after this time (client-go uses the same). It is random, so that after a restart of the API
# server the replicas do not reopen all watches in the same second each time.
_WATCH_SECONDS: Final = (300, 600)
# Bookmarks come about once a minute. After three missing ones the stream is dead, though TCP does not notice.
_SILENCE_SECONDS: Final = 200.0
# A watch that ends earlier without an event counts as failed: a broken proxy would cause a hot loop.
_SHORTEST_WATCH_SECONDS: Final = 1.0


class Handler(Protocol):
    """Receives what the informer sees. Called from the event loop, one call at a time."""

    def upsert(self, key: str, raw: Raw) -> None:
        """The object `key` exists with this content (`metadata.managedFields` removed unless requested)."""

    def delete(self, key: str) -> None:
        """The object `key` is deleted, or no longer selected."""


class ResourceGoneError(ClusterError):
    """The server no longer serves the collection (404): its CRD was removed."""


class Informer:
    """Keeps `handler` in sync with `resource`, narrowed by `field_selector`, until cancelled."""

    def __init__(  # noqa: PLR0913 # all but three have a default
        self,
        client: Client,
        resource: Resource,
        handler: Handler,
        *,
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        backoff: Backoff | None = None,
        managed_fields: bool = False,
        status: InformerStatus | None = None,
        large_field: LargeField | None = None,
    ) -> None:
        """large_field: a field whose events without a change of it are not decoded whole."""
        self.status = status or InformerStatus(resource.name)
        self.synced = asyncio.Event()
        self.served = Signal[[str]]()
        """Emitted with the version in which the collection is served and read; empty: it is not served."""
        self._client = client
        self._resource = resource
        self._handler = handler
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._page_size = page_size
        self._backoff = backoff or Backoff()
        self._managed_fields = managed_fields
        self._large_field = large_field
        self._keys: set[str] = set()
        self._version: str | None = None

    async def run(self) -> NoReturn:
        """List and watch; ends by cancellation, ResourceGoneError, or a fault of ours."""
        while True:
            try:
                if self._version is None:
                    with collector_paused():
                        await self._list()
                await self._watch()
            except ClusterError as error:
                await self._recover(error)
            except Exception as error:
                self._version = None
                self.status.phase = Phase.WAITING
                self.status.caught_up = False
                self.status.error = repr(error)
                raise

    @property
    def resource(self) -> Resource:
        """The collection, in the version that is read."""
        return self._resource

    def point_at(self, resource: Resource) -> None:
        """Switch to another version of the API; objects seen are kept until the next list."""
        self._resource = resource
        self._version = None

    def clear(self) -> None:
        """The collection does not exist: delete all objects and count as synced."""
        for key in tuple(self._keys):
            self._delete(key)
        self._version = None
        self._saw(Phase.ABSENT)
        self.served.emit("")
        self._mark_synced()

    async def _list(self) -> None:
        """Phase 1."""
        self.status.phase = Phase.LISTING
        if self.synced.is_set():
            self.served.emit(self._resource.version)
        query: dict[str, str | int] = {**self._selector, "limit": self._page_size}
        listed: set[str] = set()
        while True:
            page = await self._client.page(self._resource.path, query)
            turns = Turns()
            for raw, text in page.objects():
                key = self._upsert(raw)
                if self._large_field is not None:
                    self._large_field.listed(key, text)
                listed.add(key)
                if turns.is_over():
                    await turns.next()
            self._saw(Phase.LISTING)
            follows = page.metadata.get("continue")
            if not follows:
                break
            if not isinstance(follows, str) or follows == query.get("continue"):
                msg = f"list of {self._resource.name}: its next page repeats after {counted(len(listed), 'object')}"
                raise MalformedAnswerError(msg)
            query["continue"] = follows
        version = page.metadata.get("resourceVersion")
        if not isinstance(version, str) or not version:
            msg = f"list of {self._resource.name}: the answer has no resourceVersion"
            raise MalformedAnswerError(msg)
        for key in self._keys - listed:
            self._delete(key)
        self._version = version
        self.status.lists += 1
        self.status.caught_up = True
        self._saw(Phase.WATCHING)
        if not self.synced.is_set():
            self.served.emit(self._resource.version)
        self._mark_synced()
        log.debug("informer.listed", resource=self._resource.name, objects=len(listed), version=self._version)

    async def _watch(self) -> None:
        """Phase 2: one watch, from open to end."""
        began = monotonic()
        events = 0
        query: dict[str, str | int] = {
            **self._selector,
            "watch": 1,
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": random.randint(*_WATCH_SECONDS),  # noqa: S311 # spreads load, not security-relevant
        }
        async with self._client.lines(self._resource.path, query, _SILENCE_SECONDS) as lines:
            self._saw(Phase.WATCHING)
            turns = Turns()
            async for line in lines:
                self._take(line)
                events += 1
                self._backoff.reset()
                self._saw(Phase.WATCHING)
                self.status.caught_up = True
                if turns.is_over():
                    await turns.next()
        if events == 0 and monotonic() - began < _SHORTEST_WATCH_SECONDS:
            msg = f"watch of {self._resource.name}: the server ended it at once"
            raise UnreachableError(msg)

    def _take(self, line: bytes) -> None:
        """Process one event of the watch; raises APIError for an ERROR event."""
        raw = None if self._large_field is None else self._large_field.take(line)
        if raw is None and (raw := self._decode(line)) is None:
            return
        version = mapping_or_empty(mapping_or_empty(raw).get("metadata")).get("resourceVersion")
        if isinstance(version, str) and version:
            self._version = version

    def _decode(self, line: bytes) -> Any:
        """Process an event that is decoded whole. Returns its object; None for an event that does not count."""
        try:
            event: dict[str, Any] = loads(line)
            kind, raw = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as error:
            msg = f"watch of {self._resource.name}: not an event: {line[:200]!r}"
            raise UnreachableError(msg) from error
        if kind in {"ADDED", "MODIFIED", "DELETED"} and not is_object(raw):
            log.warning("watch.odd_object", resource=self._resource.name, type=kind, line=repr(line[:200]))
            return None
        match kind:
            case "ADDED" | "MODIFIED":
                key = self._upsert(raw)
                if self._large_field is not None:
                    self._large_field.decoded(key, line)
            case "DELETED":
                self._delete(key_of(raw))
            case "BOOKMARK":
                pass
            case "ERROR":
                raise APIError.from_status(mapping_or_empty(raw))
            case _:
                log.warning("informer.unknown_event", resource=self._resource.name, type=kind)
                return None
        return raw

    async def _recover(self, error: ClusterError) -> None:
        """Phase 3: decide where to continue, and wait."""
        wait = self._backoff.next(error.retry_after if isinstance(error, APIError) else 0.0)
        self.status.phase = Phase.WAITING
        self.status.caught_up = False
        self.status.error = str(error)
        if isinstance(error, SilenceError):
            self._version = None
        if isinstance(error, APIError):
            if error.status == 404:
                msg = f"{self._resource.path} is not served any more"
                raise ResourceGoneError(msg) from error
            if error.version_unusable:
                self._version = None
        # A 410 is normal (a quiet resource, a compacted history); other errors are logged for the operator.
        report = log.info if isinstance(error, APIError) and error.status == 410 else log.warning
        report("informer.retry", resource=self._resource.name, error=str(error), seconds=round(wait, 3))
        await asyncio.sleep(wait)

    def _upsert(self, raw: Raw) -> str:
        """Store an object; returns its key."""
        if not self._managed_fields:
            raw["metadata"].pop("managedFields", None)
        key = key_of(raw)
        self._handler.upsert(key, raw)
        self._keys.add(key)
        self.status.objects = len(self._keys)
        return key

    def _delete(self, key: str) -> None:
        self._handler.delete(key)
        if self._large_field is not None:
            self._large_field.forget(key)
        self._keys.discard(key)
        self.status.objects = len(self._keys)

    def _saw(self, phase: Phase) -> None:
        self.status.phase = phase
        self.status.last_contact = monotonic()
        self.status.error = ""

    def _mark_synced(self) -> None:
        self.status.synced = True
        self.status.objects = len(self._keys)
        self.synced.set()
