"""python -m tests.repeat --rounds N --load K [--only fast|cluster] [TEST ...]: which tests fail on a busy machine?

1. K processes keep a core busy each, as long as the rounds last.
2. A round is what `make test` runs after lint, or the named tests. Its seed is its number: the order of Python's sets
   and the moments of the restarts follow from it.
3. After each round, every test that failed is printed with its seed, its log, and the command that repeats it.

0: no test failed in any round; 1: some did, or a round ended without a result; 2: wrong use. All that it started ends
with it, also when it is killed. It leaves the logs of tests that failed, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.process import Process
from tests.cluster.up import leave_on_signals, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
GROUPS = ("fast", "cluster")
"""The parts of `make test` that run tests, each as `make test-<part>`."""
# Beside four busy processes on two cores, a part takes three times as long: half an hour at most.
MOST_SECONDS = 3600.0
LINES = 30
"""Of a failure's log that are printed; the file has all."""


@dataclass(frozen=True)
class Failure:
    """A test that failed, or a part of a round without a result."""

    test: str
    log: str


@contextlib.contextmanager
def busy(processes: int, folder: Path) -> Iterator[None]:
    """Keep as many cores busy. The folder in their arguments says whose they are."""
    loop: list[str | Path] = [sys.executable, "-I", "-S", "-c", "while True: pass", folder]
    with contextlib.ExitStack() as stack:
        for number in range(processes):
            stack.callback(Process(f"busy {number}", loop, folder / "busy.log").kill)
        yield


def play(seed: int, part: str, tests: Sequence[str], folder: Path) -> list[Failure]:
    """Run a part of `make test`, or the named tests, with a seed."""
    results = folder / f"{part}.xml"
    results.unlink(missing_ok=True)
    written = f"--junitxml={results}"
    argv = (
        [sys.executable, "-m", "pytest", "-q", f"--config-file={ROOT / 'pyproject.toml'}", written, *tests]
        if tests
        else ["make", "--no-print-directory", f"test-{part}", f"ARGS={written}"]
    )
    log = folder / f"{part}.log"
    log.unlink(missing_ok=True)
    # SIGTERM first: pytest ends the control planes that it has started.
    run = Process(part, argv, log, env={**os.environ, **variables(seed)}, cwd=ROOT, grace_seconds=30)
    try:
        code = run.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return [Failure(part, f"no result after {MOST_SECONDS:.0f} s\n{run.tail(LINES)}")]
    finally:
        run.stop()
    failures = failed(results) if results.exists() else []
    return failures or ([Failure(part, run.tail(LINES))] if code else [])


def variables(seed: int) -> Mapping[str, str]:
    """What a seed decides."""
    return {"PYTHONHASHSEED": str(seed), "TOPOLOGY_WEBHOOK_TEST_SEED": str(seed)}


def failed(results: Path) -> list[Failure]:
    """The tests that failed or could not be set up, from pytest's file of results."""
    return [
        Failure(
            f"{case.get('file')}::{case.get('name')}",
            "\n".join(part for each in found for part in (each.get("message"), each.text) if part),
        )
        for case in ET.parse(results).iter("testcase")  # noqa: S314 - pytest has just written it
        if (found := [*case.iter("failure"), *case.iter("error")])
    ]


def tell_failure(failure: Failure, seed: int, logs: Path) -> None:
    """Print a failure with its seed, the end of its log, and the file that has all of it."""
    logs.mkdir(exist_ok=True)
    log = logs / f"seed-{seed}-{len([*logs.iterdir()])}.log"
    log.write_text(f"{failure.test}\n{failure.log}\n")
    again = " ".join(f"{name}={value}" for name, value in variables(seed).items())
    tell(f"FAILED {failure.test} seed={seed} log={log}")
    for line in failure.log.splitlines()[-LINES:]:
        tell(f"    {line}")
    tell(f"    to repeat it: {again} pytest '{failure.test}'")


def main() -> int:
    """Run the rounds."""
    options = parser().parse_args()
    leave_on_signals()
    parts = ["tests"] if options.tests else [options.only] if options.only else GROUPS
    logs = Path(tempfile.gettempdir()) / f"topology-webhook-repeat-{os.getpid()}"
    found: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as scratch, busy(options.load, Path(scratch)):
        for seed in range(1, options.rounds + 1):
            start = time.monotonic()
            for part in parts:
                for failure in play(seed, part, options.tests, Path(scratch)):
                    tell_failure(failure, seed, logs)
                    found.setdefault(failure.test, []).append(seed)
            tell(f"round {seed} of {options.rounds}: {time.monotonic() - start:.0f} s")
    for test, seeds in found.items():
        tell(f"failed in {len(seeds)} of {options.rounds} rounds: {test} (seeds {', '.join(map(str, seeds))})")
    if not found:
        tell(f"no test failed in {options.rounds} rounds beside {options.load} busy processes")
    return 1 if found else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__.splitlines()[0])
    top.add_argument("--rounds", type=int, required=True, choices=range(1, 1001), metavar="N", help="how many")
    top.add_argument("--load", type=int, default=0, choices=range(257), metavar="K", help="busy processes beside them")
    top.add_argument("--only", choices=GROUPS, help="one part of `make test`")
    top.add_argument("tests", nargs="*", metavar="TEST", help="what pytest runs instead of `make test`")
    return top


if __name__ == "__main__":
    sys.exit(main())
