"""Three replicas and four shards: pods and gangs under load while nodes change their shard and replicas are killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import NODES, machines, publish_all
from tests.cluster.webhook_process import NAMESPACE, QUICK_LEASE, RELEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

LABEL = "example.com/shard"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
SHARDS = ("a", "b", "c", "d")


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    # No binding is written that no replica has answered: its pod would come out of order.
    calls = {"timeoutSeconds": 10, "bindFailurePolicy": "Fail"}
    settings = {"gate": "Always", **QUICK_LEASE, "shardLabel": LABEL}
    with local_webhook(control_plane, replicas=3, values={"settings": settings, "webhook": calls}) as webhook:
        yield webhook


def holders(plane: ControlPlane) -> dict[str, str]:
    """The Lease of each shard with a holder -> the candidate."""
    leases = {one["metadata"]["name"]: one["spec"].get("holderIdentity") for one in plane.api.get(LEASES)["items"]}
    return {name: holder for name, holder in leases.items() if name.startswith(RELEASE) and holder}


def are_even(plane: ControlPlane, replicas: int) -> bool:
    """Whether all shards, and the default one, have leaders, and no replica leads more than its share."""
    found = Counter(holders(plane).values())
    return (
        found.total() == len(SHARDS) + 1 and len(found) == replicas and max(found.values()) - min(found.values()) <= 1
    )


def test_pods_and_gangs_are_placed_once_while_nodes_change_their_shard_and_a_leader_is_killed(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    # a, b, c, d ── 5 nodes each ── 4 NUMA nodes of 16 CPUs: room for 8 pods of 8 CPUs on each node
    fleet = [
        replace(one, labels={**one.labels, LABEL: SHARDS[n % 4]})
        for n, one in enumerate(machines(20, 4, prefix="gate"))
    ]
    known(*(replace(one, free=(0,) * 4) for one in fleet))
    control_plane.wait_for("all shards to be led evenly", lambda: are_even(control_plane, 3))
    # All room is taken at the end, whether the gang of 16 comes before the last pods or after them.
    gang = {"pod-group-name": "g", "topology-webhook.dev/min-member": "16"}
    control_plane.api.in_parallel(
        [
            *(partial(pods.create, pod(f"p{number:03}")) for number in range(160)),
            *(partial(pods.create, pod(f"g{number:02}", annotations=gang)) for number in range(16)),
        ]
    )
    publish_all(control_plane.api, fleet[:12])
    control_plane.wait_for("some to go", lambda: len(pods.gated()) < 176)
    for one in fleet[:3]:
        control_plane.api.patch(f"{NODES}/{one.name}", {"metadata": {"labels": {LABEL: "d"}}})
    first = webhook.replicas[0]
    first.process.kill()
    publish_all(control_plane.api, fleet[12:])
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 160, seconds=180)
    raws = pods.all()
    assert overcommitted(control_plane, raws.values()) == {}
    assert len(pods.gated()) == 16
    assert sum(name.startswith("g") for name in pods.bound()) in {0, 16}
    first.start_again()
    control_plane.wait_for("all shards to be led evenly again", lambda: are_even(control_plane, 3), seconds=120)
