"""Unallocated pods: from API objects to what is free and to the allocations that the leader writes."""

from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.times import ALLOCATION, EMPTY, SECOND, stamp, written
from tests.fingerprints import pod_fingerprint
from webhook.model.names import NUMA_ALLOCATION
from webhook.state.cluster_cache import ClusterCache


class OneNode(ClusterCache):
    """n0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus, by an NRT of second 0 that has seen no pod]"""

    def __init__(self, *, watched: bool = True) -> None:
        super().__init__(clock=lambda: float(SECOND + self.now), pods_in_order=lambda: self.watched)
        self.now = 1
        self.watched = watched
        put(self, node(name="n0"))
        self.scan(0, EMPTY)

    def scan(self, second: int, fingerprint: str) -> None:
        seen = {"nodeTopologyPodsFingerprint": fingerprint}
        put(self, nrt(node="n0", free=(16, 16), memory=None, attributes=seen, metadata=written(second)))

    def bind(self, name: str, second: int, cpu: int = 9, *, started: bool = False, allocation: str = "") -> None:
        self.pods.upsert(
            f"ns/{name}", bound_at(name, second, cpu, started, {NUMA_ALLOCATION: allocation} if allocation else {})
        )

    def free(self) -> list[int]:
        snapshot = self.snapshot().nodes
        cpus: list[int] = (snapshot.free(snapshot.node_arrays.resources.find("cpu"))[:, 0] // 1000).tolist()
        return cpus

    def allocations(self) -> dict[str, str | None]:
        return {
            late.pod: None if late.allocation is None else late.allocation.to_json()
            for late in self.allocation_backfills()
        }


def bound_at(name: str, second: int, cpu: int, started: bool, annotations: dict[str, str]) -> dict[str, Any]:
    statuses = {"containerStatuses": [{"name": "main"}]} if started else {}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(second)}
    raw = pod(name=name, namespace="ns", cpu=cpu, annotations=annotations, metadata={"uid": name}, nodeName="n0")
    return {**raw, "status": {"phase": "Pending", "conditions": [condition], **statuses}}


@pytest.fixture
def cache() -> OneNode:
    return OneNode()


def test_its_place_is_known_when_its_kubelet_has_started_it_and_its_allocation_due_a_while_after(
    cache: OneNode,
) -> None:
    cache.bind("a", 1)
    assert cache.free() == [7, 7]
    cache.bind("a", 1, started=True)
    assert cache.free() == [7, 16]
    assert cache.allocations() == {}  # another pod's end may be told later than this one's start
    cache.now = 11
    assert cache.allocations() == {"ns/a": ALLOCATION}
    cache.bind("a", 1, started=True, allocation=ALLOCATION)
    assert cache.free() == [7, 16]
    assert cache.allocations() == {}


def test_where_no_kubelet_answers_there_is_no_allocation(cache: OneNode) -> None:
    cache.bind("a", 1)
    cache.now = 11
    assert cache.allocations() == {"ns/a": None}


def test_a_pod_that_its_nrt_has_counted_needs_none(cache: OneNode) -> None:
    cache.scan(20, "pfp0v001" + "0" * 16)  # of pods that nobody knows
    cache.bind("a", 5, started=True)
    assert cache.free() == [16, 16]
    assert cache.allocations() == {}


def test_what_an_unmanaged_pod_was_given_is_kept_and_it_gets_no_allocation(cache: OneNode) -> None:
    raw = bound_at("a", 1, 9, started=True, annotations={})
    raw["spec"]["schedulerName"] = "other"
    cache.pods.upsert("ns/a", raw)
    assert cache.free() == [7, 16]
    assert cache.allocations() == {}


def test_of_an_unmanaged_pod_with_many_containers_nothing_is_predicted(cache: OneNode) -> None:
    raw = bound_at("a", 1, 1, started=True, annotations={})
    raw["spec"]["schedulerName"] = "other"
    raw["spec"]["containers"] = [{**raw["spec"]["containers"][0], "name": f"c{n}"} for n in range(5)]
    cache.pods.upsert("ns/a", raw)
    assert cache.free() == [16, 16]
    kubelet_admission = cache.kubelet_admission("n0", "ns/b")
    assert kubelet_admission is not None
    five = {"cpu": 5000}
    assert kubelet_admission.leeway.maybe_taken == [
        {0: five, 1: five}
    ]  # so others have no allocation until it is counted


def test_a_place_that_the_allocation_of_another_pod_names_is_kept_and_not_written(cache: OneNode) -> None:
    cache.bind("a", 1, started=True)
    cache.bind("b", 2, started=True, allocation=ALLOCATION)
    cache.now = 12
    assert cache.allocations() == {"ns/a": None}
    assert min(cache.free()) <= 0  # b may be on either


def test_those_that_were_in_a_list_have_none_for_nobody_saw_what_happened(cache: OneNode) -> None:
    for name in ("a", "b"):
        cache.bind(name, 1, started=True)
    listed = OneNode(watched=False)
    for name in ("a", "b"):
        listed.bind(name, 1, started=True)
    cache.now = listed.now = 11
    assert None not in cache.allocations().values()
    assert listed.allocations() == {"ns/a": None, "ns/b": None}
    assert listed.free() == [0, 0]
    assert cache.free() == [7, 7]


def test_of_one_that_was_bound_before_a_gap_in_the_watch_nothing_is_known(cache: OneNode) -> None:
    cache.bind("a", 1, started=True)
    cache.watched = False
    cache.bind("a", 1, started=True)  # the list after the gap
    cache.watched = True
    cache.bind("b", 2, started=True)
    cache.now = 12
    assert cache.allocations() == {"ns/a": None, "ns/b": None}


def test_what_may_be_anywhere_is_kept_until_the_nrt_has_counted_it(cache: OneNode) -> None:
    cache.watched = False
    cache.bind("a", 1, cpu=9)
    cache.bind("b", 1, cpu=5)
    assert cache.free() == [2, 2]
    cache.now = 200
    assert cache.free() == [2, 2]
    cache.scan(200, pod_fingerprint([("ns", "a"), ("ns", "b")]))
    assert cache.free() == [16, 16]  # as this NRT says
    assert cache.allocations() == {}


def test_one_that_ended_meanwhile_was_in_the_way_of_the_next(cache: OneNode) -> None:
    cache.bind("a", 1, started=True)
    cache.bind("b", 2)
    cache.pods.delete("ns/a")
    assert cache.free() == [7, 7]  # b came to NUMA 1, or found a gone
    cache.bind("b", 2, started=True)
    cache.now = 12
    assert cache.allocations() == {"ns/b": None}


def test_one_that_ended_before_those_that_are_counted_was_in_nobodys_way(cache: OneNode) -> None:
    for second, name in enumerate("ab"):
        cache.bind(name, second, cpu=4, started=True)
    cache.pods.delete("ns/a")
    cache.scan(2, pod_fingerprint([("ns", "b")]))
    cache.bind("c", 3, started=True)
    cache.now = 13
    assert cache.allocations() == {"ns/c": ALLOCATION}


def test_one_that_ended_long_before_the_nrt_was_written_was_in_nobodys_way(cache: OneNode) -> None:
    cache.bind("a", 1, started=True)
    cache.now = 5
    cache.pods.delete("ns/a")
    for second, allocation in ((15, None), (16, ALLOCATION)):
        cache.scan(second, EMPTY)
        cache.bind(f"b{second}", 20, started=True)
        cache.now = 40
        assert cache.allocations() == {f"ns/b{second}": allocation}
        cache.now = 5
        cache.pods.delete(f"ns/b{second}")


def test_one_on_its_way_may_find_the_room_of_one_that_was_elsewhere_than_its_allocation_said(cache: OneNode) -> None:
    on_the_other = ALLOCATION.replace('"node":0', '"node":1')
    cache.bind("a", 1, started=True, allocation=on_the_other)
    cache.scan(2, pod_fingerprint([("ns", "a")]))
    cache.bind("b", 3, allocation=on_the_other)
    assert cache.free()[0] == 16
    cache.pods.delete("ns/a")
    assert cache.free() == [7, 7]
