"""Rejected pods are deleted some time after their rejection, if a controller has replaced them."""

from typing import Any

import pytest

from tests.builders.pods import bound
from tests.unit.controllers.leader import metrics
from webhook.controllers.rejected_pod_deletion import RejectedPodDeletion
from webhook.formats.kubernetes.timestamps import utc
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write
from webhook.state.cluster_cache import ClusterCache

NOW = 1_000_000
AFTER = 60
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}


class FakeCluster(PodWrites):
    """A cache of failed pods, and an API server that deletes. outcome: of each deletion."""

    def __init__(self) -> None:
        self.outcome = Outcome.WRITTEN
        self.leads = True
        self.deleted: list[tuple[str, str, str]] = []
        self.cache = ClusterCache(clock=lambda: float(NOW))
        self.metrics = metrics()
        self.deletion = RejectedPodDeletion(self.cache, self, AFTER, lambda: self.leads, self.metrics)

    async def delete_version(self, key: str, uid: str, resource_version: str) -> Write:
        self.deleted.append((key.partition("/")[2], uid, resource_version))
        return Write(self.outcome)

    def has(
        self,
        name: str = "p",
        ago: int = AFTER,
        version: str = "1",
        owners: Any = (OWNER,),
        reason: str = "TopologyAffinityError",
        metadata: dict[str, Any] | None = None,
        **how: Any,
    ) -> None:
        status = {"phase": "Failed", "reason": reason, "startTime": utc(NOW - ago)}
        own = {"ownerReferences": list(owners), "resourceVersion": version, **(metadata or {})}
        raw = bound(**{"name": name, "node": "n0", "status": status, "metadata": own, **how})
        self.cache.failed_pods.upsert(f"default/{name}", raw)

    @property
    def counted(self) -> float:
        return float(self.metrics.rejected_pods_deleted._value.get())


async def test_the_leader_deletes_it_so_long_after_its_rejection_in_the_version_that_was_seen() -> None:
    cluster = FakeCluster()
    cluster.has("due", version="7")
    cluster.has("new", ago=AFTER - 1)
    cluster.leads = False
    await cluster.deletion.sweep(0)
    assert cluster.deleted == []
    cluster.leads = True
    cluster.outcome = Outcome.STALE  # it has changed meanwhile
    await cluster.deletion.sweep(0)
    assert (cluster.deleted, cluster.counted) == ([("due", "due", "7")], 0)
    cluster.has("due", version="8")
    cluster.outcome = Outcome.WRITTEN
    await cluster.deletion.sweep(5)
    assert cluster.deleted[1:] == [("due", "due", "8")]
    assert cluster.counted == 1


@pytest.mark.parametrize(
    "how",
    [
        {"owners": ()},
        {"owners": [{**OWNER, "controller": False}]},
        {"reason": "Evicted"},
        {"numa": None},
        {"metadata": {"deletionTimestamp": utc(NOW)}},
    ],
)
async def test_other_failed_pods_stay(how: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.has(ago=10 * AFTER, **how)
    await cluster.deletion.sweep(0)
    assert cluster.deleted == []


async def test_the_oldest_go_first_and_a_round_is_bounded() -> None:
    cluster = FakeCluster()
    for number in range(150):
        cluster.has(f"p{number:03}", ago=AFTER + number)
    await cluster.deletion.sweep(0)
    assert [name for name, _, _ in cluster.deleted] == [f"p{number:03}" for number in range(149, 49, -1)]
    await cluster.deletion.sweep(5)
    assert len(cluster.deleted) == 150


async def test_a_pod_that_cannot_be_deleted_is_retried_later_and_delays_no_other() -> None:
    cluster = FakeCluster()
    for number in range(101):
        cluster.has(f"p{number:03}", ago=AFTER + number)
    cluster.outcome = Outcome.REFUSED
    await cluster.deletion.sweep(0)
    cluster.outcome = Outcome.WRITTEN
    await cluster.deletion.sweep(5)
    assert cluster.deleted[100:] == [("p000", "p000", "1")]
    await cluster.deletion.sweep(60)
    assert len(cluster.deleted) == 201
    assert cluster.counted == 101


async def test_one_odd_pod_stops_no_other() -> None:
    cluster = FakeCluster()
    cluster.has("a", ago=AFTER + 1)
    cluster.has("b")
    deleted = cluster.delete_version

    async def odd(key: str, uid: str, resource_version: str) -> Write:
        await deleted(key, uid, resource_version)
        if uid == "a":
            raise RuntimeError
        return Write(Outcome.WRITTEN)

    cluster.delete_version = odd  # type: ignore[method-assign]
    await cluster.deletion.sweep(0)
    assert [name for name, _, _ in cluster.deleted] == ["a", "b"]
