"""The speed of ungating, compared with plain patches of the same pods by the same client.

All NUMA nodes are full while the pods are created, so all pods wait. Then every machine is free at once.

- patches/s: one annotation into each of the waiting pods, with the controller's concurrency. API server, client and
  machine allow this rate;
- ungates/s: from the first free machine to the last ungated pod, and its ratio to patches/s. `alone`: the scheduler
  is paused. `bound`: it binds the pods meanwhile, and the guard answers for each.

    python -m tests.bench.ungate [pods nodes]
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.assets import find_assets
from tests.cluster.audit import overcommitted
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import Pods, is_gated, pod, scheduler_paused, wait_until_known
from tests.cluster.nodes import Machine, machines, present, publish
from tests.cluster.webhook_process import NAMESPACE, RELEASE, local_webhook
from webhook.app.clients import placement_pace
from webhook.app.leader_runnables import WRITES_AT_A_TIME
from webhook.kube.client import Client
from webhook.kube.pod_writes import PodWrites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ZONES = 4
# Of 16 in a NUMA node: three pods each.
CPUS = 5
PER_ZONE = 3


class Measured(NamedTuple):
    """The figures of one burst."""

    name: str
    pods: int
    ungates: float
    patches: float

    def __str__(self) -> str:
        ratio = self.ungates / self.patches
        return (
            f"{self.name}  {self.pods} pods  {self.patches:4.0f} patches/s  {self.ungates:4.0f} ungates/s: {ratio:.2f}"
        )


def measure(plane: ControlPlane, name: str, count: int, fleet: Sequence[Machine]) -> Measured:
    """Measure one burst with an installed webhook. The machines must have room for all of it."""
    namespace = f"ungate-{name}"
    plane.create_namespace(namespace)
    pods = Pods(plane, namespace)
    full = [Machine(one.name, free=(0,) * ZONES, labels=one.labels) for one in fleet]
    try:
        with present(plane.api, full), contextlib.ExitStack() as still:
            wait_until_known(pods, len(fleet))
            plane.api.in_parallel(partial(pods.create, pod(f"p{number:04}", cpu=CPUS)) for number in range(count))
            names = sorted(pods.gated())
            patches = len(names) / asyncio.run(_patch(plane, namespace, names))
            if name == "alone":
                still.enter_context(scheduler_paused(plane))
            version = plane.api.get(f"{pods.path}?limit=1")["metadata"]["resourceVersion"]
            began = time.monotonic()
            plane.api.in_parallel(partial(publish, plane.api, one) for one in fleet)
            _wait_until_ungated(pods, names, version)
            ungates = len(names) / (time.monotonic() - began)
            assert not pods.gated()
            assert overcommitted(plane, pods.all().values()) == {}
            # All of a collection in one request takes the API server longer than it has patience for.
            plane.api.in_parallel(partial(pods.delete, name) for name in names)
            return Measured(name, len(names), ungates, patches)
    finally:
        plane.delete_namespace(namespace)


def _wait_until_ungated(pods: Pods, names: Iterable[str], version: str) -> None:
    """Wait until the last pod is ungated. version: of the collection before the first is."""
    left = set(names)
    # A list of a thousand pods takes the API server 50 ms: to poll often would be measured as well.
    for event in pods.plane.api.watch(f"{pods.path}?watch=1&resourceVersion={version}"):
        if not is_gated(event["object"]):
            left.discard(event["object"]["metadata"]["name"])
        if not left:
            return
    raise RuntimeError("the API server ended the watch")


async def _patch(plane: ControlPlane, namespace: str, names: Iterable[str]) -> float:
    """Seconds to write an annotation into each of the pods."""
    slots = asyncio.Semaphore(WRITES_AT_A_TIME)
    # As the service itself: what others write into pods is reviewed.
    account = plane.service_account_kubeconfig(NAMESPACE, RELEASE)
    async with await Client.connect(account, pace=placement_pace()) as client:
        writes = PodWrites(client)

        async def patch(name: str) -> None:
            async with slots:
                write = await writes.annotate(f"{namespace}/{name}", "example.com/any", name)
                assert write.is_written, write.error

        began = time.monotonic()
        await asyncio.gather(*map(patch, names))
        return time.monotonic() - began


def main(arguments: list[str]) -> int:
    """Measure both modes."""
    count, nodes = map(int, arguments) if arguments else (1000, 100)
    if count > nodes * ZONES * PER_ZONE:
        print(f"{nodes} nodes have room for {nodes * ZONES * PER_ZONE} pods", file=sys.stderr)
        return 2
    fleet = machines(nodes, ZONES, prefix="ungate")
    with ControlPlane.start(find_assets(print)) as plane:
        plane.install_crds()
        with local_webhook(plane, values={"settings": {"logLevel": "warning"}}) as webhook:
            webhook.wait_until_called()
            for name in ("alone", "bound"):
                print(measure(plane, name, count, fleet), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
