"""Pods that wait avoid the nodes whose kubelets rejected others of their controller or gang."""

from typing import Any

from tests.builders.clusters import machine
from tests.builders.pods import bound, gated
from tests.unit.controllers.leader import Leader, metrics
from webhook.controllers.rejection_reports import AvoidedNodeReports
from webhook.formats.kubernetes.timestamps import utc
from webhook.model.names import MIN_MEMBER, PLACEMENT

# n0 ── NUMA 0 [8]   n1 ── NUMA 0 [8]      [free cpus]; a pod asks for 8, and of equal nodes the first by name is best
N0, N1 = machine(name="n0", free=(8,)), machine(name="n1", free=(8,))


class FakeCluster(Leader):
    """A leader, whose wall clock is `now`."""

    def __init__(self, *objects: Any) -> None:
        super().__init__(*objects)
        self.now = 1_000_000
        self.cache.avoided._clock = lambda: float(self.now)
        self.metrics = metrics()
        events: Any = self.api
        self.cache.avoided.began.subscribe(AvoidedNodeReports(events, self.metrics, self.is_leader).began)

    def rejects(self, node: str = "n0", owner: str = "rs", group: str = "") -> None:
        """A kubelet rejects the pod `first`."""
        status = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": utc(self.now)}
        metadata = {"ownerReferences": of(owner)}
        raw = bound(name="first", node=node, status=status, metadata=metadata, group=group)
        self.cache.failed_pods.upsert("default/first", raw)

    def waits(self, name: str, owner: str = "rs", group: str = "") -> None:
        self.api.has(gated(name=name, group=group, metadata={"ownerReferences": of(owner)}))

    async def cycle(self) -> None:
        await super().cycle()
        while self.reporter._to_report:
            await self.reporter._send(*self.reporter._to_report.pop())

    def said(self, name: str) -> str:
        """The placement text, in one line."""
        text: str = self.api.pods[f"default/{name}"]["metadata"]["annotations"].get(PLACEMENT, "")
        return "; ".join(" ".join(line.split()) for line in text.replace("\n  ", " ").split("\n"))


def of(owner: str) -> list[dict[str, Any]]:
    if not owner:
        return []
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]


async def test_the_next_pod_of_the_controller_goes_elsewhere_and_says_why_and_other_pods_do_not() -> None:
    cluster = FakeCluster(*N0, *N1)
    cluster.rejects()
    cluster.waits("next")
    cluster.waits("other", "another")
    await cluster.cycle()
    assert cluster.nodes() == {"next": "n1", "other": "n0"}
    at = utc(cluster.now)
    assert f"1 avoided after a rejection (n0: TopologyAffinityError at {at})" in cluster.said("next")


async def test_if_no_other_node_fits_it_waits_says_until_when_and_then_gets_the_node() -> None:
    cluster = FakeCluster(*N0)
    cluster.rejects()
    cluster.waits("next")
    await cluster.cycle()
    assert cluster.waiting() == {"next"}
    text = cluster.said("next")
    assert "1 node would fit but is avoided for now: it is used again once its NodeResourceTopology is newer" in text
    assert f"at the latest at {utc(cluster.now + 120)}" in text
    cluster.now += 120
    cluster.cache.advance()
    await cluster.cycle()
    assert cluster.nodes() == {"next": "n0"}


async def test_a_pod_that_waits_when_the_rejection_comes_avoids_the_node_as_well() -> None:
    # Both nodes are taken until the pods of `before` end.
    cluster = FakeCluster(*N0, *N1)
    before = [bound(name=f"b{n}", node=f"n{n}") for n in range(2)]
    cluster.api.has(*before)
    cluster.waits("next")
    await cluster.cycle()
    assert cluster.waiting() == {"next"}
    cluster.rejects()
    for n in range(2):
        cluster.api.delete(f"default/b{n}")
    await cluster.cycle()
    assert cluster.nodes() == {"next": "n1"}


async def test_a_gang_avoids_the_node_of_its_rejected_member() -> None:
    cluster = FakeCluster(*N0, *N1, *machine(name="n2", free=(8,)))
    cluster.rejects(owner="", group="g")
    for name in ("a", "b"):
        cluster.waits(name, "", group="g")
    await cluster.cycle()
    assert cluster.nodes() == {"a": "n1", "b": "n2"}
    assert "avoided after a rejection: n0: TopologyAffinityError" in cluster.said("a")


async def test_a_gang_that_needs_the_node_waits_says_why_and_starts_whole() -> None:
    cluster = FakeCluster(*N0, *N1)
    cluster.rejects(owner="", group="g")
    for name in ("a", "b"):
        raw = gated(name=name, group="g", annotations={MIN_MEMBER: "2"})
        cluster.api.has(raw)
    await cluster.cycle()
    assert cluster.waiting() == {"a", "b"}
    text = cluster.said("a")
    assert "avoided after a rejection: n0: TopologyAffinityError" in text
    assert f"at the latest at {utc(cluster.now + 120)}" in text
    assert "not even an empty cluster" not in text
    cluster.now += 120
    cluster.cache.advance()
    await cluster.cycle()
    assert set(cluster.nodes().values()) == {"n0", "n1"}


async def test_an_event_on_the_controller_or_else_the_pod_says_why_and_a_counter_counts() -> None:
    cluster, unowned, follower = FakeCluster(*N0, *N1), FakeCluster(*N0, *N1), FakeCluster(*N0, *N1)
    cluster.rejects()
    (event,) = cluster.api.events
    assert (event.key, event.kind, event.uid, event.reason) == ("default/rs", "ReplicaSet", "rs", "NodeAvoided")
    assert event.note.startswith("this ReplicaSet's next pods avoid node n0: its kubelet rejected pod first (Topology")
    assert cluster.metrics.nodes_avoided.labels("TopologyAffinityError")._value.get() == 1
    unowned.rejects(owner="", group="g")
    (event,) = unowned.api.events
    assert (event.key, event.kind) == ("default/first", "Pod")
    follower.leads = False
    follower.rejects()
    assert follower.api.events == []
    assert follower.cache.avoided.by_key()
