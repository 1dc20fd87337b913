"""The command: replay every golden file of a directory and say how far the engine agrees.

Prints `FILE agree/total`, below it the parts and the first disagreements. Exit status: 0 all floors held, 1 some
file is below a floor, 2 the cases cannot be used.
"""

import argparse
import sys
from pathlib import Path

from tests.conformance.cases import UnusableError, files, read


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--cases", type=Path, required=True, metavar="DIR", help="directory with the golden files")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to show per line (default 10)")
    options = parser.parse_args(arguments)
    held = True
    try:
        for path in files(options.cases):
            check, cases = read(path)
            for tally in check(cases):
                held &= tally.passes
                name, *details = tally.lines(options.show)
                _say(name if tally.name else path.name + name, *details)
    except UnusableError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    _say("all floors held" if held else "BELOW A FLOOR")
    return 0 if held else 1


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
