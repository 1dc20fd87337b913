"""python -m tests.neighbours [NAME ...]: build components of other projects, once into the user's cache folder.

Without names it builds those of the short round in `make test`; `all` means every one.
"""

from __future__ import annotations

import argparse
import sys

from tests.cluster.build import BuildFailedError
from tests.cluster.up import tell
from tests.neighbours.build import find_neighbour
from tests.neighbours.catalogue import CATALOGUE, SHORT_ROUND


def main() -> int:
    """0: done; 1: a build failed; 2: wrong use."""
    names = sys.argv[1:] or [each.name for each in SHORT_ROUND]
    options = parser().parse_args(names)
    try:
        for name in CATALOGUE if "all" in options.names else options.names:
            tell(f"{name}: {find_neighbour(CATALOGUE[name], tell).program}")
    except BuildFailedError as error:
        tell(f"error: {error}")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.neighbours", description=__doc__)
    top.add_argument("names", nargs="+", metavar="NAME", choices=[*CATALOGUE, "all"], help=", ".join(CATALOGUE))
    return top


if __name__ == "__main__":
    sys.exit(main())
