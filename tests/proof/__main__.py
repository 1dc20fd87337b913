"""python -m tests.proof: run the scenarios without and with the webhook, and print the tables.

The first table is of real kubelets on fake hardware, the second of simulated ones. Where real ones cannot run, a line
says why, and there is no first table.

Progress goes to stderr. stdout has only the tables, or with --json one object a line when its run ends. With --into,
each row replaces the one of its run in the tables of a page, such as docs/how-it-works.md (`make proof-table`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import CommandError, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.real_kubelets import ImpossibleError
from tests.cluster.up import leave_on_signals, tell
from tests.neighbours.catalogue import KOORDLET
from tests.neighbours.exporters import EXPORTERS
from tests.proof.autoscale import autoscale
from tests.proof.beside import BESIDE_SCENARIOS
from tests.proof.dra import dra
from tests.proof.measure import REAL, SIMULATED
from tests.proof.preempt import preempt
from tests.proof.real import REAL_SCENARIOS, reason_against
from tests.proof.repair import repair
from tests.proof.run import run
from tests.proof.scenarios import SCENARIOS, defaults
from tests.proof.starve import starve
from tests.proof.table import halves, markdown, table, with_tables
from tests.proof.trace import default_folder, replayed
from webhook.simulation.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.proof.measure import ProofRow
    from tests.proof.scenario import ProofScenario

LETTERS = dict(zip("abcdefg", [*SCENARIOS, "trace"], strict=True))
WITHOUT_LETTER = {
    **BESIDE_SCENARIOS,
    **{function.__name__: function for function in (autoscale, defaults, dra, preempt, repair, starve)},
}
"""Run only when they are named."""
BOTH: Final = "both"
_FAILURES = (
    AssetError,
    BuildFailedError,
    CommandError,
    ImpossibleError,
    NotReadyError,
    ProcessEndedError,
    TraceError,
)


class UsageError(ValueError):
    """The arguments contradict each other. The message says how."""


def main() -> int:
    """Run. 0: done; 1: something failed; 2: invalid arguments; 130: ended by Ctrl-C."""
    options = parser().parse_args()
    leave_on_signals()
    rows = []
    try:
        scenarios = wanted(options)
        for row in _runs(options, scenarios):
            rows.append(row)
            if options.into:
                options.into.write_text(with_tables(options.into.read_text(), [row]))
            if options.json:
                print(json.dumps(row.to_json()), flush=True)  # noqa: T201 - the answer
    except UsageError as error:
        tell(f"error: {error}")
        return 2
    except _FAILURES as error:
        tell(f"error: {error}")
        return 1
    if options.markdown:
        print("\n\n".join(markdown(half) for _, half in halves(rows)))  # noqa: T201
    elif not options.json and not options.into:
        for title, half in halves(rows):
            Console().print(table(half, title))
    return 0


def wanted(options: argparse.Namespace) -> Sequence[ProofScenario]:
    """The scenarios to run. Raises `UsageError`, and `ImpossibleError` if only real kubelets may run and cannot."""
    found = [*_real(options), *_simulated(options)]
    if not found:
        raise UsageError(f"none of {', '.join(options.scenario)} has {options.kubelets} kubelets")
    if options.exporter and any(scenario.group for scenario in found):
        raise UsageError("--exporter runs on machines that are there from the start, and those of autoscale are not")
    if options.exporter == KOORDLET.name and any(scenario.exporter for scenario in found):
        raise UsageError(
            "koordlet asks the kubelet's own server, which real kubelets here have not: --kubelets simulated"
        )
    return found


def _real(options: argparse.Namespace) -> Sequence[ProofScenario]:
    """Those on real kubelets; none where they cannot run, which is said."""
    if options.kubelets == SIMULATED:
        return []
    names = [LETTERS.get(name, name) for name in options.scenario or REAL_SCENARIOS]
    found = [REAL_SCENARIOS[name](options.seed) for name in dict.fromkeys(names) if name in REAL_SCENARIOS]
    if found and (reason := reason_against(found)):
        if options.kubelets == REAL:
            raise ImpossibleError(reason)
        tell(f"simulated kubelets only: {reason}")
        return []
    return found


def _simulated(options: argparse.Namespace) -> Sequence[ProofScenario]:
    if options.kubelets == REAL:
        return []
    names = dict.fromkeys(LETTERS.get(name, name) for name in options.scenario or LETTERS)
    return [
        replayed(options.trace, seed=options.seed, nodes=options.trace_nodes, seconds=options.trace_seconds)
        if name == "trace"
        else {**SCENARIOS, **WITHOUT_LETTER}[name](options.seed)
        for name in names
    ]


def _runs(options: argparse.Namespace, scenarios: Sequence[ProofScenario]) -> Iterator[ProofRow]:
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
            tell(
                f"{scenario.name} {word} the webhook, {row.kubelets} kubelets: {row.rejected} rejected "
                f"({time.monotonic() - start:.0f} s)"
            )
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
    made.add_argument(
        "--kubelets",
        choices=[REAL, SIMULATED, BOTH],
        default=BOTH,
        help=f"real ones run {', '.join(REAL_SCENARIOS)}, on fake hardware, each beside a real exporter",
    )
    made.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    made.add_argument("--webhook", action=argparse.BooleanOptionalAction, help="one of the two runs only")
    made.add_argument(
        "--publisher",
        choices=["rte", "nfd", "koordlet"],
        default="rte",
        help="whose form the NodeResourceTopologies of simulated kubelets have",
    )
    made.add_argument(
        "--exporter",
        choices=[*EXPORTERS],
        default="",
        help="run this exporter on each machine: only it writes them. Without: real kubelets have rte and nfd in turn",
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
