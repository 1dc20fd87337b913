"""What is measured of a run: defined once for simulations and for the proof on real components (tests/proof)."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# As many as a plot has pixels.
MOST_SAMPLES: Final = 2000


@dataclass(frozen=True, slots=True)
class Sample:
    """From this time on, until the next sample."""

    at: float
    """Seconds after the start."""
    utilisation: float
    """CPUs of running pods over CPUs of all nodes."""
    waiting: int
    """Pods that are wanted and do not run."""


class UsageRecorder:
    """Collects utilisation and pods that do not run yet over time.

    One sample for each part of it, however many events that has: the last one counts.
    """

    def __init__(self, seconds: float) -> None:
        self._step = seconds / MOST_SAMPLES
        self._samples: dict[int, Sample] = {}
        self._last: tuple[float, int] | None = None

    def record(self, sample: Sample) -> None:
        """The state after the events of a time."""
        state = sample.utilisation, sample.waiting
        if state == self._last:
            return
        self._last = state
        self._samples[int(sample.at / self._step)] = sample

    def samples(self) -> tuple[Sample, ...]:
        """In order of time."""
        return tuple(self._samples.values())


COLUMNS: Final = (
    "webhook",
    "pods run",
    "rejected by kubelets",
    "share rejected",
    "in their rack",
    "to Running p50 / p99",
    "CPUs in use",
    "binds refused",
)
"""The columns that a simulation and the proof share."""


@dataclass(frozen=True)
class RunMetrics:
    """What COLUMNS show of a run."""

    webhook: bool
    """Whether it ran with the webhook."""
    created: int
    """Pods that controllers created."""
    running: int
    """Pods that ran."""
    rejected: int
    """Pods that a kubelet rejected on arrival; their controller created another in the place of each."""
    in_domain: int | None
    """Of the pods that ran and whose gang requests a level, such as a rack: those in the domain with most of the gang.
    None without such gangs.
    """
    p50: float | None
    """Seconds from the workload's creation to a pod of it running, median; rejected pods before it count, too."""
    p99: float | None
    """The same, 99th percentile."""
    utilisation: float
    """CPUs of running pods over CPUs of all nodes, on average over the steady part of the run."""
    refused_binds: int
    """Bindings that the webhook refused; the scheduler tries again."""


def cells(metrics: RunMetrics) -> tuple[str, ...]:
    """One cell for each of COLUMNS."""
    return (
        "with" if metrics.webhook else "without",
        f"{metrics.running:,}",
        f"{metrics.rejected:,}",
        f"{metrics.rejected / metrics.created:.0%}" if metrics.created else "-",
        "" if metrics.in_domain is None else f"{metrics.in_domain:,}",
        f"{_seconds(metrics.p50)} / {_seconds(metrics.p99)}",
        f"{metrics.utilisation:.1%}",
        f"{metrics.refused_binds:,}" if metrics.webhook else "",
    )


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that at least this many percent do not exceed (nearest rank); None of no values."""
    if not values:
        return None
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def time_in_use(spans: Iterable[tuple[int, float, float | None]], start: float, end: float) -> float:
    """Amount times seconds between start and end. spans: (amount, since, until; None = to the end) of each pod."""
    return sum(
        amount * max(0.0, min(end, end if until is None else until) - max(start, since))
        for amount, since, until in spans
    )


def in_fullest_domain(places: Iterable[tuple[Hashable, Hashable]]) -> int:
    """Pods in the domain with most of their gang. places: (gang, domain) of each pod."""
    domains: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    for gang, domain in places:
        domains[gang][domain] += 1
    return sum(max(counts.values()) for counts in domains.values())


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
