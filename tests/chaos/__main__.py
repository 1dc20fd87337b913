"""python -m tests.chaos: a steady load of pods and gangs while one thing breaks; one row for each scenario.

Progress goes to stderr. stdout has only the table, or with --json one object a line when its scenario ends.
With --into the rows replace the rows of the same scenarios in the table of a page, such as docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tests.chaos.bed import Bed
from tests.chaos.real_bed import RealBed
from tests.chaos.run import play
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.table import table, with_rows
from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import CommandError, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.real_kubelets import ImpossibleError
from tests.cluster.up import leave_on_signals, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.run import FaultRun
    from tests.chaos.scenarios import FaultScenario

# Long enough for the longest fault, 30 s, to last as long as it should.
SECONDS = 60.0
SHORTEST_SECONDS = 5.0


def main() -> int:
    """Run. 0: success; 1: a violation or an error; 2: invalid arguments; 130: ended by Ctrl-C."""
    options = parser().parse_args()
    leave_on_signals()
    outcomes = []
    try:
        for outcome in _outcomes(options):
            outcomes.append(outcome)
            if options.json:
                print(json.dumps(outcome.row.to_json()), flush=True)  # noqa: T201 - the answer
    except (AssetError, BuildFailedError, CommandError, NotReadyError, ProcessEndedError) as error:
        tell(f"error: {error}")
        return 1
    rows = [outcome.row for outcome in outcomes]
    failed = any(outcome.failures for outcome in outcomes)
    if options.into and not failed:
        options.into.write_text(with_rows(options.into.read_text(), rows))
    elif not options.json:
        Console().print(table(rows))
    for outcome in outcomes:
        for failure in outcome.failures:
            tell(f"FAILED {outcome.row.scenario}: {failure}")
    return 1 if failed else 0


def _outcomes(options: argparse.Namespace) -> Iterator[FaultRun]:
    wanted = [SCENARIOS[name] for name in dict.fromkeys(options.scenario or SCENARIOS)]
    programs = find_assets(tell)
    for is_real, made in ((False, Bed.made), (True, partial(RealBed.with_kubelets, tell=tell))):
        scenarios = [scenario for scenario in wanted if scenario.is_real is is_real]
        if not scenarios:
            continue
        try:
            with made(programs) as bed:
                for scenario in scenarios:
                    yield _played(bed, scenario, options)
        except ImpossibleError as error:
            tell(f"skipped {', '.join(scenario.name for scenario in scenarios)}: {error}")


def _played(bed: Bed, scenario: FaultScenario, options: argparse.Namespace) -> FaultRun:
    tell(f"{scenario.name}, seed {options.seed}: {options.seconds:.0f} s of pods and gangs")
    start = time.monotonic()
    outcome = play(bed, scenario, seconds=options.seconds, seed=options.seed)
    for note in outcome.notes:
        tell(f"  {note}")
    verdict = "; ".join(outcome.failures) or "as it must be"
    tell(f"{scenario.name}: {verdict} ({time.monotonic() - start:.0f} s)")
    return outcome


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument(
        "--scenario",
        action="append",
        choices=SCENARIOS,
        metavar="NAME",
        help="one of " + ", ".join(SCENARIOS) + "; may be repeated; all when none is given",
    )
    made.add_argument("--seconds", type=_seconds, default=SECONDS, help="of creations in each scenario")
    made.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object a line")
    output.add_argument("--into", type=Path, metavar="FILE", help="write the rows into the table of this page")
    return made


def _seconds(text: str) -> float:
    """At least as long as a fault needs to have an effect."""
    seconds = float(text)
    if not seconds >= SHORTEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is less than {SHORTEST_SECONDS:.0f}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
