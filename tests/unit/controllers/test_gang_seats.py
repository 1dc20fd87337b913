"""Members of a gang get the NUMA nodes that were planned for them where these are ours to choose."""

import asyncio
from functools import partial
from time import monotonic, time
from typing import Any

from tests.builders.clusters import assuming
from tests.builders.pods import gated
from tests.builders.records import GI, node, state, topology
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, node_for
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

# n0: NUMA 0 with 8 cpus and 4Gi, NUMA 1 with 4 cpus and 12Gi; no kubelet aligns there.
NODE = state(
    node(name="n0", allocatable={"cpu": 16_000, "memory": 128 * GI, "pods": 9}),
    topology(
        node="n0",
        free=[{"cpu": 8000, "memory": 4 * GI}, {"cpu": 4000, "memory": 12 * GI}],
        capacity={"cpu": 8000, "memory": 64 * GI},
        policy=NUMAPolicy.NONE,
    ),
)


class Cluster:
    """One node, and what is promised on it."""

    def __init__(self) -> None:
        self._node_arrays, self._ledger = NODE.node_arrays(), Ledger()

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(Snapshot(self._node_arrays, self._ledger), {})

    def node_for(self, name: str, pod: str) -> tuple[NodeAlone, NodeSums] | None:
        return node_for(self._node_arrays, self._ledger, name, pod)

    def assume(self, assumed_pod: AssumedPod) -> None:
        self._ledger.put(
            Reservation.of(
                assumed_pod.pod, assumed_pod.node, assumed_pod.numa, assumed_pod.requests, policy=assumed_pod.policy
            )
        )


def member(name: str, cpu: str, memory: str) -> GatedPod:
    raw = gated(name=name, group="g")
    amounts = {"cpu": cpu, "memory": memory}
    raw["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return GatedPod.from_object(raw)


async def test_a_small_member_leaves_the_numa_node_that_only_suits_another() -> None:
    (gang,) = units_of([member("first", "4", "1Gi"), member("second", "2", "10Gi")])
    assert isinstance(gang, GatedGang)
    cluster: Any = Cluster()
    placer = GangAssigner(
        cluster,
        assuming(cluster),
        Rules(),
        KeptDomains(cluster, 0, float, monotonic, time),
    )
    found = await placer.assign(gang, 2, {}, (), partial(asyncio.sleep, 0))
    assert isinstance(found, list), found
    assert {one.pod.name: [numa for numa, _ in assignment.hint.numa_nodes] for one, assignment, _ in found} == {
        "first": [0],
        "second": [1],
    }
