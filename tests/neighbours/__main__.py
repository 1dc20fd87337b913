"""python -m tests.neighbours [NAME ...]: build components of other projects, once into the user's cache folder."""

from __future__ import annotations

import argparse
import sys

from tests.cluster.build import BuildFailedError
from tests.cluster.up import tell
from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import CATALOGUE


def main() -> int:
    """0: done; 1: a build failed; 2: wrong use."""
    options = parser().parse_args()
    try:
        for each in map(CATALOGUE.__getitem__, options.names or CATALOGUE):
            if each.header and each.header.missing and not options.names:
                tell(f"{each.name}: not built, its tests are skipped: `apt-get install {each.header.package}`")
            else:
                tell(f"{each.name}: {find_neighbour(each, tell).program}")
    except BuildFailedError as error:
        tell(f"error: {error}")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.neighbours", description=__doc__)
    top.add_argument("names", nargs="*", type=_known, metavar="NAME", help=f"{', '.join(CATALOGUE)}; without: all")
    return top


def _known(name: str) -> str:
    """A component's name. `choices` would refuse that there is none."""
    if name not in CATALOGUE:
        raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(CATALOGUE)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
