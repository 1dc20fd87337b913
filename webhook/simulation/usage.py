"""Utilisation and pods that do not run yet over time: one sample for each part, however many events it has."""

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
    """Collects samples; the last one of each part counts."""

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
