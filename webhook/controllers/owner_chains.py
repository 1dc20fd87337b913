"""Reads the owners of waiting pods, from the pod's controller up to the top owner, when the first such pod appears.

1. Callers register the owners that they need and never wait for an answer: `run` reads in the background. Reads are
   bounded, take turns by namespace, and have a timeout (`ReadQueue`).
2. An owner is read with a GET, once for all its pods, and so are the owners above it. Then `changed` is called. Until
   then its pods wait, and `why_not` says so. After a failure `why_not` gives the reason, and the owner is read again
   after a while.
3. While its pods wait, the chain is read again every few seconds, to follow changes of a Job's parallelism or
   annotations. If it differs from before, `changed` is called. Chains of a namespace that take long to decode are read
   less often: together they take a tenth of a processor.
4. An owner without waiting pods is forgotten.

The chain ends where an object is gone, is another one of the same name, may not be read by us, or has no namespace.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from time import monotonic, thread_time
from types import coroutine
from typing import Any, Final, NoReturn

import structlog

from webhook.formats.kubernetes.owner_chain import OwnerChain, check_owner, owner_chain_of
from webhook.formats.kubernetes.pod import Owner
from webhook.internal_errors import Where, internal_error
from webhook.kube.api_errors import ClusterError
from webhook.kube.owners import ReadOwner, read_chain
from webhook.kube.pacing import Backoff
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.placing.pod.placement_text import shortened

Key = tuple[str, Owner]
"""(namespace, a pod's owner)."""

# 16 concurrent reads of 10 to 20 ms each make 1,000 a second, as many as the leader's writes.
_AT_A_TIME: Final = 16
_OF_ONE_NAMESPACE: Final = 4
_OF_SLOW_ONES: Final = 4
# An outage of a conversion webhook lasts minutes. One read a minute in each of four slots notices when it is back.
_SLOW_SECONDS: Final = 60.0


class ReadQueue:
    """Which owner is read next: bounded, and in turns by namespace, so that no tenant waits for another's owners.

    1. The concurrent reads are limited per namespace and in total.
    2. Namespaces take turns; within a namespace, the owner that is due first comes first.
    3. If a read took too long, its namespace counts as slow for a while. Slow namespaces share a few of the slots, so
       that owners whose reads hang (a CRD whose conversion webhook does not answer) never use them all.

    It has the scheduled reads and those in flight; all times are on one clock.
    """

    def __init__(self) -> None:
        self._due: OrderedDict[str, list[tuple[float, int, Key]]] = OrderedDict()
        self._at: dict[Key, int] = {}
        self._running: Counter[str] = Counter()
        self._slow_until: dict[str, float] = {}
        self._order = count()

    def put(self, key: Key, at: float) -> None:
        """Schedule the read at that time, replacing an earlier schedule."""
        number = self._at[key] = next(self._order)
        heappush(self._due.setdefault(key[0], []), (at, number, key))

    def forget(self, key: Key) -> None:
        """Cancel the scheduled read."""
        self._at.pop(key, None)

    def take(self, now: float) -> Iterator[Key]:
        """The reads to start now; the caller ends each with `done`."""
        self._slow_until = {namespace: until for namespace, until in self._slow_until.items() if until > now}
        found = True
        while found:
            found = False
            for namespace in tuple(self._due):
                if self._has_room(namespace) and self._head(namespace) <= now:
                    _, _, key = heappop(self._due[namespace])
                    del self._at[key]
                    self._running[namespace] += 1
                    self._due.move_to_end(namespace)
                    found = True
                    yield key

    def done(self, key: Key, now: float, *, in_time: bool) -> None:
        """A read ended; in_time: whether it ended before its timeout."""
        namespace = key[0]
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        if not in_time:
            self._slow_until[namespace] = now + _SLOW_SECONDS

    def next_at(self) -> float | None:
        """When the next read is due; None if there is none, or no slot before a read ends."""
        at = min((self._head(one) for one in tuple(self._due) if self._has_room(one)), default=inf)
        return None if at == inf else at

    def _has_room(self, namespace: str) -> bool:
        if self._running.total() >= _AT_A_TIME or self._running[namespace] >= _OF_ONE_NAMESPACE:
            return False
        slow = sum(self._running[one] for one in self._slow_until)
        return namespace not in self._slow_until or slow < _OF_SLOW_ONES

    def _head(self, namespace: str) -> float:
        """When a namespace's first read is due; forgotten and rescheduled entries are dropped on the way."""
        due = self._due[namespace]
        while due and self._at.get(due[0][2]) != due[0][1]:
            heappop(due)
        if not due:
            del self._due[namespace]
            return inf
        return due[0][0]


log = structlog.get_logger(__name__)

# The longest chain in use is five GETs. The API server's own objective is 1 s for each (99 of 100 take less;
# Kubernetes' scalability SLOs). A read that takes longer hangs, usually in the conversion webhook of a CRD.
_ANSWER_SECONDS: Final = 5.0
_READ_AGAIN_SECONDS: Final = 2.0
# This many GETs a second are a negligible load for an API server. Of a thousand waiting gangs, each is read every 20 s.
_READ_AGAIN_RATE: Final = 50.0
# A chain of eight objects of 1.5 MB takes 0.1 s to decode. A hundred such chains, read again at the rate above, would
# take the leader's whole processor; those in use take a millisecond or two each, so that the rate decides.
_PROCESSOR_SHARE: Final = 0.1
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

    def read_again(self, owners: Iterable[Key]) -> None:
        """Forget what is known of these (namespace, owner), of those that are wanted, and read them now."""
        for key in owners:
            entry = self._entries.get(key)
            if entry is not None and entry.owner_chain is not None:
                entry.owner_chain, entry.why_not = None, _READING
                if key not in self._reading:
                    self._queue.put(key, monotonic())
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
        in_time, seconds = True, 0.0
        found: OwnerChain | str
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                found, seconds = await _measured(self._of(*key))
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
            self._take(key, entry, found, seconds)
        self._wake.set()

    def _take(self, key: Key, entry: _Entry, found: OwnerChain | str, seconds: float) -> None:
        """Process the result of a read. seconds: of a processor, that it took."""
        before = entry.owner_chain
        if isinstance(found, OwnerChain):
            entry.backoff.reset()
            # Every namespace gets an equal share of the rate, which its owners divide among them.
            costs = max(len(self._of_namespace) / _READ_AGAIN_RATE, seconds / _PROCESSOR_SHARE)
            its_part = self._of_namespace[key[0]] * costs
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


@coroutine
def _measured(steps: Coroutine[Any, Any, OwnerChain]) -> Generator[Any, Any, tuple[OwnerChain, float]]:
    """What it returns, and the seconds of a processor that it took between its waits."""
    seconds, proceed, value = 0.0, steps.send, None
    while True:
        begin = thread_time()
        try:
            awaited = proceed(value)
        except StopIteration as end:
            return end.value, seconds + thread_time() - begin
        seconds += thread_time() - begin
        try:
            proceed, value = steps.send, (yield awaited)
        except BaseException as error:  # noqa: BLE001 # the coroutine decides what becomes of it, such as its own end
            proceed, value = steps.throw, error


def _equal(one: OwnerChain, other: OwnerChain) -> bool:
    """Whether both mean the same for their pods. The rest of the status changes all the time and is ignored."""
    return (one.top, one.annotations, _of_interest(one.raw)) == (other.top, other.annotations, _of_interest(other.raw))


def _of_interest(raw: Raw | None) -> tuple[Any, ...]:
    if raw is None:
        return ()
    metadata = raw["metadata"]
    return metadata.get("annotations"), metadata.get("labels"), raw.get("spec"), _succeeded(raw)


def _succeeded(raw: Raw) -> Any:
    return (raw.get("status") or {}).get("succeeded")
