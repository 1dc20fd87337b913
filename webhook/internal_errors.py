"""Faults of ours: logged with their traceback and counted by where they were contained.

A loop over units (pods, gangs, owners, objects, nodes, tasks) contains what each unit raises:

    try:
        place(pod)
    except Exception as error:
        waits(pod, internal_error(Where.POD, error, pod=pod.key))

The unit then waits with the sentence that `internal_error` returns, and the others go on. Where nothing waits for the
unit, `with contained(Where.POD, pod=pod.key):` says the same. A fault that repeats itself is
counted each time, but its traceback is logged once a minute: a tenant with 10,000 pods must not fill the log.

Any package may import this; rules and engine, which are pure, raise and leave containing to their callers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

INTERNAL: Final = "internal error"
"""What every sentence of `internal_error` begins with."""

_LOG_AGAIN_SECONDS: Final = 60.0


class Where(StrEnum):
    """The unit that a fault was contained in; docs/metrics.md lists them all."""

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
    """The count of one process, and what was logged of it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._counts: Counter[Where] = Counter()
        self._clock = clock
        self._logged: dict[tuple[Where, type[BaseException], str, int], float] = {}

    @property
    def counts(self) -> Mapping[Where, int]:
        """How many faults were contained so far, by where; read-only."""
        return MappingProxyType(self._counts)

    def record(self, where: Where, error: BaseException, **about: Any) -> str:
        """Count a fault and log it; return the sentence for those who wait for the unit.

        about: what names the unit in the log line, such as pod="namespace/name".
        """
        self._counts[where] += 1
        fault = where, type(error), *_place(error)
        now = self._clock()
        if now - self._logged.get(fault, -_LOG_AGAIN_SECONDS) >= _LOG_AGAIN_SECONDS:
            # As many entries as the code has places that raise: it needs no bound.
            self._logged[fault] = now
            log.error("internal_error", where=where.value, **about, error=repr(error), exc_info=error)
        else:
            log.debug("internal_error", where=where.value, **about, error=repr(error))
        return f"{INTERNAL}: {type(error).__name__}; the log of the webhook's leader has the details"


_of_this_process: Final = InternalErrors()
internal_error = _of_this_process.record
"""Count and log a fault in this process, as one log serves the whole process: see `InternalErrors.record`."""


def internal_error_counts() -> Mapping[Where, int]:
    """The faults contained in this process so far, by where."""
    return _of_this_process.counts


@contextmanager
def contained(where: Where, **about: Any) -> Iterator[None]:
    """What the body raises is counted and logged, and goes no further; cancellation does."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 # that is what it is for
        internal_error(where, error, **about)


def _place(error: BaseException) -> tuple[str, int]:
    """File and line that raised."""
    frame = error.__traceback__
    if frame is None:
        return "", 0
    while frame.tb_next is not None:
        frame = frame.tb_next
    return frame.tb_frame.f_code.co_filename, frame.tb_lineno
