"""The row of one scenario: its counts, and what makes it a failure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.chaos.load import LoadKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.journal import History, Journal
    from tests.chaos.load import Load, Unit


@dataclass(frozen=True)
class FaultRow:
    """The columns of a row. The package's docstring defines them."""

    scenario: str
    created: int
    client_errors: int
    lost: int
    ungated: int
    rejected: int
    over_committed: int
    gangs_split: int
    wait_p99: float
    wait_max: float
    leader_exits: int
    claims_left: int = 0

    def to_json(self) -> dict[str, Any]:
        """The line of --json."""
        return {
            "scenario": self.scenario,
            "created": self.created,
            "clientErrors": self.client_errors,
            "lost": self.lost,
            "ungated": self.ungated,
            "rejected": self.rejected,
            "overCommitted": self.over_committed,
            "gangsSplit": self.gangs_split,
            "waitP99": round(self.wait_p99, 2),
            "waitMax": round(self.wait_max, 2),
            "leaderExits": self.leader_exits,
            "claimsLeft": self.claims_left,
        }

    def broken(self) -> list[str]:
        """The counts that must be zero in every scenario and are not."""
        zeros = {
            "lost": self.lost,
            "rejected": self.rejected,
            "overCommitted": self.over_committed,
            "gangsSplit": self.gangs_split,
            "leaderExits": self.leader_exits,
            "claimsLeft": self.claims_left,
        }
        return [f"{name} is {count}" for name, count in zeros.items() if count]


def counted(scenario: str, load: Load, journal: Journal, exits: int, twice: int = 0, claims_left: int = 0) -> FaultRow:
    """The row of a run that has settled. twice: devices that two claims had at once."""
    honest = [pod for pod in journal.pods() if pod.unit in load.units]
    waits = sorted(pod.bound - pod.created for pod in honest if pod.bound is not None)
    return FaultRow(
        scenario=scenario,
        created=len(honest),
        client_errors=load.refusals.total(),
        lost=sum(lost(load, journal).values()),
        ungated=sum(pod.unallocated for pod in honest),
        rejected=sum(bool(pod.rejected) for pod in honest),
        over_committed=len(journal.over_committed) + twice,
        gangs_split=len(split(load, journal)),
        wait_p99=percentile(waits, 0.99),
        wait_max=waits[-1] if waits else 0.0,
        leader_exits=exits,
        claims_left=claims_left,
    )


def lost(load: Load, journal: Journal) -> Counter[str]:
    """Pods, by the name of their unit, that do not run although no user deleted them."""
    excused = journal.excused
    found: Counter[str] = Counter()
    for unit in load.left():
        pods = journal.of(unit)
        running = sum(pod.since is not None and not pod.gone for pod in pods)
        # A Job recreates a pod that is deleted; a bare pod that a scenario deleted does not come back.
        wanted = unit.size if unit.kind is LoadKind.JOB else unit.size - sum(pod.uid in excused for pod in pods)
        if running < wanted:
            found[unit.name] = wanted - running
    return found


def split(load: Load, journal: Journal) -> list[Unit]:
    """Gangs in more than one rack, or started with fewer pods than their minimum."""
    return [
        unit
        for unit in load.units.values()
        if unit.minimum > 1 and _is_judged(unit, journal.of(unit)) and _is_split(unit, load, journal)
    ]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; 0 for no values."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0


def _is_judged(unit: Unit, pods: list[History]) -> bool:
    """Whether the webhook was called for every pod of the gang, and for the Job that created them."""
    return all(pod.seen and (pod.inherits or unit.kind is not LoadKind.JOB) for pod in pods)


def _is_split(unit: Unit, load: Load, journal: Journal) -> bool:
    if unit.racked and unit.name in journal.scattered:
        return True
    started = sum(pod.bound is not None for pod in journal.of(unit))
    return unit.name not in load.deleted and 0 < started < unit.minimum
