"""Which nodes are avoided after rejections, for whom, and until when."""

from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from webhook.formats.kubernetes.timestamps import utc
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.cluster_cache import ClusterCache

AGE = 120
NOW = 1_000_000


class FakeCluster:
    """A cache that sees the failed pods of kubelets. in_order: whether they come from a watch; now: its clock."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.in_order = True
        self.cache = ClusterCache(
            ReportingTimes(settle=10, age=AGE), clock=lambda: self.now, failed_in_order=lambda: self.in_order
        )
        put(self.cache, node(name="n0"), node(name="n1"))
        self.began: list[tuple[str, str]] = []
        self.cache.avoided.began.subscribe(lambda pod, entry: self.began.append((pod.name, entry.node)))
        self.changes = 0
        self.cache.changed.subscribe(self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def rejects(
        self,
        name: str = "p",
        node: str = "n0",
        owner: str = "rs",
        at: int = NOW,
        namespace: str = "default",
        kind: str = "ReplicaSet",
        **metadata: Any,
    ) -> None:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": owner, "controller": True}
        raw = bound(
            name=name,
            namespace=namespace,
            node=node,
            status={"phase": "Failed", "reason": "TopologyAffinityError", "startTime": utc(at)},
            metadata={"ownerReferences": [reference] if owner else [], **metadata},
        )
        self.cache.failed_pods.upsert(f"{namespace}/{name}", raw)

    def reports(self, at: int, node: str = "n0", free: int = 8) -> None:
        """The exporter writes the node's NRT."""
        fields = [{"manager": "rte", "time": utc(at), "fieldsV1": {"f:zones": {}}}]
        put(self.cache, nrt(node=node, free=(free,), metadata={"managedFields": fields}))

    def avoided(self, owner: str = "rs", namespace: str = "default") -> list[str]:
        """The nodes that the owner's next pods avoid."""
        return [one.node for one in self.cache.avoided.by_key().get(f"{namespace}/owner/{owner}", ())]

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.cache.advance()


def test_the_next_pods_of_its_controller_avoid_the_node() -> None:
    cluster = FakeCluster()
    cluster.rejects()
    assert (cluster.avoided(), cluster.avoided("another"), cluster.avoided(namespace="b")) == (["n0"], [], [])
    assert cluster.began == [("p", "n0")]
    assert cluster.cache.snapshot().avoided == cluster.cache.avoided.by_key()


def test_until_its_nrt_is_newer_than_the_rejection() -> None:
    cluster = FakeCluster()
    cluster.rejects()
    cluster.reports(NOW - 5)
    cluster.reports(NOW)  # in the same second: it may be older
    cluster.reports(NOW + 1, "n1")
    assert cluster.avoided() == ["n0"]
    before = cluster.changes
    cluster.reports(NOW + 1)
    assert cluster.avoided() == []
    assert cluster.changes > before
    newer = FakeCluster()
    newer.reports(NOW + 3)
    newer.rejects()
    assert (newer.avoided(), newer.began) == ([], [])


@pytest.mark.parametrize("ahead", [0, 86_400], ids=["in time", "by a kubelet whose clock is ahead"])
def test_where_no_nrt_comes_it_ends_with_time(ahead: int) -> None:
    cluster = FakeCluster()
    cluster.rejects(at=NOW + ahead)
    cluster.passes(AGE - 1)
    assert cluster.avoided() == ["n0"]
    before = cluster.changes
    cluster.passes(1)
    assert cluster.avoided() == []
    assert cluster.changes > before


def test_a_further_rejection_there_renews_it() -> None:
    cluster = FakeCluster()
    cluster.rejects("p")
    cluster.passes(100)
    cluster.rejects("q", at=NOW + 100)
    cluster.rejects("old", at=NOW + 50)
    cluster.passes(100)
    assert cluster.avoided() == ["n0"]
    cluster.reports(NOW + 60)
    assert cluster.avoided() == ["n0"]
    cluster.reports(NOW + 101)
    assert cluster.avoided() == []


def test_a_replica_that_starts_reads_it_from_the_failed_pods_and_reports_nothing() -> None:
    cluster = FakeCluster()
    cluster.in_order = False  # the first list
    cluster.rejects("p", at=NOW - 30)
    cluster.rejects("ended", "n1", at=NOW - AGE)
    assert (cluster.avoided(), cluster.began) == (["n0"], [])


def test_it_outlives_the_failed_pod_and_ends_with_the_node() -> None:
    cluster = FakeCluster()
    cluster.rejects()
    cluster.cache.failed_pods.delete("default/p")  # as a StatefulSet does
    assert cluster.avoided() == ["n0"]
    cluster.cache.nodes.delete("n0")
    assert cluster.avoided() == []


@pytest.mark.parametrize("how", [{"owner": ""}, {"kind": "DaemonSet"}, {"node": ""}])
def test_a_pod_whose_next_one_we_do_not_place_is_left_out(how: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.rejects(**how)
    assert cluster.cache.avoided.by_key() == {}


def test_a_namespace_has_a_bounded_number_of_entries_and_drops_its_own_oldest() -> None:
    cluster = FakeCluster()
    cluster.rejects("other", namespace="b")
    for number in range(300):
        cluster.rejects(f"p{number}", f"m{number}", f"rs{number}")
    avoided = cluster.cache.avoided.by_key()
    assert len([key for key in avoided if key.startswith("default/")]) == 256
    assert (cluster.avoided("rs0"), cluster.avoided("rs299")) == ([], ["m299"])
    assert cluster.avoided(namespace="b") == ["n0"]
