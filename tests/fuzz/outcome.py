"""The outcome of one input, and what counts as broken."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import thread_time
from traceback import format_exception
from typing import Any, Protocol

from structlog.testing import capture_logs

# What no input may hold the event loop for, of CPU time: a busy machine does not count.
MOST_SECONDS = 0.1
# What no input may add to the process: many times what one needs.
MOST_MIB = 64
_HELD = "held the loop for"
_TIMES = 3
_FAULTS = {"internal_error", "review.failed"}


class BrokenError(Exception):
    """An invariant does not hold."""


class InputKind(Protocol):
    """One kind of input."""

    name: str

    def draw(self, random: Random) -> Any:
        """An input whose `repr` describes it completely."""

    async def check(self, drawn: Any) -> None:
        """Raise BrokenError, or any other exception, if the input breaks something."""

    def may_fail(self, drawn: Any) -> bool:
        """Whether no API server sends such an object, so that a contained fault is acceptable."""

    def smaller(self, drawn: Any) -> Iterator[Any]:
        """Simpler inputs that may break the same."""


@dataclass(frozen=True)
class Broken:
    """An input that broke something."""

    part: str
    seed: int
    drawn: Any
    why: str


async def broken_by(part: InputKind, drawn: Any) -> str:
    """What the input breaks; empty if nothing. Slow runs are repeated, because any first run may be slow."""
    for _ in range(_TIMES):
        why = await _broken_by(part, drawn)
        if _HELD not in why:
            break
    return why


async def _broken_by(part: InputKind, drawn: Any) -> str:
    why = ""
    with capture_logs() as lines:
        try:
            await part.check(drawn)
        except BrokenError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 # any is a find
            why = "".join(format_exception(error))
    for line in lines:
        if line["event"] in _FAULTS and not part.may_fail(drawn):
            fault = line.get("exc_info")
            return "".join(format_exception(fault)) if isinstance(fault, BaseException) else str(line)
    return why


@contextmanager
def within_bounds(what: str) -> Iterator[None]:
    """Time and memory of one run, without garbage collections of earlier work."""
    gc.disable()
    held, began = _memory("VmRSS"), thread_time()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that from now on
    try:
        yield
    finally:
        gc.enable()
    seconds, mib = thread_time() - began, (_memory("VmHWM") - held) / 1024
    if mib > MOST_MIB:
        raise BrokenError(f"{what} took {mib:.0f} MiB")
    if seconds > MOST_SECONDS:
        raise BrokenError(f"{what} {_HELD} {seconds * 1000:.0f} ms of CPU time")


def _memory(name: str) -> int:
    """A line of the kernel's statistics of this process, in KiB; 0 if there is none."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])
    return 0
