"""Costs of admission on the real control plane: pods without a webhook, with a no-op webhook, and with ours.

Rounds alternate between four ways of admission: no webhook; a no-op in Go; a Go webhook that adds a gate and an
annotation to every pod, the least that a webhook with a gate must do; ours. A ratio is the median over rounds of
figures of the same round. 32 clients create annotated pods, which are managed, and plain ones, as fast as they get
answers: creates/s. For each further mode of `manage` there are pods that the mode does not cover. A gate of another
controller holds all these pods, so that only creation is measured. Other pods have no such gate and come 20 a second:
the time from creation to a node, p50 and p99. Two replicas are behind a relay in Python, which replaces kube-proxy
and costs more; the Go webhooks are behind it then, too.

    python -m tests.bench --only overhead      python -m tests.bench.overhead [--nodes 1000,5000] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.bench.overhead_cluster import ALIKE, HELD, WAYS, Burst, Setup, burst, go_webhooks, namespaces, our_webhook
from tests.cluster.assets import find_assets
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import pod
from tests.cluster.nodes import create_machines, machines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NODES = (1000, 5000)
ZONES = 8
# The first one, the default, at every size; the others at the first size only: each takes some three minutes.
UNMANAGED = [Setup("Always", 1, manage, unmanaged=True) for manage in ("Annotated", "Aligned", "All")]
SETUPS = [
    Setup("Always", 1),
    *UNMANAGED,
    Setup("WhenNeeded", 1),
    Setup("Never", 1),
    Setup("Always", 2),
]
ROUNDS = 3
# Nothing would take away the other one's gate, and it finds nothing to add to in pods without annotations.
WAYS_OF = {"annotated": WAYS, "plain": ALIKE, "unmanaged": ALIKE, "free": ALIKE}
PODS = 500
PACED = 100
# Under the 50 requests a second of a scheduler by its defaults, or pods would wait for it and for nothing else.
RATE = 20.0


def main() -> None:
    """Run this bench alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.overhead")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--nodes", default=",".join(map(str, NODES)), help="cluster sizes, growing")
    parser.add_argument("--unmanaged", action="store_true", help="only unmanaged pods, in each mode of manage")
    arguments = parser.parse_args()
    for line in lines([int(size) for size in arguments.nodes.split(",")], UNMANAGED if arguments.unmanaged else None):
        sys.stdout.write((json.dumps(line) if arguments.json else text(line)) + "\n")
        sys.stdout.flush()


def lines(sizes: Sequence[int] = NODES, setups: Sequence[Setup] | None = None) -> Iterator[dict[str, Any]]:
    """Every measurement."""
    setups = setups or SETUPS
    with (
        TemporaryDirectory() as folder,
        ControlPlane.start(find_assets(_tell)) as plane,
        namespaces(plane),
    ):
        plane.install_crds()
        there = 0
        for nodes in sizes:
            create_machines(plane.api, machines(nodes, ZONES)[there:])
            there = nodes
            for number, setup in enumerate(setups if nodes == sizes[0] else setups[:1]):
                scratch = Path(folder) / f"{nodes}-{number}"
                scratch.mkdir()
                yield from _of_setup(plane, scratch, nodes, setup)


def _of_setup(plane: ControlPlane, folder: Path, nodes: int, setup: Setup) -> Iterator[dict[str, Any]]:
    plain = {**pod("NAME", cpu=4), "metadata": {"name": "NAME"}}
    at = {"bench": "overhead", "nodes": nodes, "gate": setup.gate, "replicas": setup.replicas, "manage": setup.manage}

    def bursts_of(raw: dict[str, Any], ways: Sequence[str], pods: int, rate: float = 0.0) -> dict[str, list[Burst]]:
        return _in_rounds(ways, lambda way: burst(plane, folder, way, raw, pods, rate))

    with (
        our_webhook(plane, folder, setup, nodes),
        go_webhooks(plane, folder, relayed=setup.replicas > 1),
    ):
        held = {"annotated": pod("NAME", cpu=4, **HELD), "plain": {**plain, "spec": {**plain["spec"], **HELD}}}
        held = {"unmanaged": _unmanaged(setup.manage)} if setup.unmanaged else held
        for kind, raw in held.items():
            yield from _creates({**at, "what": "creates", "pods": kind}, bursts_of(raw, WAYS_OF[kind], PODS))
        if setup.unmanaged:
            return
        free = bursts_of(pod("NAME", cpu=4), WAYS_OF["free"], PACED, RATE)
        yield from _bound({**at, "what": "bound", "pods": "annotated"}, free)


def _unmanaged(manage: str) -> dict[str, Any]:
    """A pod that the mode does not cover: one that no kubelet aligns, or for `All` one of another scheduler."""
    raw: dict[str, Any] = {**pod("NAME", cpu=4, **HELD), "metadata": {"name": "NAME"}}
    if manage == "All":
        raw["spec"]["schedulerName"] = "other"
    else:
        del raw["spec"]["containers"][0]["resources"]["limits"]
    return raw


def _in_rounds(ways: Sequence[str], run: Callable[[str], Burst]) -> dict[str, list[Burst]]:
    seen: dict[str, list[Burst]] = defaultdict(list)
    for number in range(ROUNDS + 1):
        first = number % len(ways)
        for way in [*ways[first:], *ways[:first]]:
            result = run(way)
            if number:  # in round 0 connections are opened and caches filled
                seen[way].append(result)
    return {way: seen[way] for way in ways}


def _creates(at: dict[str, Any], seen: dict[str, list[Burst]]) -> Iterator[dict[str, Any]]:
    def ratio(way: str, other: str) -> float:
        pairs = zip(seen[way], seen[other], strict=True)
        return round(median(one.creates_per_second / base.creates_per_second for one, base in pairs), 3)

    for way, bursts in seen.items():
        yield {
            **at,
            "webhook": way,
            "creates_per_second": round(median(one.creates_per_second for one in bursts), 1),
            "ratio_to_none": ratio(way, "none"),
            "ratio_to_noop": ratio(way, "noop"),
            "create_ms": _percentiles([one.create_ms for one in bursts]),
            "cpu_us": _cpu(bursts),
        }


def _bound(at: dict[str, Any], seen: dict[str, list[Burst]]) -> Iterator[dict[str, Any]]:
    for way, bursts in seen.items():
        yield {
            **at,
            "webhook": way,
            "bound": sum(one.bound for one in bursts),
            "of": PACED * len(bursts),
            "bound_ms": _percentiles([one.bound_ms for one in bursts]),
            "cpu_us": _cpu(bursts),
        }


def _percentiles(of_rounds: list[tuple[float, float]]) -> dict[str, float]:
    p50, p99 = (round(median(column), 1) for column in zip(*of_rounds, strict=True))
    return {"p50": p50, "p99": p99}


def _cpu(bursts: list[Burst]) -> dict[str, int]:
    return {program: round(median(one.cpu_us[program] for one in bursts)) for program in bursts[0].cpu_us}


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    words = f"{line['nodes']:5} nodes  gate {line['gate']:11}  {line['replicas']} replica(s)  manage {line['manage']:9}"
    words += f"  {line['pods']:9}"
    words += f"  {line['webhook']:4}"
    if line["what"] == "creates":
        words += f"  {line['creates_per_second']:6.0f} creates/s  {line['ratio_to_none']:.2f} of none"
        words += f"  {line['ratio_to_noop']:.2f} of the no-op"
        times = line["create_ms"]
    else:
        words += f"  bound {line['bound']} of {line['of']}"
        times = line["bound_ms"]
    spent = "  ".join(f"{program} {us}" for program, us in line["cpu_us"].items() if us)
    return f"{words}  p50 {times['p50']:.1f} ms  p99 {times['p99']:.1f} ms  CPU in us a pod: {spent}"


def _tell(line: str) -> None:
    sys.stderr.write(f"==> {line}\n")


if __name__ == "__main__":
    main()
