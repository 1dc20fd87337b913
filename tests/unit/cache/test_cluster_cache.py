"""From raw objects to the view that decisions get."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import put
from tests.builders.topologies import topology as levels
from webhook.cache.cluster_cache import ClusterCache
from webhook.cache.pod_info import PodInfo
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.model.names import NUMA_HINT, NUMA_SIGNATURE, NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME
from webhook.model.rules import Rules
from webhook.model.topology import TopologySource


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    }


def topology(name: str, policy: str = "single-numa-node", **more: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"}]
    return {
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
        **more,
    }


def pod(name: str, node_name: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
        },
        "status": {"phase": phase},
    }


def requested_cpu(cache: ClusterCache, name: str) -> int:
    node_arrays = cache.snapshot().nodes.node_arrays
    return int(node_arrays.requested[node_arrays.resources.find("cpu"), node_arrays.index[name]])


def test_nodes_their_topologies_and_bound_pods_make_the_view_in_any_order() -> None:
    cache = ClusterCache()
    cache.pods.upsert("ns/p", pod("p", "n0"))
    cache.node_topologies.upsert("n0", topology("n0"))
    cache.nodes.upsert("n0", node("n0"))
    node_arrays = cache.snapshot().nodes.node_arrays
    assert list(node_arrays.names) == ["n0"]
    assert node_arrays.has_topology.tolist() == [True]
    assert requested_cpu(cache, "n0") == 3000


def test_pods_without_a_node_and_pods_that_ended_hold_nothing() -> None:
    cache = ClusterCache()
    cache.nodes.upsert("n0", node("n0"))
    cache.pods.upsert("ns/pending", pod("pending", ""))
    cache.pods.upsert("ns/ended", pod("ended", "n0", "Succeeded"))
    cache.pods.upsert("ns/bound", pod("bound", "n0"))
    assert requested_cpu(cache, "n0") == 3000
    cache.pods.delete("ns/bound")
    assert requested_cpu(cache, "n0") == 0


def test_a_view_stays_as_it_was_while_the_cluster_goes_on() -> None:
    cache = ClusterCache()
    cache.nodes.upsert("n0", node("n0"))
    before = cache.snapshot()
    cache.nodes.upsert("n1", node("n1"))
    assert list(before.nodes.node_arrays.names) == ["n0"]
    assert sorted(cache.snapshot().nodes.node_arrays.names) == ["n0", "n1"]
    assert cache.generation == cache.snapshot().nodes.node_arrays.generation > before.nodes.node_arrays.generation


def test_a_read_calls_no_observer_and_what_time_alone_frees_is_announced_once() -> None:
    # n0 ── NUMA 0 [8 of 8]      written 5 s after p was bound; 120 s after that it has counted p.
    now = 1000.0
    told: list[float] = []
    cache = ClusterCache(clock=lambda: now)
    cache.nodes.upsert("n0", node("n0"))
    written = [{"time": "1970-01-01T00:15:05Z", "fieldsV1": {"f:zones": {}}}]
    cache.node_topologies.upsert("n0", topology("n0", metadata={"name": "n0", "managedFields": written}))
    bound = pod("p", "n0")
    amounts = {"cpu": "3", "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    hint = '{"node": "n0", "numaNodeResources": [{"node": 0, "resources": {"cpu": "3"}}]}'
    bound["spec"]["containers"] = [container]
    bound["metadata"] |= {"creationTimestamp": "1970-01-01T00:15:00Z", "annotations": {NUMA_HINT: hint}}
    cache.pods.upsert("ns/p", bound)
    cache.changed.subscribe(lambda: told.append(now))
    for now in (1000.0, 1019.0, 1020.0, 1021.0):  # the clock reads it
        cache.snapshot()
        assert told == [1020.0] * (now > 1020)
        cache.advance()
    assert told == [1020.0]


def test_an_unreadable_object_is_left_out_counted_and_told_once() -> None:
    cache = ClusterCache()
    cache.nodes.upsert("n0", node("n0"))
    broken = pod("p", "n0")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "three"
    cache.pods.upsert("ns/p", pod("p", "n0"))
    with capture_logs() as lines:
        cache.pods.upsert("ns/p", broken)
        cache.pods.upsert("ns/p", broken)
    (line,) = lines
    assert (line["event"], line["object"]) == ("object.faulty", "ns/p")
    assert "three" in line["faults"][0]
    assert requested_cpu(cache, "n0") == 0
    assert list(cache.pods.faults) == ["ns/p"]
    cache.pods.upsert("ns/p", pod("p", "n0"))
    assert cache.pods.faults == {}
    assert requested_cpu(cache, "n0") == 3000


def test_an_object_of_an_impossible_shape_does_not_end_the_service() -> None:
    cache = ClusterCache()
    cache.pods.upsert("ns/p", {"metadata": {"name": "p", "namespace": "ns"}, "spec": ["no", "mapping"]})
    assert list(cache.pods.faults) == ["ns/p"]
    cache.pods.delete("ns/p")
    assert cache.pods.faults == {}


def test_a_label_and_a_topology_that_disagree_are_counted_and_told_once_per_change() -> None:
    cache = ClusterCache()
    labels = {"node.koordinator.sh/numa-topology-policy": "Restricted"}
    with capture_logs() as lines:
        cache.nodes.upsert("n0", node("n0", **labels))
        cache.node_topologies.upsert("n0", topology("n0"))
        cache.node_topologies.upsert("n0", topology("n0", resourceVersion="2"))
        assert cache.policies.disagreements == 1
        cache.node_topologies.upsert("n0", topology("n0", "restricted"))
        assert cache.policies.disagreements == 0
        cache.node_topologies.upsert("n0", topology("n0", "best-effort"))
        cache.nodes.delete("n0")
        assert cache.policies.disagreements == 0
    assert [line["event"] for line in lines] == [
        "node.policies_disagree",
        "node.policies_agree",
        "node.policies_disagree",
    ]


def test_a_policy_that_cannot_be_read_is_counted_and_logged_once_per_change() -> None:
    cache = ClusterCache()
    with capture_logs() as lines:
        cache.nodes.upsert("n0", node("n0"))
        cache.node_topologies.upsert("n0", topology("n0", "strict"))
        cache.node_topologies.upsert("n0", topology("n0", "strict", resourceVersion="2"))
        assert cache.policies.unknown == 1
        cache.node_topologies.upsert("n0", topology("n0", "restricted"))
        assert cache.policies.unknown == 0
        cache.nodes.upsert("n0", node("n0", **{"node.koordinator.sh/numa-topology-policy": "maybe"}))
        assert cache.policies.unknown == 1
        cache.nodes.delete("n0")
        assert cache.policies.unknown == 0
    told = [(line["event"], line.get("policy")) for line in lines if line["event"].startswith("node.")]
    assert told == [
        ("node.policy_unknown", "topologyManagerPolicy 'strict'"),
        ("node.policy_known", None),
        ("node.policy_unknown", "label node.koordinator.sh/numa-topology-policy 'maybe'"),
    ]


def test_of_many_nodes_with_one_mistake_the_first_are_logged() -> None:
    cache = ClusterCache()
    with capture_logs() as lines:
        for number in range(30):
            cache.nodes.upsert(f"n{number}", node(f"n{number}"))
            cache.node_topologies.upsert(f"n{number}", topology(f"n{number}", "strict"))
    levels = [line["log_level"] for line in lines if line["event"] == "node.policy_unknown"]
    assert levels == ["warning"] * 20 + ["debug"] * 10
    assert cache.policies.unknown == 30


def test_kais_topology_wins_over_kueues_of_the_same_name() -> None:
    cache = ClusterCache()
    put(cache, levels(name="default", labels=("zone", "rack")))
    put(cache, levels(name="default", labels=("block",), source=TopologySource.KUEUE))
    assert cache.snapshot().topologies["default"].source is TopologySource.KAI
    cache.topologies[TopologySource.KAI].delete("default")
    assert cache.snapshot().topologies["default"].source is TopologySource.KUEUE


def tentative(name: str, cpu: int = 6) -> AssumedPod:
    return AssumedPod(
        f"ns/{name}", name, "n0", {0: {"cpu": cpu * 1000}}, {"cpu": cpu * 1000}, None, 1.0, tentative=True
    )


def left(name: str, reason: str = "", **status: Any) -> dict[str, Any]:
    """A pod that is left to the scheduler, whose last attempt failed for this reason."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/1 nodes are available"}
    raw = pod(name, "")
    raw["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
    return raw | {"status": {"phase": "Pending", "conditions": [condition] if reason else [], **status}}


def cache_of_one_node() -> ClusterCache:
    cache = ClusterCache()
    cache.nodes.upsert("n0", node("n0"))
    cache.node_topologies.upsert("n0", topology("n0"))
    return cache


def free_cpu(cache: ClusterCache) -> int:
    snapshot = cache.snapshot().nodes
    return int(snapshot.node_free(snapshot.node_arrays.resources.find("cpu"))[0])


def test_what_is_tentative_steers_others_and_is_kept_from_nobody_who_is_bound() -> None:
    # n0 ── NUMA 0 [8], of which 6 are reserved for a pod that the scheduler may as well bind elsewhere
    cache = cache_of_one_node()
    cache.pods.upsert("ns/left", left("left"))
    cache.assume(tentative("left"))
    assert free_cpu(cache) == 2000
    assert cache.assigned("n0") == ()
    kubelet_admission = cache.kubelet_admission("n0", "ns/other")
    assert kubelet_admission is not None
    row = cache.snapshot().nodes.node_arrays.resources.find("cpu")
    for snapshot in (kubelet_admission.assumed_snapshot(), kubelet_admission.kubelet_snapshot()):
        assert (snapshot.node_free(row)[0], snapshot.free(row)[0, 0]) == (8000, 8000)
    assert cache.assumed_count == 0  # who hands over waits for none of them


@pytest.mark.parametrize(
    ("reason", "status", "free"),
    [
        ("SchedulingGated", {}, 2000),  # as it was a moment ago
        ("SchedulerError", {}, 2000),  # its binding was refused: it tries again
        ("Unschedulable", {"nominatedNodeName": "n0"}, 2000),  # others make room for it
        ("Unschedulable", {}, 8000),
    ],
)
def test_it_goes_back_as_soon_as_the_scheduler_says_that_it_cannot_bind_the_pod(
    reason: str, status: dict[str, Any], free: int
) -> None:
    cache = cache_of_one_node()
    cache.pods.upsert("ns/left", left("left"))
    cache.assume(tentative("left"))
    woken: list[bool] = []
    cache.changed.subscribe(lambda: woken.append(True))
    cache.pods.upsert("ns/left", left("left", reason, **status))
    assert free_cpu(cache) == free
    assert woken


def assigned(cache: ClusterCache, name: str, hint: str, **status: Any) -> dict[str, Any]:
    """A pod that is placed, by a hint that is ours, and whose last attempt failed."""
    raw = left(name, "Unschedulable", **status)
    raw["metadata"]["annotations"] |= {NUMA_HINT: hint, NUMA_SIGNATURE: cache.sign(name, hint), POD_GROUP_NAME: "g"}
    amounts = {"cpu": "3", "memory": "1Gi"}
    raw["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return raw


ON_N0 = '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"3"}}]}'
UNRESERVED = '{"node":"n0","reserved":false}'


def test_what_a_placed_pod_was_assumed_stays_until_its_hint_says_otherwise_and_its_seat_beyond_that() -> None:
    cache = cache_of_one_node()
    cache.assume(AssumedPod("ns/p", "p", "n0", {0: {"cpu": 3000}}, {"cpu": 3000}, None, 1.0))
    cache.pods.upsert("ns/p", left("p", "Unschedulable"))
    assert free_cpu(cache) == 5000
    cache.pods.upsert("ns/p", assigned(cache, "p", ON_N0))
    assert free_cpu(cache) == 5000
    assert [assumed.pod for assumed in cache.assigned("n0")] == ["ns/p"]
    cache.pods.upsert("ns/p", assigned(cache, "p", UNRESERVED))
    assert free_cpu(cache) == 8000
    assert cache.assigned("n0") == ()
    assert [list(seats) for seats in cache.gangs.groups().values()] == [["ns/p"]]


def test_what_it_is_given_with_its_binding_is_kept_while_the_pod_does_not_show_it() -> None:
    cache = cache_of_one_node()
    cache.pods.upsert("ns/p", assigned(cache, "p", UNRESERVED))
    given = AssumedPod("ns/p", "p", "n0", {}, {"cpu": 3000}, None, 1.0, is_binding=True)
    cache.assume(given)
    cache.pods.upsert("ns/p", assigned(cache, "p", UNRESERVED, qosClass="Guaranteed"))
    assert free_cpu(cache) == 5000
    assert cache.holds(given)


def test_bound_by_nobodys_leave_it_is_one_without_a_hint() -> None:
    cache = cache_of_one_node()
    raw = assigned(cache, "p", UNRESERVED)
    raw["spec"]["nodeName"] = "n0"
    assert PodInfo.from_object(raw, Rules(), cache.hint_key).record.unhinted
