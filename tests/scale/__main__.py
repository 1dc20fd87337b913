"""python -m tests.scale: a replica in a cluster of up to 100,000 nodes, from its start to its limits.

The replica is a process of its own, and the only thing that is not real for it is the API server: a synthetic one
answers with list pages and watch events as bytes, and sends reviews over HTTPS (tests/scale/api_server.py).
docs/scale.md explains the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace

from tests.scale.run import Size, measure
from tests.scale.text import text
from webhook.app.main import _loop_factory


def main(arguments: list[str] | None = None) -> int:
    """Measure; returns the exit status."""
    options = parser().parse_args(arguments)
    size = Size(options.nodes[0], options.zones, options.pods, options.churn, options.updates, options.seconds)
    size = replace(size, flood=options.flood)
    for nodes in options.nodes:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            figures = runner.run(measure(replace(size, nodes=nodes), _progress))
        print(json.dumps(figures) if options.json else text(figures), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__)
    sizes = made.add_argument_group("the cluster")
    sizes.add_argument("--nodes", type=_numbers, default=[50_000], help="nodes; several sizes: 1000,5000,50000")
    sizes.add_argument("--zones", type=int, default=8, help="NUMA nodes of each")
    sizes.add_argument("--pods", type=int, default=10, help="pods of each")
    made.add_argument("--updates", type=float, help="NRT updates a second; default: each node's once a minute")
    made.add_argument("--churn", type=float, default=100.0, help="pods created, and deleted, a second")
    made.add_argument("--seconds", type=float, default=30.0, help="of steady load")
    made.add_argument("--flood", type=int, default=5000, help="NRT updates at once")
    made.add_argument("--json", action="store_true", help="one JSON object a line")
    return made


def _numbers(values: str) -> list[int]:
    return [int(value) for value in values.split(",")]


def _progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
