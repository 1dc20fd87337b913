"""Pods whose creation no replica saw. They are managed: guarded at their binding, and their allocations backfilled."""

from typing import Any

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import plain
from tests.builders.times import ALLOCATION, EMPTY, SECOND, stamp, written
from webhook.formats.koordinator.intent import NUMASpec, parse_numa_intent
from webhook.model.names import MANAGE_LABEL, MANAGED, NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC
from webhook.model.options import Manage
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged

# The defaults: twice what an exporter takes to count a pod.
RECENT = int(2 * (ReportingTimes().age + ReportingTimes().settle))


ALIGNED = Rules(manage=Manage.ALIGNED, excluded_namespaces=frozenset({"kube-system"}))


class FakeCache(ClusterCache):
    """n0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus, by an NRT of second 0 that has seen no pod]"""

    def __init__(self, rules: Rules = ALIGNED) -> None:
        super().__init__(clock=lambda: float(SECOND + self.now), rules=rules)
        self.now = 20
        put(self, node(name="n0"))
        seen = {"nodeTopologyPodsFingerprint": EMPTY}
        put(self, nrt(node="n0", free=(16, 16), memory=None, attributes=seen, metadata=written(0)))

    def label(self, value: str, **annotations: str) -> None:
        named = {name.replace("_", "-"): text for name, text in annotations.items()}
        metadata = {"name": "ns", "labels": {MANAGE_LABEL: value} if value else {}, "annotations": named}
        self.namespaces.upsert("ns", {"metadata": metadata})

    def see(self, raw: dict[str, Any]) -> None:
        metadata = raw["metadata"]
        self.pods.upsert(f"{metadata['namespace']}/{metadata['name']}", raw)

    def is_managed(self, raw: dict[str, Any]) -> bool:
        """Whether a waiting pod is managed at its binding."""
        self.see(raw)
        metadata = raw["metadata"]
        found = self.waiting_pod(f"{metadata['namespace']}/{metadata['name']}", metadata["uid"])
        assert found is not None
        return why_unmanaged(found, ALIGNED) is None

    def allocations(self) -> dict[str, str | None]:
        return {
            late.pod: None if late.allocation is None else late.allocation.to_json()
            for late in self.allocation_backfills()
        }


def waits(name: str = "p", *, limits: bool = True, namespace: str = "ns", **spec: Any) -> dict[str, Any]:
    """A pod without any annotation; Guaranteed with limits."""
    raw = plain(name=name, namespace=namespace, cpu=9, metadata={"uid": name}, **spec)
    if not limits:
        del raw["spec"]["containers"][0]["resources"]["limits"]
    return {**raw, "status": {"phase": "Pending"}}


def bound(name: str = "p", second: int = 1, **more: Any) -> dict[str, Any]:
    """The same, bound to n0 at that second and started."""
    raw = waits(name, nodeName="n0", **more)
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(second)}
    raw["status"] |= {"conditions": [condition], "containerStatuses": [{"name": "main"}]}
    return raw


def test_a_pod_without_marks_is_managed_at_its_binding_if_its_mode_covers_it() -> None:
    cache = FakeCache()
    assert cache.is_managed(waits())
    assert not cache.is_managed(waits("burstable", limits=False))
    assert not cache.is_managed(waits("other", schedulerName="other"))
    assert not cache.is_managed(waits("system", namespace="kube-system"))
    cache.label("annotated")
    assert not cache.is_managed(waits("annotated"))
    cache.label("all")
    assert cache.is_managed(waits("all", limits=False))
    assert not FakeCache(Rules(manage=Manage.ALL, manage_missed=False)).is_managed(waits())
    assert not FakeCache(Rules()).is_managed(waits())


def test_it_carries_the_defaults_of_its_namespace_then() -> None:
    cache = FakeCache()
    spec = NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE).to_json()
    cache.namespaces.upsert("ns", {"metadata": {"name": "ns", "annotations": {NUMA_TOPOLOGY_SPEC: spec}}})
    assert cache.is_managed(waits())
    found = cache.waiting_pod("ns/p", "p")
    assert found is not None
    assert parse_numa_intent(found["metadata"]["annotations"])[0].policy is NUMAPolicy.SINGLE_NUMA_NODE
    cache.namespaces.upsert("ns", {"metadata": {"name": "ns", "annotations": {NUMA_TOPOLOGY_SPEC: "wrong"}}})
    found = cache.waiting_pod("ns/p", "p")
    assert found is not None
    assert found["metadata"]["annotations"] == {MANAGED: "aligned"}


def test_it_is_not_looked_after_as_a_pod_that_was_placed() -> None:
    cache = FakeCache()
    cache.see(waits())
    assert cache.ungated_pods() == {}
    assert cache.gated_pods() == {}


def test_a_label_that_comes_later_is_for_pods_that_come_later() -> None:
    cache = FakeCache(Rules())
    cache.see(waits("before"))
    cache.label("all")
    found = cache.waiting_pod("ns/before", "before")
    assert found is not None
    assert why_unmanaged(found, ALIGNED) is not None
    assert cache.is_managed(waits("after"))


def test_bound_without_an_allocation_it_keeps_its_place_and_gets_its_allocation() -> None:
    cache = FakeCache()
    cache.see(bound())
    snapshot = cache.snapshot().nodes
    assert (snapshot.free(snapshot.node_arrays.resources.find("cpu"))[:, 0] // 1000).tolist() == [7, 16]
    assert cache.allocations() == {"ns/p": ALLOCATION}
    # As it is once the allocation is written.
    raw = bound()
    raw["metadata"]["annotations"] = {NUMA_ALLOCATION: ALLOCATION}
    cache.see(raw)
    assert cache.allocations() == {}


def test_pods_that_others_place_and_those_that_are_not_covered_get_none() -> None:
    cache = FakeCache(Rules(manage=Manage.ALL, excluded_namespaces=frozenset({"kube-system"})))
    cache.see(bound(namespace="kube-system"))
    of_a_daemon_set = bound("d", second=2)
    of_a_daemon_set["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    cache.see(of_a_daemon_set)
    assert cache.allocations() == {}
    cache = FakeCache(Rules())
    cache.see(bound())
    assert cache.allocations() == {}


def test_what_was_bound_long_ago_was_there_before_and_what_was_noted_stays_noted() -> None:
    cache = FakeCache()
    cache.now = RECENT + 2
    cache.see(bound("old", second=1))
    assert cache.allocations() == {}
    cache.see(bound("new", second=2))
    assert cache.allocations().keys() == {"ns/new"}
    cache.now += 1000
    cache.see(bound("new", second=2))
    assert cache.allocations().keys() == {"ns/new"}
    cache.pods.delete("ns/new")
    cache.see(bound("new", second=2))
    assert cache.allocations() == {}
