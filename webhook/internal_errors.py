"""Our own faults: logged with their traceback and counted by where they were contained.

A loop over items (pods, gangs, owners, objects, nodes, tasks) contains the faults of each item:

    try:
        place(pod)
    except Exception as error:
        waits(pod, internal_error(Where.POD, error, pod=pod.key))

The item then waits with the message that `internal_error` returns, and the others continue. If nothing waits for the
item, use `with contained(Where.POD, pod=pod.key):`. A repeated fault is counted each time, but its traceback is logged
at most once a minute: a tenant with 10,000 pods must not fill the log. Other lines that any caller can cause have a
`LogLimit`.

Any package may import this module. Rules and engine are pure: they raise, and their callers contain.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

import structlog


class LogLimit:
    """A rate limit for log lines that any caller can cause, so that none can fill the log.

    An average number of lines a second and a burst; lines beyond that are dropped and counted:

        if (left_out := limit.take()) is not None:
            log.warning("review.refused", ..., left_out=left_out)
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._free = float(burst)
        self._at = clock()
        self._left_out = 0

    def take(self) -> int | None:
        """The number of lines dropped since the last one; None if this line must be dropped, too."""
        now = self._clock()
        self._free = min(self._burst, self._free + (now - self._at) * self._per_second)
        self._at = now
        if self._free < 1:
            self._left_out += 1
            return None
        self._free -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


log = structlog.get_logger(__name__)

INTERNAL: Final = "internal error"
"""The prefix of every message of `internal_error`."""

_LOG_AGAIN_SECONDS: Final = 60.0


class Where(StrEnum):
    """The kind of item that contained a fault; docs/metrics.md lists them all."""

    POD = "pod"
    GANG = "gang"
    OWNER = "owner"
    POD_GROUP = "podgroup"
    OBJECT = "object"
    NODE = "node"
    WRITE = "write"
    TASK = "task"
    REVIEW = "review"
    CONNECTION = "connection"


class InternalErrors:
    """The counts of one process, and which faults were logged recently."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._counts: Counter[Where] = Counter()
        self._clock = clock
        self._logged: dict[tuple[Where, type[BaseException], str, int], float] = {}

    @property
    def counts(self) -> Mapping[Where, int]:
        """The number of faults contained so far, by kind of item; read-only."""
        return MappingProxyType(self._counts)

    def record(self, where: Where, error: BaseException, **about: Any) -> str:
        """Count a fault and log it; return the message for those who wait for the item.

        about: names the item in the log line, such as pod="namespace/name".
        """
        self._counts[where] += 1
        fault = where, type(error), *_place(error)
        now = self._clock()
        if now - self._logged.get(fault, -_LOG_AGAIN_SECONDS) >= _LOG_AGAIN_SECONDS:
            # It has at most one entry for each place in the code that raises, so it needs no limit.
            self._logged[fault] = now
            log.error("internal_error", where=where.value, **about, error=repr(error), exc_info=error)
        else:
            log.debug("internal_error", where=where.value, **about, error=repr(error))
        return f"{INTERNAL}: {type(error).__name__}; the log of the webhook's leader has the details"


_of_this_process: Final = InternalErrors()
internal_error = _of_this_process.record
"""Count and log a fault in this process, which has one log: see `InternalErrors.record`."""


def internal_error_counts() -> Mapping[Where, int]:
    """The faults contained in this process so far, by kind of item."""
    return _of_this_process.counts


@contextmanager
def contained(where: Where, **about: Any) -> Iterator[None]:
    """Count and log what the body raises, and continue; cancellation is not caught."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 # containing all faults is its purpose
        internal_error(where, error, **about)


def _place(error: BaseException) -> tuple[str, int]:
    """File and line that raised."""
    frame = error.__traceback__
    if frame is None:
        return "", 0
    while frame.tb_next is not None:
        frame = frame.tb_next
    return frame.tb_frame.f_code.co_filename, frame.tb_lineno
