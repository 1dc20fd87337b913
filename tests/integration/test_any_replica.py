"""Bindings go to all replicas: each answers for assigned pods, also while no replica leads."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod, scheduler_paused
from tests.cluster.nodes import machines
from tests.cluster.webhook_process import QUICK_LEASE, local_webhook
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.control_plane import ControlPlane

REVIEWS = 'topology_webhook_reviews_total{operation="CREATE",verdict="%s",webhook="mutate-bindings"}'


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def unreviewed(pods: Mapping[str, Any]) -> set[str]:
    """The bound pods whose binding no replica answered."""
    return {
        name
        for name, raw in pods.items()
        if json.loads(raw["metadata"]["annotations"].get(NUMA_ALLOCATION, "{}")).get("reviewed") is False
    }


def wait_until_bound(control_plane: ControlPlane, pods: Pods, count: int) -> None:
    control_plane.wait_for(f"{count} to be bound", lambda: len(pods.bound()) >= count)


def test_placed_pods_are_bound_with_their_numa_nodes_while_no_replica_leads(
    control_plane: ControlPlane, pods: Pods, create_machines: Callable[..., None], record_property: Callable[..., None]
) -> None:
    # 4 nodes ── 2 NUMA nodes each ── 16 CPUs each
    create_machines(*machines(4, 2, prefix="any"))
    values = {"settings": {"gate": "Always"}, "webhook": {"timeoutSeconds": 5, "bindFailurePolicy": "Fail"}}
    with local_webhook(control_plane, replicas=2, values=values) as webhook:
        with scheduler_paused(control_plane):
            for number in range(8):
                pods.create(pod(f"p{number}", cpu=16 if number % 2 else 8))
            control_plane.wait_for("all to be placed", lambda: not pods.gated())
            (leader,) = webhook.leaders
            leader.process.kill()
            killed = monotonic()
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 8)
        bound = monotonic() - killed
        pods.create(pod("next", cpu=8))
        control_plane.wait_for("the next one to be bound", lambda: len(pods.bound()) == 9)
        record_property("failover", f"bound after {bound:.1f} s, the next pod after {monotonic() - killed:.1f} s")
        raws = pods.all()
        assert unreviewed(raws) == set()
        assert overcommitted(control_plane, raws.values()) == {}


def test_three_replicas_of_which_a_random_one_is_killed_now_and_then_give_nothing_out_twice(
    control_plane: ControlPlane, pods: Pods, create_machines: Callable[..., None]
) -> None:
    # 8 nodes ── 4 NUMA nodes each ── 16 CPUs each
    create_machines(*machines(8, 4, prefix="three"))
    dice = random.Random(7)  # noqa: S311 - the same each time
    sizes = [dice.choice((4, 5, 8, 16)) for _ in range(44)]
    values = {"settings": {"gate": "Always", **QUICK_LEASE}, "webhook": {"bindFailurePolicy": "Fail"}}
    with local_webhook(control_plane, replicas=3, values=values) as webhook, ThreadPoolExecutor(1) as clients:
        creations = [partial(pods.create, pod(f"p{number:02}", cpu=cpu)) for number, cpu in enumerate(sizes)]
        creating = clients.submit(control_plane.api.in_parallel, creations)
        answered = 0
        for share in (10, 20, 30):
            wait_until_bound(control_plane, pods, share)
            victim = dice.choice(webhook.replicas)
            answered += sum(replica.metrics().get(REVIEWS % "allow", 0) > 0 for replica in webhook.replicas)
            victim.process.kill()
            victim.start_again()
        creating.result()
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == len(sizes))
        raws = pods.all()
        assert answered > 3  # not the leader alone
        assert unreviewed(raws) == set()
        assert overcommitted(control_plane, raws.values()) == {}
