"""Gangs and pods of high priority come at once to a cluster that is full: all start, and no pod ends in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.racked import RACKS, rack_of, topology_of_racks
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.preempting import fill, of, priority_classes
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

__all__ = ["priority_classes"]  # a fixture

# rack r0 ── k0 NUMA 0 [8] NUMA 1 [8], k1 likewise; racks r1 to r4 likewise: k2 ... k9
FLEET = [
    even_machine(f"k{number}", cpus=8, labels={ZONE_LABEL: "z0", RACK_LABEL: f"r{number // 2}"}) for number in range(10)
]
GANGS = 3
"""Of four pods that need a NUMA node each: a rack for each gang."""
SINGLES = 6
"""Of 4 CPUs: two share a NUMA node."""


@pytest.fixture(scope="module")
def machines(control_plane: ControlPlane) -> Iterator[Kubelets]:
    with topology_of_racks(control_plane), kubelets(control_plane, FLEET, lag=1.0) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, machines: Kubelets) -> Iterator[LocalWebhook]:
    del machines
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    pods = Pods(control_plane, namespace)
    wait_until_known(pods, len(FLEET))
    yield pods
    control_plane.delete_namespace(namespace)


def test_all_start_and_only_as_many_pods_end_as_have_to(pods: Pods) -> None:
    low = fill(pods, *(machine.name for machine in FLEET))
    gangs = [[f"gang-{number}-{rank}" for rank in range(4)] for number in range(GANGS)]
    for number, members in enumerate(gangs):
        annotations = {POD_GROUP_NAME: f"gang-{number}", MIN_MEMBER: "4", **RACKS}
        for name in members:
            pods.create(of(name, "high", annotations=annotations))
    singles = [f"single-{number}" for number in range(SINGLES)]
    for name in singles:
        pods.create(of(name, "high", cpu=4))
    pods.wait_until_bound(*singles, *(name for members in gangs for name in members))
    racks = [{rack_of(pods, name) for name in members} for members in gangs]
    assert all(len(found) == 1 for found in racks)
    assert len(set().union(*racks)) == GANGS
    left = pods.all().keys() & set(low)
    assert len(low) - len(left) == 4 * GANGS + SINGLES // 2
    failed = [name for name, raw in pods.all().items() if raw["status"].get("phase") == "Failed"]
    assert failed == []
