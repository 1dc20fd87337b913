"""What every scenario runs on: a control plane, nodes in racks, and two replicas of the webhook.

One bed serves one scenario after the other. Replicas that exit by themselves are counted and started again, as a
kubelet would do.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from kubernetes.utils.quantity import parse_quantity

from tests.builders.devices import claim_template, device_class, gpus, resource_slice
from tests.chaos.load import CLAIM_TEMPLATE, Pace
from tests.cluster.audit import Slot
from tests.cluster.claim_journal import DRA
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelets import SLICES
from tests.cluster.mixed_load import racks_known
from tests.cluster.nodes import NODES_PER_RACK, RACK_LABEL, Machine, create_machines, machines
from tests.cluster.process import ProcessEndedError
from tests.cluster.stubborn import done, until
from tests.cluster.webhook_process import CHART, QUICK_LEASE, LocalWebhook, Replica, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.webhook_process import Images

# rack-0, rack-1, rack-2 ── 16 nodes each, policy single-numa-node
# rack-3 ── 16 nodes: 6 restricted, 5 best-effort, 5 none
# Each node has 2 NUMA nodes of 16 CPUs: 2,048 CPUs.
RACKS = 4
MIXED = ("restricted",) * 6 + ("best-effort",) * 5 + ("none",) * 5
# The chart's own failure policies: what is tried is what people install. But a leader counts as dead after 6 s, not 15.
VALUES: Mapping[str, Any] = {"settings": {"drainSeconds": 2, **QUICK_LEASE}}
WATCH_SECONDS = 0.1
# A kubelet starts a container that ended again after 10 s; a test is in a hurry, and no program starts faster.
RESTART_SECONDS = 2.0
TOLD_CHARACTERS = 400


def fleet() -> list[Machine]:
    """The nodes as they are created."""
    made = machines(RACKS * NODES_PER_RACK, 2, prefix="chaos")
    mixed = [replace(machine, policy=policy) for machine, policy in zip(made[-len(MIXED) :], MIXED, strict=True)]
    return [*made[: -len(MIXED)], *mixed]


def capacity(fleet: list[Machine]) -> dict[Slot, Decimal]:
    """What each NUMA node offers to pods."""
    return {
        Slot(machine.name, int(zone["name"].removeprefix("node-")), resource["name"]): Decimal(
            parse_quantity(resource["available"])
        )
        for machine in fleet
        for zone in machine.topology()["zones"]
        for resource in zone["resources"]
    }


class Bed:
    """Use `Bed.made()`."""

    pace = Pace()
    has_kubelets = False

    def __init__(self, plane: ControlPlane, webhook: LocalWebhook, fleet: list[Machine]) -> None:
        self.plane = plane
        self.webhook = webhook
        self.fleet = fleet
        self.exits: list[str] = []
        """What replicas that exited without being asked said last."""
        self._held: set[str] = set()
        self._ended = threading.Event()

    @classmethod
    @contextlib.contextmanager
    def made(
        cls,
        assets: Mapping[str, Path],
        *,
        values: Mapping[str, Any] = VALUES,
        chart: Path = CHART,
        images: Images | None = None,
    ) -> Iterator[Bed]:
        """Start all of it. Everything ends with the context. values, chart, images: as of `local_webhook`."""
        with ControlPlane.start(assets) as plane:
            plane.install_crds()
            nodes = fleet()
            create_machines(plane.api, nodes)
            with (
                racks_known(plane),
                local_webhook(
                    plane, replicas=2, values=values, chart=chart, images=images, client_certificates=False
                ) as webhook,
                cls(plane, webhook, nodes).watched() as bed,
            ):
                yield bed

    @contextlib.contextmanager
    def watched(self) -> Iterator[Self]:
        """Start replicas again that exit within this context. It begins when everything is up."""
        watchdog = threading.Thread(target=self._watch, name="watchdog")
        watchdog.start()
        try:
            self.wait_until_whole()
            yield self
        finally:
            self._ended.set()
            watchdog.join()

    def capacity(self) -> dict[Slot, Decimal]:
        """What each NUMA node offers to pods."""
        return capacity(self.fleet)

    def racks(self) -> dict[str, str]:
        """The rack of each node, whatever its label says later."""
        return physical_racks(self.fleet)

    @contextlib.contextmanager
    def devices(self, *namespaces: str) -> Iterator[None]:
        """Each NUMA node has as many GPUs as CPUs within this context, and the namespaces a template of claims for one.

        A pod with as many CPUs as GPUs, or more, finds devices wherever it finds CPUs.
        """
        api = self.plane.api
        made = [(f"{DRA}/deviceclasses", device_class())]
        for machine in self.fleet:
            near = gpus(*(numa for numa in range(len(machine.free)) for _ in range(machine.cpus)))
            made.append((SLICES, resource_slice(machine.name, near)))
        try:
            api.in_parallel(partial(api.create, path, raw) for path, raw in made)
            for name in namespaces:
                template = claim_template(CLAIM_TEMPLATE, namespace=name)
                api.create(f"{DRA}/namespaces/{name}/resourceclaimtemplates", template)
            yield
        finally:
            api.in_parallel(
                partial(done, partial(api.delete, f"{path}/{raw['metadata']['name']}")) for path, raw in made
            )

    @contextlib.contextmanager
    def namespaces(self, *names: str) -> Iterator[None]:
        """These namespaces exist within the context."""
        try:
            for name in names:
                self.plane.create_namespace(name)
            yield
        finally:
            for name in names:
                self.plane.delete_namespace(name)

    def leader(self) -> Replica:
        """The replica that holds the Lease."""
        until("one leader", lambda: len(self.webhook.leaders) == 1)
        return self.webhook.leaders[0]

    @contextlib.contextmanager
    def held(self, *replicas: Replica) -> Iterator[None]:
        """Within this context the scenario ends these replicas and starts them again."""
        names = {replica.name for replica in replicas}
        self._held |= names
        try:
            yield
        finally:
            self._held -= names

    def wait_until_whole(self) -> None:
        """Wait until everything is up, one replica leads, and the API server calls the webhook."""
        self.plane.wait_until_ready()
        self.wait_until_served()

    def wait_until_served(self) -> None:
        """Wait until both replicas are up, one leads, and the API server calls the webhook."""
        until("both replicas to be ready", lambda: all(_is_ready(replica) for replica in self.webhook.replicas))
        until("a leader to be found", self._leader_is_found)
        until("a first call", self.webhook.is_called)

    def _leader_is_found(self) -> bool:
        return len(self.webhook.leaders) == 1 and self.webhook.leaders[0].process.running

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            for replica in self.webhook.replicas:
                if replica.name not in self._held and not replica.process.running:
                    last = replica.process.tail(1)[:TOLD_CHARACTERS]
                    self.exits.append(f"{replica.name} ended with exit code {replica.process.exit_code}: {last}")
                    self._ended.wait(RESTART_SECONDS)
                    replica.start(replica.backend)


def physical_racks(fleet: list[Machine]) -> dict[str, str]:
    """The rack of each node, whatever its label says later."""
    return {machine.name: machine.labels[RACK_LABEL] for machine in fleet}


def _is_ready(replica: Replica) -> bool:
    try:
        return replica.is_ready()
    except ProcessEndedError:  # the watchdog starts it again
        return False
