"""The cluster cache: API objects become what decisions read. Some pods only the scheduler places."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, bound, container, created, guaranteed, plain, pod
from tests.builders.topologies import topology as levels
from webhook.formats.topology import TopologySource
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE, NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import why_delegated
from webhook.state.pod_info import PodInfo
from webhook.state.rules import Rules


def small(name: str, **labels: str) -> dict[str, Any]:
    return node(name=name, cpus=8, memory="16Gi", labels=labels)


def listed(name: str, policy: str = "single-numa-node", **more: Any) -> dict[str, Any]:
    """The NRT of such a node: one NUMA node with 8 free CPUs."""
    return {**nrt(node=name, free=(8,), cpus=8, memory=None, policy=policy), **more}


def burstable(name: str, phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    """A pod that requests 3 CPUs and has no limits."""
    asks = [container(requests={"cpu": "3"})]
    raw = plain(name=name, namespace="ns", containers=asks, metadata={"uid": name}, **spec)
    return {**raw, "status": {"phase": phase}}


def running(name: str = "p", phase: str = "Running") -> dict[str, Any]:
    """The same on n0."""
    return burstable(name, phase, nodeName="n0")


def requested_cpu(cache: ClusterCache, name: str) -> int:
    node_arrays = cache.snapshot().nodes.node_arrays
    return int(node_arrays.requested[node_arrays.resources.find("cpu"), node_arrays.index[name]])


def test_nodes_their_topologies_and_bound_pods_make_the_view_in_any_order() -> None:
    cache = cluster_cache(running(), listed("n0"), small("n0"))
    node_arrays = cache.snapshot().nodes.node_arrays
    assert list(node_arrays.names) == ["n0"]
    assert node_arrays.has_topology.tolist() == [True]
    assert requested_cpu(cache, "n0") == 3000


def test_pods_without_a_node_and_pods_that_ended_hold_nothing() -> None:
    cache = cluster_cache(small("n0"), burstable("pending"), running("ended", "Succeeded"), running("bound"))
    assert requested_cpu(cache, "n0") == 3000
    cache.pods.delete("ns/bound")
    assert requested_cpu(cache, "n0") == 0


def test_a_view_stays_as_it_was_while_the_cluster_goes_on() -> None:
    cache = cluster_cache(small("n0"))
    before = cache.snapshot()
    put(cache, small("n1"))
    assert list(before.nodes.node_arrays.names) == ["n0"]
    assert sorted(cache.snapshot().nodes.node_arrays.names) == ["n0", "n1"]
    assert cache.generation == cache.snapshot().nodes.node_arrays.generation > before.nodes.node_arrays.generation


def test_a_read_calls_no_observer_and_what_time_alone_frees_is_announced_once() -> None:
    # n0 ── NUMA 0 [8 of 8]      written 5 s after p was bound; 120 s after that it has counted p.
    now = 1000.0
    told: list[float] = []
    cache = ClusterCache(clock=lambda: now)
    put(cache, small("n0"))
    written = [{"time": "1970-01-01T00:15:05Z", "fieldsV1": {"f:zones": {}}}]
    put(cache, listed("n0", metadata={"name": "n0", "managedFields": written}))
    allocation = '{"node": "n0", "numaNodeResources": [{"node": 0, "resources": {"cpu": "3"}}]}'
    created = {"creationTimestamp": "1970-01-01T00:15:00Z"}
    put(cache, bound(node="n0", cpu=3, numa=None, annotations={NUMA_ALLOCATION: allocation}, metadata=created))
    cache.changed.subscribe(lambda: told.append(now))
    for now in (1000.0, 1019.0, 1020.0, 1021.0):  # the clock reads it
        cache.snapshot()
        assert told == [1020.0] * (now > 1020)
        cache.advance()
    assert told == [1020.0]


def test_an_unreadable_object_is_left_out_counted_and_told_once() -> None:
    cache = cluster_cache(small("n0"))
    broken = running()
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "three"
    put(cache, running())
    with capture_logs() as lines:
        put(cache, broken)
        put(cache, broken)
    (line,) = lines
    assert (line["event"], line["object"]) == ("object.faulty", "ns/p")
    assert "three" in line["faults"][0]
    assert requested_cpu(cache, "n0") == 0
    assert list(cache.pods.faults) == ["ns/p"]
    put(cache, running())
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
        put(cache, small("n0", **labels))
        put(cache, listed("n0"))
        put(cache, listed("n0", resourceVersion="2"))
        assert cache.policies.disagreements == 1
        put(cache, listed("n0", "restricted"))
        assert cache.policies.disagreements == 0
        put(cache, listed("n0", "best-effort"))
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
        put(cache, small("n0"))
        put(cache, listed("n0", "strict"))
        put(cache, listed("n0", "strict", resourceVersion="2"))
        assert cache.policies.unknown == 1
        put(cache, listed("n0", "restricted"))
        assert cache.policies.unknown == 0
        put(cache, small("n0", **{"node.koordinator.sh/numa-topology-policy": "maybe"}))
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
            put(cache, small(f"n{number}"))
            put(cache, listed(f"n{number}", "strict"))
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
    """A pod that is delegated to the scheduler, whose last attempt failed for this reason."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/1 nodes are available"}
    raw = burstable(name)
    raw["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: SINGLE}
    return raw | {"status": {"phase": "Pending", "conditions": [condition] if reason else [], **status}}


def cache_of_one_node() -> ClusterCache:
    return cluster_cache(small("n0"), listed("n0"))


def free_cpu(cache: ClusterCache) -> int:
    snapshot = cache.snapshot().nodes
    return int(snapshot.node_free(snapshot.node_arrays.resources.find("cpu"))[0])


def test_what_is_tentative_steers_others_and_is_kept_from_nobody_who_is_bound() -> None:
    # n0 ── NUMA 0 [8], of which 6 are reserved for a pod that the scheduler may as well bind elsewhere
    cache = cache_of_one_node()
    put(cache, left("left"))
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
    put(cache, left("left"))
    cache.assume(tentative("left"))
    woken: list[bool] = []
    cache.changed.subscribe(lambda: woken.append(True))
    put(cache, left("left", reason, **status))
    assert free_cpu(cache) == free
    assert woken


def assigned(cache: ClusterCache, name: str, allocation: str, **status: Any) -> dict[str, Any]:
    """An assigned pod with a signed allocation. The scheduler's last attempt failed."""
    raw = left(name, "Unschedulable", **status)
    raw["metadata"]["annotations"] |= {
        NUMA_ALLOCATION: allocation,
        NUMA_SIGNATURE: cache.sign(name, allocation),
        POD_GROUP_NAME: "g",
    }
    raw["spec"]["containers"] = [guaranteed(cpu=3)]
    return raw


ON_N0 = '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"3"}}]}'
UNRESERVED = '{"node":"n0","reserved":false}'


def test_what_a_placed_pod_was_assumed_stays_until_its_allocation_says_otherwise_and_its_seat_beyond_that() -> None:
    cache = cache_of_one_node()
    cache.assume(AssumedPod("ns/p", "p", "n0", {0: {"cpu": 3000}}, {"cpu": 3000}, None, 1.0))
    put(cache, left("p", "Unschedulable"))
    assert free_cpu(cache) == 5000
    put(cache, assigned(cache, "p", ON_N0))
    assert free_cpu(cache) == 5000
    assert [assumed.pod for assumed in cache.assigned("n0")] == ["ns/p"]
    put(cache, assigned(cache, "p", UNRESERVED))
    assert free_cpu(cache) == 8000
    assert cache.assigned("n0") == ()
    assert [list(seats) for seats in cache.gangs.groups().values()] == [["ns/p"]]


def test_what_it_is_given_with_its_binding_is_kept_while_the_pod_does_not_show_it() -> None:
    cache = cache_of_one_node()
    put(cache, assigned(cache, "p", UNRESERVED))
    given = AssumedPod("ns/p", "p", "n0", {}, {"cpu": 3000}, None, 1.0, is_binding=True)
    cache.assume(given)
    put(cache, assigned(cache, "p", UNRESERVED, qosClass="Guaranteed"))
    assert free_cpu(cache) == 5000
    assert cache.holds(given)


def test_bound_by_nobodys_leave_it_is_one_without_an_allocation() -> None:
    cache = cache_of_one_node()
    raw = assigned(cache, "p", UNRESERVED)
    raw["spec"]["nodeName"] = "n0"
    assert PodInfo.from_object(raw, Rules(), cache.allocation_key).record.unallocated


def rewritten(name: str, second: int, **more: Any) -> dict[str, Any]:
    """The NRT of such a node, written in this second."""
    by = {"manager": "exporter", "time": f"2030-01-01T00:00:{second:02}Z", "fieldsV1": {"f:zones": {}}}
    return listed(name, metadata={"name": name, "managedFields": [by]}, **more)


def changes_of(cache: ClusterCache, *objects: dict[str, Any]) -> int:
    """How many of these objects change something that decisions depend on."""
    count = 0

    def changed() -> None:
        nonlocal count
        count += 1

    cache.changed.subscribe(changed)
    for raw in objects:
        put(cache, raw)
        cache.snapshot()
    return count


@pytest.mark.parametrize("node", ["n0", ""], ids=["bound", "waiting"])
def test_of_a_pod_whose_end_no_event_showed_a_list_with_the_next_one_of_its_name_tells(node: str) -> None:
    def named(uid: str, node: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"nodeName": node} if node else {}
        return created(name="w-0", group="g", metadata={"uid": uid}, **spec)

    cache, gone, left = cluster_cache(), list[tuple[str, str]](), list[str]()
    cache.bound_or_gone.subscribe(lambda key, uid: gone.append((key, uid)))
    cache.gangs.left.subscribe(lambda _, member: left.append(member.node))
    put(cache, named("first", node))
    gone.clear()
    put(cache, named("second", ""))
    assert gone == [("default/w-0", "first")]
    assert left == ["n0"] * bool(node)
    put(cache, named("second", "n1"))
    cache.pods.delete("default/w-0")
    assert gone[1:] == [("default/w-0", "second")] * 2


def test_an_nrt_that_was_only_written_again_changes_no_decision_but_its_time_is_kept() -> None:
    cache = ClusterCache()
    assert changes_of(cache, small("n0"), rewritten("n0", 1)) == 2
    generation = cache.generation
    assert changes_of(cache, rewritten("n0", 2), rewritten("n0", 3)) == 0
    assert cache.generation == generation
    assert cache.state.topologies["n0"].written_at == 1893456003
    assert changes_of(cache, rewritten("n0", 4, zones=[])) > 0


def test_a_heartbeat_of_a_node_changes_no_decision() -> None:
    cache = cluster_cache(small("n0"))
    beats = small("n0")
    beats["status"]["conditions"][0]["lastHeartbeatTime"] = "2030-01-01T00:00:00Z"
    assert changes_of(cache, beats) == 0
    assert changes_of(cache, small("n0", rack="r1")) == 1


def test_an_nrt_without_its_zones_has_those_of_the_last_one() -> None:
    cache = ClusterCache()
    put(cache, small("n0"), rewritten("n0", 1))
    rest = {name: value for name, value in rewritten("n0", 2, attributes=[]).items() if name != "zones"}
    assert cache.node_topologies.upsert_rest("n0", rest)
    topology = cache.state.topologies["n0"]
    assert (len(topology.zones), topology.written_at, topology.policy) == (1, 1893456002, NUMAPolicy.NONE)


@pytest.mark.parametrize("known", [[], [listed("n0", zones=[{"name": "odd", "type": "Node"}])]])
def test_an_nrt_without_its_zones_is_not_enough_if_the_last_one_is_unknown_or_has_faults(
    known: list[dict[str, Any]],
) -> None:
    cache = ClusterCache()
    put(cache, *known)
    assert not cache.node_topologies.upsert_rest("n0", {"metadata": {"name": "n0"}})


TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "pod anti-affinity"),
        ({"affinity": {"podAffinity": PREFERRED}}, "pod affinity"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topology spread constraints"),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}, "volumes"),
        ({"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]}, "volumes"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}, "resource claims"),
    ],
)
def test_what_is_not_simulated_is_left_to_the_scheduler(spec: dict[str, Any], why: str) -> None:
    assert why_delegated(pod(**spec)) == why


def test_host_ports_are_left_to_the_scheduler_and_all_else_is_not() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "b"}}]
    affinity: dict[str, Any] = {"podAffinity": {}, "podAntiAffinity": None, "nodeAffinity": {}}
    for port, why in (({"hostPort": 80}, "host ports"), ({}, None)):
        containers = [guaranteed(ports=[{"containerPort": 80, **port}])]
        raw = pod(containers=containers, volumes=volumes, affinity=affinity, topologySpreadConstraints=[])
        assert why_delegated(raw) == why
    assert why_delegated({}) is None
