"""All benches as one command: `python -m tests.bench [--json] [--only engine,w1,crowd,overhead,worst]`.

With --json it prints one object a line, otherwise a table. The text above each bench explains its figures.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.bench import crowd, engine, overhead, w1, worst


class Bench(NamedTuple):
    """A bench: an explanation of its figures, its measurements, and one measurement as text."""

    about: str | None
    lines: Callable[[], Iterable[dict[str, Any]]]
    text: Callable[[dict[str, Any]], str]


BENCHES = {
    "engine": Bench(engine.__doc__, engine.lines, engine.text),
    "w1": Bench(w1.__doc__, w1.lines, w1.text),
    "crowd": Bench(crowd.__doc__, crowd.lines, crowd.text),
    "overhead": Bench(overhead.__doc__, overhead.lines, overhead.text),
    "worst": Bench(worst.__doc__, worst.lines, worst.text),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen benches; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed, as ratios of one run.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--only", metavar="NAMES", help=f"comma-separated, of: {', '.join(BENCHES)}")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",") if options.only else list(BENCHES)
    if unknown := [name for name in chosen if name not in BENCHES]:
        parser.error(f"unknown bench {', '.join(unknown)}: there are {', '.join(BENCHES)}")
    for name in chosen:
        bench = BENCHES[name]
        if not options.json and bench.about:
            print(f"== {name}\n{bench.about}")
        for line in bench.lines():
            print(json.dumps(line) if options.json else bench.text(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
