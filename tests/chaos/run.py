"""One scenario on a bed.

1. Honest tenants create pods, gangs and Jobs at a steady rate.
2. After a quarter of the time the fault begins. The load continues until the time is over and the fault has ended.
3. Everything is repaired, and the pods get time to run as long as anything still changes.
4. The results are counted.
"""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.faults import Stage
from tests.chaos.journal import Journal
from tests.chaos.load import Load
from tests.chaos.row import FaultRow, counted, lost, split
from tests.cluster.claim_journal import DRA, ClaimJournal, left_over
from tests.cluster.process import ProcessEndedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.chaos.bed import Bed
    from tests.chaos.scenarios import FaultScenario

CALM = 0.25
"""The share of the time before the fault."""
# The scheduler tries a pod again after 10 s at most, and takes up again those it forgot after 300; the leader looks at
# pods that are stuck after 60 s.
STILL_SECONDS = 75.0
POLL_SECONDS = 0.5
TOLD = 5


@dataclass(frozen=True)
class FaultRun:
    """A row, and notes for people."""

    row: FaultRow
    failures: list[str]
    """What must not be; empty when all is well."""
    notes: list[str]


def play(bed: Bed, scenario: FaultScenario, *, seconds: float, seed: int) -> FaultRun:
    """Run one scenario. `seconds`: duration of the load."""
    run = f"{scenario.name}-{seed}"
    tenants = [f"chaos-{run}-{letter}" for letter in "ab"]
    hostile = f"chaos-{run}-hostile"
    journal = Journal(bed.capacity(), bed.racks(), has_kubelets=bed.has_kubelets)
    chance = random.Random(f"{run} load")  # noqa: S311 - repeatable
    load = Load(bed.plane.api, journal, run, tenants, chance, bed.pace, has_claims=scenario.has_claims)
    exits = len(bed.exits)
    with contextlib.ExitStack() as stack:
        stack.enter_context(bed.namespaces(*tenants, hostile))
        claims = ClaimJournal()
        if scenario.has_claims:
            stack.enter_context(bed.devices(*tenants))
            claims = stack.enter_context(ClaimJournal.following(bed.plane.api))
        stack.enter_context(journal.following(bed.plane.api, run))
        failures: list[str] = []
        ends = time.monotonic() + seconds
        stage = Stage(bed, journal, random.Random(run), seconds, run, hostile, ends)  # noqa: S311
        with load.running():
            time.sleep(CALM * seconds)
            try:
                scenario.fault(stage)
            except (TimeoutError, ProcessEndedError) as error:
                failures.append(f"the fault came to no good end: {error}")
            time.sleep(stage.left())
        try:
            bed.wait_until_whole()
        except TimeoutError as error:
            failures.append(f"not whole: {error}")
        _settle(load, journal)
        left = _left_claims(bed, tenants) if scenario.has_claims else []
        row = counted(scenario.name, load, journal, len(bed.exits) - exits, len(claims.twice), len(left))
        bound = stage.lasted + scenario.recovery
        if row.wait_max > bound:
            failures.append(f"an honest pod waited {row.wait_max:.0f} s, more than {bound:.0f}")
        told = [f"given twice: {device} to {sorted(keys)}" for device, keys in claims.twice.items()]
        told += [f"left: {key}" for key in left]
        notes = [*stage.notes, *_notes(load, journal), *told[:TOLD], *bed.exits[exits:]]
    return FaultRun(row, [*row.broken(), *failures], notes)


def _settle(load: Load, journal: Journal) -> None:
    """Wait until everything runs, or until nothing has changed for `STILL_SECONDS`.

    What has run for long enough still ends: a rack that took a gang may be full when the last of its pods comes.
    """
    last, moved = None, time.monotonic()
    while missing := lost(load, journal):
        if missing != last:
            last, moved = missing, time.monotonic()
        if time.monotonic() - moved > STILL_SECONDS:
            return
        load.delete_old()
        time.sleep(POLL_SECONDS)


def _left_claims(bed: Bed, namespaces: Sequence[str]) -> list[str]:
    """The claims of these namespaces that keep devices although no pod uses them, once nothing changes any more."""
    api, until_then = bed.plane.api, time.monotonic() + STILL_SECONDS
    while True:
        claims = [raw for name in namespaces for raw in api.get(f"{DRA}/namespaces/{name}/resourceclaims")["items"]]
        left = left_over(claims, api.get("/api/v1/pods")["items"])
        if not left or time.monotonic() > until_then:
            return left
        time.sleep(POLL_SECONDS)


def _notes(load: Load, journal: Journal) -> Iterator[str]:
    """The first few pods behind each count that is not zero."""
    for message, count in load.refusals.most_common(TOLD):
        yield f"refused {count} times: {message}"
    if load.unanswered:
        yield f"{load.unanswered} creations had no answer, and were tried again"
    for name, count in lost(load, journal).most_common(TOLD):
        unit = load.units[name]
        waiting = [pod for pod in journal.of(unit) if pod.since is None and not pod.gone]
        gone = [pod.name for pod in journal.of(unit) if pod.gone]
        told = "; ".join(f"{pod.name} on {pod.node or 'no node'}: {pod.told or 'says nothing'}" for pod in waiting[:2])
        yield f"lost: {count} pods of {unit.namespace}/{name} of {unit.size} (gone: {gone}; waiting: {told})"
    for pod in [pod for pod in journal.pods() if pod.rejected][:TOLD]:
        yield f"rejected: {pod.name} on {pod.node}: {pod.rejected}; {pod.told or 'no placement'}"
    for slot, amount in list(journal.over_committed.items())[:TOLD]:
        yield f"over-committed: {slot.resource} of NUMA node {slot.numa} of {slot.node} by {amount}"
        yield f"  held by {', '.join(journal.holders[slot])}"
    for unit in split(load, journal)[:TOLD]:
        pods = ", ".join(f"{pod.name} on {pod.node}" for pod in journal.of(unit) if pod.bound is not None)
        yield f"split: {unit.namespace}/{unit.name}, minimum {unit.minimum}: {pods}"
    for pod in [pod for pod in journal.pods() if pod.unallocated][:TOLD]:
        yield f"ungated: {pod.name} on {pod.node}: {pod.told or 'no placement'}"
