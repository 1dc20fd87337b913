"""The command: replay every golden file of a directory and report how far the engine agrees.

Prints `FILE agree/total`, and below it the parts and the first disagreements. Exit status: 0 all floors held,
1 a file is below its floor, 2 a file cannot be used.
"""

import argparse
import sys
from pathlib import Path

from tests.conformance.cases import UnusableError, files, tallies


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--cases", type=Path, required=True, metavar="DIR", help="directory with the golden files")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to show per line (default 10)")
    options = parser.parse_args(arguments)
    try:
        paths = files(options.cases)
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
            name, *details = tally.lines(options.show)
            _say(name if tally.name else path.name + name, *details)
    _say("all floors held" if held else "BELOW A FLOOR")
    return 1 if not held else 0 if usable else 2


def _complain(error: UnusableError) -> None:
    sys.stderr.write(f"error: {error}\n")


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
