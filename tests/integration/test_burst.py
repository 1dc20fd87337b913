"""Hundreds of pods at once for too few NUMA nodes, and the leader dies in the middle: nothing is assigned twice.

400 pods in the mode with the gate run with the other tests. A thousand, the other modes, and exporters that publish
totals are `long`.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.audit import when_settled
from tests.cluster.gated import PLACEMENT, Pods, pod, wait_until_known
from tests.cluster.nodes import machines
from tests.cluster.webhook_process import QUICK_LEASE, local_webhook
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

NUMA_NODES = 4
# CPUs, of 16 in a NUMA node: 20 pods a node ask for 140 of the 64 there are.
SIZES = (4, 6, 8, 10)
PODS_PER_NODE = 20


@pytest.mark.parametrize(
    ("gate", "publisher", "nodes"),
    [
        ("Always", "rte", 20),
        *(
            pytest.param(*way, 50, marks=pytest.mark.long)
            for way in itertools.product(("Always", "WhenNeeded"), ("rte", "koordlet"))
        ),
        pytest.param("Never", "rte", 50, marks=pytest.mark.long),
    ],
)
def test_many_pods_at_once_and_the_leader_killed_in_the_middle_over_commit_nothing_and_lose_nobody(
    gate: str,
    publisher: str,
    nodes: int,
    create_machines: Callable[..., None],
    control_plane: ControlPlane,
    namespace: str,
    record_property: Callable[[str, object], None],
) -> None:
    # nodes ── 4 NUMA nodes each ── 16 CPUs each
    values = {"settings": {"gate": gate, **QUICK_LEASE}, "webhook": {"timeoutSeconds": 2}}
    pods = Pods(control_plane, namespace)
    sizes = random.Random(1)  # noqa: S311 - the same pods each time
    wanted = [pod(f"p{number:04}", cpu=sizes.choice(SIZES)) for number in range(PODS_PER_NODE * nodes)]
    create_machines(*machines(nodes, NUMA_NODES, prefix="burst", publisher=publisher))
    creations = [partial(pods.create, raw) for raw in wanted]
    with local_webhook(control_plane, replicas=2, values=values) as webhook, ThreadPoolExecutor(1) as clients:
        wait_until_known(pods, nodes)
        creating = clients.submit(control_plane.api.in_parallel, creations)
        control_plane.wait_for("some to be bound", lambda: len(pods.bound()) >= 3 * nodes)
        (leader,) = webhook.leaders
        refused = leader.refused_bindings()
        leader.process.kill()
        creating.result()
        control_plane.wait_for("another leader", lambda: webhook.leaders not in ([], [leader]))
        end = when_settled(control_plane, pods.all)
        refused += sum(replica.refused_bindings() for replica in webhook.replicas if replica is not leader)
        late = sum(replica.allocation_backfills() for replica in webhook.replicas)
    record_property(
        "burst",
        f"{gate}, {publisher}, {nodes} nodes: {end}; {refused} bindings refused, {late} allocations written late",
    )
    assert end.bound | end.waiting | end.unbound == {raw["metadata"]["name"] for raw in wanted}
    assert end.overcommitted == {}
    assert not end.unexplained
    if gate == "Always":  # else pods are held to nodes that others have filled since
        assert not end.could_go
        raws = pods.all()
        # A pod that was bound between two leaders was not assigned, and may sit where others were to go. A pod that the
        # killed leader bound may sit on other NUMA nodes than predicted. No exporter is here to say where, so the pods
        # that were assigned to its node before wait.
        intruders = [
            name
            for name in end.bound
            if not {PLACEMENT, NUMA_ALLOCATION} <= raws[name]["metadata"]["annotations"].keys()
        ]
        intruded = {raws[name]["spec"]["nodeName"] for name in intruders}
        # A pod that was created while no replica answered never had the gate, and waits as the scheduler's own. The
        # leader writes a placement text into it, which says so, but no allocation.
        assigned = [name for name in end.unbound if NUMA_ALLOCATION in raws[name]["metadata"]["annotations"]]
        assert {pods.allocation(name)[0] for name in assigned} <= intruded
