"""What is known of each node: NUMA nodes, policy, NRT, pods and reservations."""

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import bound
from tests.unit.views.one_node import allocated, bound_at, details
from tests.unit.views.racks import GPU, WRITTEN, cluster, machine
from webhook.views.nodes import NUMAShare, TopologyReport, node_details, node_views


def test_each_numa_node_has_what_is_published_minus_what_is_not_reported() -> None:
    # Bound before the NRT was written: reported, 8 of NUMA node 0's 16 CPUs. Bound after it: 4 of NUMA node 1's.
    found = details(
        *machine("n0", (8, 16), (2, 2), {}),
        bound(name="old", node="n0", cpu=8, annotations=allocated(0, 8), status=bound_at(1)),
        bound(name="new", node="n0", cpu=4, annotations=allocated(1, 4), status=bound_at(3)),
    )
    free = {
        (numa_node.id, amount.resource): (amount.free, amount.allocatable, amount.capacity)
        for numa_node in found.node.numa_nodes
        for amount in numa_node.amounts
        if amount.resource != "memory"
    }
    assert free == {
        (0, "cpu"): (8_000, 16_000, 16_000),
        (1, "cpu"): (12_000, 16_000, 16_000),
        (0, GPU): (2, 2, 2),
        (1, GPU): (2, 2, 2),
    }
    assert [(each.resource, each.free, each.allocatable) for each in found.node.amounts if each.resource == "cpu"] == [
        ("cpu", 20_000, 32_000)
    ]
    assert [(pod.name, pod.qos, pod.policy, pod.numa_nodes) for pod in found.pods] == [
        ("new", "Guaranteed", "SingleNUMANode", (NUMAShare(1, {"cpu": 4_000}),)),
        ("old", "Guaranteed", "SingleNUMANode", (NUMAShare(0, {"cpu": 8_000}),)),
    ]
    (reserved,) = found.reservations
    assert (reserved.name, reserved.bound, reserved.requests) == ("new", True, {})
    assert reserved.numa_nodes == (NUMAShare(1, {"cpu": 4_000}),)


def test_a_pod_that_is_assigned_and_not_bound_yet_has_a_reservation() -> None:
    waiting = bound(name="p", node="", cpu=8, annotations=allocated(1, 8), status={"phase": "Pending"})
    del waiting["spec"]["nodeName"]
    found = details(*machine("n0", (16, 16), (2, 2), {}), waiting)
    (reserved,) = found.reservations
    assert (reserved.bound, reserved.numa_nodes) == (False, (NUMAShare(1, {"cpu": 8_000}),))
    assert reserved.requests == {"cpu": 8_000, "memory": 2**30}
    assert found.pods == ()
    assert [each.amounts[0].free for each in found.node.numa_nodes] == [16_000, 8_000]


def test_the_report_says_who_wrote_it_when_and_what_it_means() -> None:
    koordlet = {**WRITTEN, "labels": {"app.kubernetes.io/managed-by": "Koordinator"}}
    named = {"nodeTopologyPodsFingerprint": "pfp0v0011234567890123456"}
    cases = [
        (machine("n0", (16, 16), (2, 2), {}), TopologyReport("Free", "nfd", 3_600, False)),
        ([node(name="n0"), nrt(node="n0", free=(1,), metadata=koordlet)], TopologyReport("Total", "nfd", 3_600, False)),
        ([node(name="n0"), nrt(node="n0", free=(1,), attributes=named)], TopologyReport("Free", "", None, True)),
        ([node(name="n0")], None),
    ]
    assert [details(*objects).node.topology for objects, _ in cases] == [report for _, report in cases]


def test_the_policy_says_where_it_comes_from_and_whether_sources_disagree() -> None:
    label = {"node.koordinator.sh/numa-topology-policy": "Restricted"}
    cases = [
        ([node(name="n0"), nrt(node="n0", free=(1,), scope="pod")], "single-numa-node", "NodeResourceTopology", False),
        ([node(name="n0", labels=label), nrt(node="n0", free=(1,))], "restricted", "Label", True),
        ([node(name="n0", labels=label), nrt(node="n0", free=(1,), policy="restricted")], "restricted", "Label", False),
        ([node(name="n0"), nrt(node="n0", free=(1,), policy="often")], "unknown", "NodeResourceTopology", False),
        ([node(name="n0")], "none", "None", False),
    ]
    for objects, policy, source, disagree in cases:
        found = details(*objects).node
        assert (found.policy, found.policy_source, found.policies_disagree) == (policy, source, disagree)
    assert details(*cases[0][0]).node.scope == "pod"


def test_numa_ids_may_have_gaps_and_lists_differ() -> None:
    zones = [
        zone(numa_id=4, resources=[resource(name="cpu", capacity=8)]),
        zone(numa_id=1, resources=[resource(name="cpu", capacity=8), resource(name=GPU, capacity=2, available=1)]),
    ]
    found = details(node(name="n0"), nrt(node="n0", zones=zones)).node
    assert [(each.id, {amount.resource: amount.free for amount in each.amounts}) for each in found.numa_nodes] == [
        (1, {"cpu": 8_000, GPU: 1}),
        (4, {"cpu": 8_000}),
    ]


def test_a_list_has_all_nodes_by_name_with_the_wanted_resources() -> None:
    found = node_views(cluster_cache(*cluster()), ("cpu",))
    assert [(view.name, view.ready, view.cordoned, view.pods) for view in found] == [
        ("n0", True, False, 3),
        ("n1", True, False, 2),
        ("n2", True, True, 0),
        ("n3", True, False, 1),
        ("n4", True, False, 0),
    ]
    assert {amount.resource for view in found for each in view.numa_nodes for amount in each.amounts} == {"cpu"}


def test_an_unknown_node_has_no_details() -> None:
    assert node_details(cluster_cache(*cluster()), "n9") is None
