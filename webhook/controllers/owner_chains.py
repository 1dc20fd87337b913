"""Reads the owners of waiting pods, from the pod's controller up to the top owner, when the first such pod appears.

1. Callers register the owners that they need and never wait for an answer: `run` reads in the background. Reads are
   bounded, take turns by namespace, and have a timeout (see `owner_read_queue`).
2. An owner is read with a GET, once for all its pods, and so are the owners above it. Then `changed` is called. Until
   then its pods wait, and `why_not` says so. After a failure `why_not` gives the reason, and the owner is read again
   after a while.
3. While its pods wait, the chain is read again every few seconds, to follow changes of a Job's parallelism or
   annotations. If it differs from before, `changed` is called.
4. An owner without waiting pods is forgotten.

The chain ends where an object is gone, is another one of the same name, may not be read by us, or has no namespace.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.admission.pod.placement_text import shortened
from webhook.controllers.owner_read_queue import Key, ReadQueue
from webhook.internal_errors import Where, internal_error
from webhook.kube.api_errors import ClusterError
from webhook.kube.backoff import Backoff
from webhook.kube.owners import ReadOwner, read_chain
from webhook.model.errors import UserError
from webhook.model.owner_chain import OwnerChain, owner_chain_of
from webhook.model.owner_reference import check_owner
from webhook.model.pod import Owner

log = structlog.get_logger(__name__)

# The longest chain in use is five GETs. The API server's own objective is 1 s for each (99 of 100 take less;
# Kubernetes' scalability SLOs). A read that takes longer hangs, usually in the conversion webhook of a CRD.
_ANSWER_SECONDS: Final = 5.0
_READ_AGAIN_SECONDS: Final = 2.0
# This many GETs a second are a negligible load for an API server. Of a thousand waiting gangs, each is read every 20 s.
_READ_AGAIN_RATE: Final = 50.0
# Waits of 1 s, 2, 4 … 60, with jitter: an API server that restarts is back within 5 to 20 s.
_FAILED_BASE, _FAILED_CAP = 1.0, 60.0
_READING: Final = "they are being read"


@dataclass(slots=True)
class _Entry:
    """The state of one owner: its chain, or why it is unknown."""

    backoff: Backoff
    owner_chain: OwnerChain | None = None
    why_not: str = _READING


class OwnerChains:
    """The owner chains of pods, by their owners; `changed` is called when a chain differs from before."""

    def __init__(self, read: ReadOwner, changed: Callable[[], None]) -> None:
        self._read = read
        self._changed = changed
        self._entries: dict[Key, _Entry] = {}
        self._of_namespace: Counter[str] = Counter()
        self._queue = ReadQueue()
        self._reading: dict[Key, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    def want(self, owners: Iterable[Key]) -> None:
        """Read these (namespace, owner), and forget all others."""
        wanted = dict.fromkeys(owners)
        gone = self._entries.keys() - wanted.keys()
        for key in gone:
            del self._entries[key]
            self._queue.forget(key)
        new = [key for key in wanted if key not in self._entries]
        for key in new:
            entry = self._entries[key] = _Entry(Backoff(_FAILED_BASE, _FAILED_CAP))
            try:
                check_owner(key[1])
            except UserError as error:
                entry.why_not = str(error)  # never read
            else:
                if key not in self._reading:
                    self._queue.put(key, monotonic())
        if new or gone:
            self._of_namespace = Counter(namespace for namespace, _ in self._entries)
            self._wake.set()

    def get(self, namespace: str, owner: Owner) -> OwnerChain | None:
        """The chain of a wanted owner; None if it is not known."""
        entry = self._entries.get((namespace, owner))
        return entry.owner_chain if entry else None

    def why_not(self, namespace: str, owner: Owner) -> str:
        """Why the chain is not known; empty if it is."""
        entry = self._entries.get((namespace, owner))
        if entry is None:
            return _READING
        return "" if entry.owner_chain is not None else entry.why_not

    async def run(self) -> NoReturn:
        """Read the wanted owners until cancelled."""
        try:
            while True:
                self._wake.clear()
                for key in self._queue.take(monotonic()):
                    self._reading[key] = asyncio.create_task(self._read_one(key), name=f"owner in {key[0]}")
                next_at = self._queue.next_at()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if next_at is None else next_at - monotonic()):
                        await self._wake.wait()
        finally:
            for key, task in self._reading.items():
                task.cancel()
                self._queue.done(key, monotonic(), in_time=True)
                if key in self._entries:
                    self._queue.put(key, monotonic())
            self._reading = {}

    async def _read_one(self, key: Key) -> None:
        """Read one owner, process the result, and schedule the next read."""
        in_time = True
        found: OwnerChain | str
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                found = await self._of(*key)
        except TimeoutError:
            found, in_time = f"no answer within {_ANSWER_SECONDS:g} s", False
        except (UserError, ClusterError) as error:
            found = shortened(str(error))
        except Exception as error:  # noqa: BLE001 # a fault with one owner affects only its pods
            owner = f"{key[1].kind} {key[0]}/{key[1].name}"
            found = internal_error(Where.OWNER, error, owner=owner)
        del self._reading[key]
        self._queue.done(key, monotonic(), in_time=in_time)
        if entry := self._entries.get(key):
            self._take(key, entry, found)
        self._wake.set()

    def _take(self, key: Key, entry: _Entry, found: OwnerChain | str) -> None:
        before = entry.owner_chain
        if isinstance(found, OwnerChain):
            entry.backoff.reset()
            # Every namespace gets an equal share of the rate, which its owners divide among them.
            its_part = self._of_namespace[key[0]] * len(self._of_namespace) / _READ_AGAIN_RATE
            self._queue.put(key, monotonic() + max(_READ_AGAIN_SECONDS, its_part))
            if before is not None and _equal(before, found):
                return
            entry.owner_chain = found
            if before is not None:
                log.info("owner.changed", owner=f"{found.top.kind} {key[0]}/{found.top.name}")
            self._changed()
            return
        self._queue.put(key, monotonic() + entry.backoff.next(at_least=_FAILED_BASE))
        # A failed call does not invalidate the known chain.
        if before is None and entry.why_not != (why_not := f"{found}; they are read again"):
            entry.why_not = why_not
            self._changed()

    async def _of(self, namespace: str, owner: Owner) -> OwnerChain:
        return owner_chain_of(owner, await read_chain(self._read, namespace, owner))


def _equal(one: OwnerChain, other: OwnerChain) -> bool:
    """Whether both mean the same for their pods. The rest of the status changes all the time and is ignored."""
    return (one.top, one.annotations, _of_interest(one.raw)) == (other.top, other.annotations, _of_interest(other.raw))


def _of_interest(raw: Mapping[str, Any] | None) -> tuple[Any, ...]:
    if raw is None:
        return ()
    metadata = raw["metadata"]
    return metadata.get("annotations"), metadata.get("labels"), raw.get("spec"), _succeeded(raw)


def _succeeded(raw: Mapping[str, Any]) -> Any:
    return (raw.get("status") or {}).get("succeeded")
