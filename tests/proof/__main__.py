"""python -m tests.proof: run the scenarios without and with the webhook, and print the table.

Progress goes to stderr. stdout has only the table, or with --json one object a line when its run ends. With --into the
table replaces the one between the two marks of a page, such as README.md (`make proof-table`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import CommandError, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.up import leave_on_signals, tell
from tests.neighbours.exporters import EXPORTERS
from tests.proof.autoscale import autoscale
from tests.proof.beside import BESIDE_SCENARIOS
from tests.proof.preempt import preempt
from tests.proof.repair import repair
from tests.proof.run import run
from tests.proof.scenarios import SCENARIOS, defaults
from tests.proof.starve import starve
from tests.proof.table import markdown, table, with_table
from tests.proof.trace import default_folder, replayed
from webhook.simulation.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.proof.measure import Row
    from tests.proof.scenario import Scenario

LETTERS = dict(zip("abcdefg", [*SCENARIOS, "trace"], strict=True))
WITHOUT_LETTER = {
    **BESIDE_SCENARIOS,
    **{function.__name__: function for function in (autoscale, defaults, preempt, repair, starve)},
}
"""Run only when they are named."""


def main() -> int:
    """Run. 0: done; 1: something failed; 2: invalid arguments; 130: ended by Ctrl-C."""
    options = parser().parse_args()
    leave_on_signals()
    rows = []
    try:
        wanted = _wanted(options)
        if options.exporter and any(scenario.group for scenario in wanted):
            tell("error: --exporter runs on machines that are there from the start, and those of autoscale are not")
            return 2
        for row in _runs(options, wanted):
            rows.append(row)
            if options.json:
                print(json.dumps(row.to_json()), flush=True)  # noqa: T201 - the answer
    except (AssetError, BuildFailedError, CommandError, NotReadyError, ProcessEndedError, TraceError) as error:
        tell(f"error: {error}")
        return 1
    if options.into:
        options.into.write_text(with_table(options.into.read_text(), rows))
    elif options.markdown:
        print(markdown(rows))  # noqa: T201
    elif not options.json:
        Console().print(table(rows))
    return 0


def _wanted(options: argparse.Namespace) -> Sequence[Scenario]:
    names = dict.fromkeys(LETTERS.get(name, name) for name in options.scenario or LETTERS)
    return [
        replayed(options.trace, seed=options.seed, nodes=options.trace_nodes, seconds=options.trace_seconds)
        if name == "trace"
        else {**SCENARIOS, **WITHOUT_LETTER}[name](options.seed)
        for name in names
    ]


def _runs(options: argparse.Namespace, scenarios: Sequence[Scenario]) -> Iterator[Row]:
    programs = find_assets(tell)
    for scenario in scenarios:
        for webhook in (False, True) if options.webhook is None else (options.webhook,):
            start = time.monotonic()
            row = run(
                scenario,
                programs,
                tell,
                webhook=webhook,
                seed=options.seed,
                values=options.values,
                publisher=options.publisher,
                exporter=options.exporter,
            )
            word = "with" if webhook else "without"
            tell(f"{scenario.name} {word} the webhook: {row.rejected} rejected ({time.monotonic() - start:.0f} s)")
            yield row


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    made.add_argument(
        "--scenario",
        action="append",
        choices=[*LETTERS, *LETTERS.values(), *WITHOUT_LETTER],
        metavar="NAME",
        help="one of "
        + ", ".join([*(f"{letter} {name}" for letter, name in LETTERS.items()), *WITHOUT_LETTER])
        + "; may be repeated. Without it, all that have a letter",
    )
    made.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    made.add_argument("--webhook", action=argparse.BooleanOptionalAction, help="one of the two runs only")
    made.add_argument(
        "--publisher",
        choices=["rte", "nfd", "koordlet"],
        default="rte",
        help="whose form the NodeResourceTopologies have",
    )
    made.add_argument(
        "--exporter", choices=[*EXPORTERS], default="", help="run this exporter on each machine: only it writes them"
    )
    made.add_argument("--values", type=Path, metavar="FILE", help="further values of the chart")
    made.add_argument(
        "--trace",
        type=Path,
        default=default_folder(),
        metavar="DIR",
        help="folder with an openb node list and pod list; by default ../shared/traces/openb if it is there, else a "
        "small one of ours",
    )
    made.add_argument("--trace-nodes", type=int, default=100, help="nodes of the trace to take, drawn by the seed")
    made.add_argument("--trace-seconds", type=float, default=40.0, help="seconds that the trace is compressed to")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object a line")
    output.add_argument("--markdown", action="store_true", help="a Markdown table")
    output.add_argument("--into", type=Path, metavar="FILE", help="the same, in place of the table of this page")
    return made


if __name__ == "__main__":
    sys.exit(main())
