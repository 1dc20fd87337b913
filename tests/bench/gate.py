"""Costs and benefits of the gate: the same burst of pods with `Never`, `WhenNeeded` and `Always`.

Many clients create twice as many pods as the NUMA nodes hold, all at once: the first half runs, the second waits.
Then the first half ends. The figures of a mode:

- creates/s: of both halves, through the API server;
- refused: bindings that the guard refused, each of them a failed attempt of the scheduler;
- bound: how many places were taken, and how many seconds after the first creation. The other places stay empty,
  because the pods that the scheduler could bind are held to other nodes;
- then: the same for the second half, counted from the end of the first.

    python -m tests.bench.gate [nodes]
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.cluster.assets import find_assets
from tests.cluster.audit import overcommitted
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import Pods, pod, wait_until_known
from tests.cluster.nodes import machines, present
from tests.cluster.webhook_process import local_webhook

MODES = ("Never", "WhenNeeded", "Always")
ZONES = 4
# Of 16 in a NUMA node: one pod fills it, though the node's sum has room for two more.
CPUS = 10
# The scheduler tries a pod that it could not place again after 1 to 10 s.
STILL_SECONDS = 25.0


class PlacesTaken(NamedTuple):
    """How many places were taken, of how many, and when."""

    places: int
    of: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.places} of {self.of} in {self.seconds:5.1f} s"


class Measured(NamedTuple):
    """The figures of one mode."""

    mode: str
    creates: float
    refused: int
    bound: PlacesTaken
    then: PlacesTaken

    def __str__(self) -> str:
        return (
            f"{self.mode:12} {self.creates:5.0f} creates/s  {self.refused:5} refused  bound {self.bound}"
            f"  then {self.then}"
        )


def measure(plane: ControlPlane, mode: str, nodes: int, folder: Path) -> Measured:
    """Measure one burst."""
    values = folder / f"{mode}.yaml"
    values.write_text(f"settings: {{gate: {mode}, logLevel: warning}}\n")
    slots = nodes * ZONES
    namespace = f"burst-{mode}"
    plane.create_namespace(namespace)
    pods = Pods(plane, namespace)
    try:
        with local_webhook(plane, values=values) as webhook, present(plane.api, machines(nodes, ZONES, prefix="gate")):
            wait_until_known(pods, nodes)
            began = time.monotonic()
            plane.api.in_parallel(partial(pods.create, pod(f"p{number:04}", cpu=CPUS)) for number in range(2 * slots))
            creates = 2 * slots / (time.monotonic() - began)
            bound = _taken(pods, slots, began)
            first, began = pods.bound(), time.monotonic()
            plane.api.in_parallel(partial(pods.delete, name) for name in first)
            then = _taken(pods, slots, began)
            assert overcommitted(plane, pods.all().values()) == {}
            return Measured(mode, creates, sum(one.refused_bindings() for one in webhook.replicas), bound, then)
    finally:
        plane.delete_namespace(namespace)


def _taken(pods: Pods, slots: int, began: float) -> PlacesTaken:
    """Wait until all places are taken, or until nothing has changed for `STILL_SECONDS`."""
    most, moved = 0, time.monotonic()
    while most < slots and time.monotonic() - moved < STILL_SECONDS:
        time.sleep(0.2)
        now = len(pods.bound())
        if now > most:
            most, moved = now, time.monotonic()
    return PlacesTaken(most, slots, moved - began)


def main(arguments: list[str]) -> int:
    """Measure every mode."""
    nodes = int(arguments[0]) if arguments else 30
    with TemporaryDirectory() as folder, ControlPlane.start(find_assets(print)) as plane:
        plane.install_crds()
        for mode in MODES:
            print(measure(plane, mode, nodes, Path(folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
