"""Many pods at once until the last one is bound, with our webhook and without any webhook, on the real control plane.

Rounds alternate between both ways, with the same pods on the same machines. All pods fit, wherever the scheduler puts
them, so the way without a webhook has nothing to correct.

- `pods`: annotated pods, each placed for itself.
- `gang`: members of one gang, which is placed as a whole when the last member is there.

Figures: seconds from the first creation until the last binding, and their ratio to no webhook in the same round;
bindings that the guard refused; CPU time a pod by program. The webhook watches the pods of the other way as well: what
it spends there is the cost of watching.

    python -m tests.bench.burst [--pods 2000] [--gang 512] [--rounds 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.overhead_cluster import Burst, Setup, burst, namespaces, our_webhook
from tests.cluster.assets import find_assets
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import pod
from tests.cluster.nodes import create_machines, machines
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.webhook_process import LocalWebhook

WAYS = ("none", "ours")
ZONES = 4
CPUS = 5
"""Of 16 in a NUMA node: three pods each. 12 pods of a machine take 60 of its 64 CPUs, so its sum has no more room."""
PER_MACHINE = 12
SPARE = 1.2
"""Machines, of those that the pods need."""


class Round(NamedTuple):
    """One way in one round."""

    result: Burst
    refused: int


def main(arguments: list[str] | None = None) -> int:
    """Run this bench."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.burst")
    parser.add_argument("--pods", type=int, default=2000, help="pods at once; 0: leave this out")
    parser.add_argument("--gang", type=int, default=512, help="members of the gang; 0: leave this out")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    for line in lines(options.pods, options.gang, options.rounds):
        sys.stdout.write((json.dumps(line) if options.json else text(line)) + "\n")
        sys.stdout.flush()
    return 0


def lines(pods: int, gang: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Every measurement."""
    count = int(max(pods, gang) / PER_MACHINE * SPARE) + 1
    with (
        TemporaryDirectory() as scratch,
        ControlPlane.start(find_assets(_tell)) as plane,
        namespaces(plane),
    ):
        folder = Path(scratch)
        plane.install_crds()
        create_machines(plane.api, machines(count, ZONES, prefix="burst"))
        with our_webhook(plane, folder, Setup("Always", 1), count) as webhook:
            if pods:
                yield from _of(plane, folder, webhook, "pods", pod("NAME", cpu=CPUS), pods, rounds)
            if gang:
                member = pod("NAME", cpu=CPUS, annotations={POD_GROUP_NAME: "gang", MIN_MEMBER: str(gang)})
                yield from _of(plane, folder, webhook, "gang", member, gang, rounds)


def _of(
    plane: ControlPlane,
    folder: Path,
    webhook: LocalWebhook,
    what: str,
    raw: dict[str, Any],
    pods: int,
    rounds: int,
) -> Iterator[dict[str, Any]]:
    seen: dict[str, list[Round]] = defaultdict(list)
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            before = _refused(webhook)
            result = burst(plane, folder, way, raw, pods, until_bound=True)
            seen[way].append(Round(result, _refused(webhook) - before))
    for way in WAYS:
        pairs = zip(seen[way], seen["none"], strict=True)
        results = [one.result for one in seen[way]]
        yield {
            "bench": "burst",
            "what": what,
            "webhook": way,
            "pods": pods,
            "bound": [one.bound for one in results],
            "seconds": round(median(one.seconds for one in results), 2),
            "ratio_to_none": round(median(one.result.seconds / none.result.seconds for one, none in pairs), 2),
            "refused": [one.refused for one in seen[way]],
            "cpu_us": {name: round(median(one.cpu_us[name] for one in results)) for name in results[0].cpu_us},
        }


def _refused(webhook: LocalWebhook) -> int:
    return sum(replica.refused_bindings() for replica in webhook.replicas)


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    spent = "  ".join(f"{program} {us}" for program, us in line["cpu_us"].items() if us)
    return (
        f"{line['what']:4}  {line['webhook']:4}  bound {line['bound']} of {line['pods']}  {line['seconds']:.1f} s  "
        f"{line['ratio_to_none']:.2f} of none  refused {line['refused']}  CPU in us a pod: {spent}"
    )


def _tell(line: str) -> None:
    sys.stderr.write(f"==> {line}\n")


if __name__ == "__main__":
    sys.exit(main())
