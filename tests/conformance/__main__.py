"""The command: replay every golden file of a directory and report how far the engine agrees.

`record` plays random machines on real kubelets instead, and compares what these answer with the simulated kubelet and
with the engine's prediction. `claims` asks kube-scheduler's own device allocator about random claims, and compares.

Prints `FILE agree/total`, and below it the parts and the first disagreements. Exit status: 0 all floors held,
1 something is below its floor, 2 a file cannot be used, or no real kubelet or allocator can run
here.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.assets import AssetError, find_assets, wanted_version
from tests.cluster.build import BuildFailedError
from tests.cluster.control_plane import ControlPlane, NotReadyError
from tests.cluster.process import ProcessEndedError
from tests.cluster.real_kubelets import ImpossibleError, require_possible
from tests.cluster.toolchain import parse_version
from tests.cluster.up import leave_on_signals, tell
from tests.cluster.versions import versions
from tests.conformance import allocations, recordings
from tests.conformance.cases import UnusableError, files, tallies
from tests.conformance.random_claims import draw_cases
from tests.conformance.random_machines import plays
from tests.conformance.random_selectors import draw_selectors
from tests.conformance.recorder import record


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.command is not None:
        try:
            return _record(options) if options.command == "record" else _ask(options)
        except (AssetError, BuildFailedError, ImpossibleError, NotReadyError, OSError, ProcessEndedError) as error:
            _complain(error)
            return 2
    if options.cases is None:
        _parser().error("the following arguments are required: --cases, or a command")
    return _replay(options.cases, options.show)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--cases", type=Path, metavar="DIR", help="directory with the golden files")
    parser.add_argument(
        "--show", type=_count, default=10, metavar="N", help="disagreements to show per line (default 10)"
    )
    commands = parser.add_subparsers(dest="command", metavar="record|claims")
    recorder = commands.add_parser(
        "record",
        help="play random machines on real kubelets and compare",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    recorder.add_argument("--machines", type=_positive, default=6, metavar="N", help="how many, side by side")
    recorder.add_argument("--pods", type=_positive, default=20, metavar="N", help="how many come to each machine")
    recorder.add_argument("--seed", type=_count, default=0, metavar="N", help="what the machines and pods follow from")
    recorder.add_argument("--kubernetes", choices=versions(), metavar="VERSION", help=f"one of {', '.join(versions())}")
    recorder.add_argument("--into", type=Path, metavar="FILE", help="write the recording, as .jsonl.gz")
    recorder.add_argument("--show", type=_count, default=10, metavar="N", help="disagreements to show per line")
    asker = commands.add_parser(
        "claims",
        help="ask kube-scheduler's device allocator about random claims and compare",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    asker.add_argument("--number", type=_positive, default=300, metavar="N", help="how many pods")
    asker.add_argument("--selectors", action="store_true", help="not pods, but selectors, each with five devices")
    asker.add_argument("--seed", type=_count, default=0, metavar="N", help="what devices and claims follow from")
    asker.add_argument(
        "--kubernetes",
        choices=allocations.VERSIONS,
        metavar="VERSION",
        help=f"one of {', '.join(allocations.VERSIONS)}",
    )
    asker.add_argument("--into", type=Path, metavar="FILE", help="write the cases and answers, as .jsonl.gz")
    asker.add_argument("--show", type=_count, default=10, metavar="N", help="disagreements to show per line")
    return parser


def _record(options: argparse.Namespace) -> int:
    require_possible(options.machines)
    _require_folder(options.into)
    leave_on_signals()
    version = options.kubernetes or wanted_version()
    major, minor = parse_version(version)[:2]
    drawn = plays(options.seed, options.machines, options.pods, (major, minor))
    with ControlPlane.start(find_assets(tell, kubernetes=version)) as plane:
        cases = record(plane, drawn, f"seed-{options.seed}", tell)
    _write(options.into, cases)
    found = recordings.check(cases)
    for tally in found:
        _say(*tally.lines(options.show))
    held = all(tally.passes for tally in found)
    pods = sum(len(case["pods"]) for case in cases)
    differences = sum(tally.total - tally.agree for tally in found[1:])
    _say(f"Kubernetes {version}, seed {options.seed}: {pods} pods on {len(cases)} machines, {differences} differences")
    return 0 if held else 1


def _ask(options: argparse.Namespace) -> int:
    _require_folder(options.into)
    asked = [options.kubernetes] if options.kubernetes else allocations.VERSIONS
    programs = {version: allocations.find_allocator(version, tell) for version in asked}
    draw, check = (
        (draw_selectors, allocations.check_selectors) if options.selectors else (draw_cases, allocations.check)
    )
    cases = list(allocations.answered(draw(options.seed, options.number), programs))
    _write(options.into, cases)
    found = check(cases)
    for tally in found:
        _say(*tally.lines(options.show))
    what = "selectors" if options.selectors else "pods with claims"
    _say(f"Kubernetes {', '.join(asked)}, seed {options.seed}: {len(cases)} {what}")
    return 0 if all(tally.passes for tally in found) else 1


def _require_folder(into: Path | None) -> None:
    if into is not None and not into.parent.is_dir():
        raise AssetError(f"--into: there is no folder {into.parent}")


def _write(into: Path | None, cases: Sequence[Mapping[str, Any]]) -> None:
    if into is not None:
        lines = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
        into.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _count(text: str) -> int:
    """A whole number from 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0")
    return int(text)


def _positive(text: str) -> int:
    """A whole number from 1."""
    if not _count(text):
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def _replay(cases: Path, show: int) -> int:
    try:
        paths = files(cases)
    except UnusableError as error:
        _complain(error)
        return 2
    held = usable = True
    for path in paths:
        try:
            found = tallies(path)
        except UnusableError as error:
            _complain(error)
            usable = False
            continue
        for tally in found:
            held &= tally.passes
            name, *details = tally.lines(show)
            _say(name if tally.name else path.name + name, *details)
    _say("all floors held" if held else "BELOW A FLOOR")
    return 1 if not held else 0 if usable else 2


def _complain(error: Exception) -> None:
    sys.stderr.write(f"error: {error}\n")


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
