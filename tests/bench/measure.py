"""Timing for benches: medians of many runs in one process, with warm or cold caches.

Repeated runs are timed by the CPU time of their thread, so other work on the machine counts only by its effect on the
caches. No figure is an absolute limit. Compare figures of the same run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from gc import disable, enable
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import Any

import numpy as np

# More than the caches of the machines this runs on.
_SWEEP = np.zeros(64 * 2**20, dtype=np.uint8)

_LEAST_RUNS = 7
_MOST_RUNS = 200
_BUDGET_NS = 150_000_000


def cached(run: Callable[[], Any]) -> int:
    """Median nanoseconds of consecutive runs, after one that does not count."""
    run()
    return _median(run, lambda: None)


def from_memory(run: Callable[[], Any]) -> int:
    """Median nanoseconds of runs with cold caches, as after other work of the process."""
    run()
    return _median(run, _sweep)


def once(run: Callable[[], Any]) -> int:
    """Nanoseconds of a single run, for long work."""
    start = perf_counter_ns()
    run()
    return perf_counter_ns() - start


def _sweep() -> None:
    np.add(_SWEEP, 1, out=_SWEEP)


def _median(run: Callable[[], Any], before: Callable[[], None]) -> int:
    times: list[int] = []
    with _no_collector():
        while len(times) < _LEAST_RUNS or (len(times) < _MOST_RUNS and sum(times) < _BUDGET_NS):
            before()
            start = thread_time_ns()
            run()
            times.append(thread_time_ns() - start)
    return int(median(times))


@contextmanager
def _no_collector() -> Iterator[None]:
    disable()
    try:
        yield
    finally:
        enable()


def duration(ns: float) -> str:
    """A duration as text."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
