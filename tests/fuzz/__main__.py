"""Search for inputs that break an invariant: `python -m tests.fuzz [--seconds N] [--seed S] [--only reviews,cli]`."""

import argparse
import asyncio
import logging
import os
import sys
from time import monotonic

import structlog

import tests.conftest  # noqa: F401 - the properties' profile, before any is imported
from tests.fuzz.outcome import Broken
from tests.fuzz.run import NAMES, PROPERTIES, FuzzProgress, fuzz
from tests.seeds import fresh_seed

_TELL_SECONDS = 5.0
_SHOWN = 4_000


def main() -> int:
    """Search. 0: nothing broke; 1: something did."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the first input; the next ones count up")
    parser.add_argument("--only", type=_parts, default=NAMES, metavar=",".join(NAMES), help="some of the parts")
    parser.add_argument("--count", type=int, default=None, help="at most so many inputs of each part")
    parser.add_argument(
        "--property", default="", metavar="NAME", help="of the properties those with this in their name"
    )
    options = parser.parse_args()
    seed = fresh_seed() if options.seed is None else options.seed
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of what is to be repeated
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.fuzz", *sys.argv[1:], "--seed", str(seed)])  # noqa: S606
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    _say(f"seed {seed}: {', '.join(options.only)} for {options.seconds:g} s (Ctrl-C ends it)")
    progress = Progress()
    searching = fuzz(
        options.only,
        seed,
        monotonic() + options.seconds,
        count=options.count,
        named=options.property,
        tell=progress.tell,
    )
    try:
        tally = asyncio.run(searching)
    except KeyboardInterrupt:
        _say(f"stopped; nothing broke in {_counted(progress.last)}")
        return 0
    for broken in tally.broken:
        _report(broken)
    if not tally.broken:
        _say(f"nothing broke in {_counted(tally)}")
    return 1 if tally.broken else 0


class Progress:
    """Print a line now and then."""

    def __init__(self) -> None:
        self.last = FuzzProgress()
        self._at = monotonic()

    def tell(self, tally: FuzzProgress) -> None:
        """The progress so far."""
        self.last = tally
        if monotonic() - self._at >= _TELL_SECONDS:
            self._at = monotonic()
            _say(f"  {_counted(tally)}")


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if wrong := [name for name in names if name not in NAMES]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(NAMES)}")
    return names


def _counted(tally: FuzzProgress) -> str:
    return ", ".join(f"{count} {name}" for name, count in tally.inputs.items())


def _report(broken: Broken) -> None:
    is_property = "::" in broken.part
    part = f"{PROPERTIES} --property {broken.part}" if is_property else broken.part
    shown = str(broken.drawn) if is_property else repr(broken.drawn)
    _say(f"BROKEN {broken.part}, seed {broken.seed}\n{broken.why.strip()}\ninput: {shown[:_SHOWN]}")
    _say(f"repeat: python -m tests.fuzz --only {part} --seed {broken.seed} --count 1")


def _say(text: str) -> None:
    print(text.encode(errors="backslashreplace").decode(), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    sys.exit(main())
