"""NodeResourceTopology in every form and from every exporter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.formats.nrt import FingerprintMethod, NodeTopology, Publisher, ZoneResource
from webhook.model.policy import NUMAPolicy, Scope

GI = 2**30
POLICY, SCOPE, LIMIT = "topologyManagerPolicy", "topologyManagerScope", "topologyManagerMaxNUMANodes"


def topology(*zones: Any, **fields: Any) -> NodeTopology:
    return NodeTopology.from_object({"metadata": {"name": "n1"}, "zones": list(zones), **fields})


def zone(name: str, *resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "Node", "resources": list(resources), **more}


def resource(name: str, capacity: object, allocatable: object, available: object) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


def attributes(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]


# n1 ─ node-0 [cpu 15 of 16 free 11] ── 21 ── node-1 [cpu 16 free 16, one gpu]
RESOURCE_TOPOLOGY_EXPORTER = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {
        "name": "n1",
        "resourceVersion": "42",
        "annotations": {
            "k8stopoawareschedwg/rte-update": "periodic",
            "topology.node.k8s.io/fingerprint": "pfp0v001dd72eff2841b9e8e",
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"}],
    },
    "attributes": attributes(
        ("nodeTopologyPodsFingerprint", "pfp0v001dd72eff2841b9e8e"),
        ("nodeTopologyPodsFingerprintMethod", "with-exclusive-resources"),
        ("topologyManagerScope", "pod"),
        ("topologyManagerPolicy", "single-numa-node"),
    ),
    "zones": [
        {
            "name": "node-0",
            "type": "Node",
            "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}],
            "resources": [
                resource("cpu", "16", "15", "11"),
                resource("memory", "34359738368", "33285996544", "24696061952"),
            ],
        },
        {
            "name": "node-1",
            "type": "Node",
            "costs": [{"name": "node-0", "value": 21}, {"name": "node-1", "value": 10}],
            "resources": [resource("cpu", "16", "16", "16"), resource("nvidia.com/gpu", "1", "1", "1")],
        },
    ],
}


def test_what_resource_topology_exporter_publishes() -> None:
    read = NodeTopology.from_object(RESOURCE_TOPOLOGY_EXPORTER)
    assert (read.node, read.problems) == ("n1", ())
    assert (read.policy, read.scope, read.max_numa_nodes) == (NUMAPolicy.SINGLE_NUMA_NODE, Scope.POD, 8)
    assert (read.fingerprint, read.fingerprint_method) == (
        "pfp0v001dd72eff2841b9e8e",
        FingerprintMethod.WITH_EXCLUSIVE_RESOURCES,
    )
    assert read.publisher is Publisher.SUBTRACTS
    first, second = read.zones
    assert (first.id, first.name, first.costs) == (0, "node-0", {0: 10, 1: 21})
    assert first.resources == {
        "cpu": ZoneResource(16000, 15000, 11000),
        "memory": ZoneResource(32 * GI, 31 * GI, 23 * GI),
    }
    assert second.resources["nvidia.com/gpu"] == ZoneResource(1, 1, 1)


def test_what_node_feature_discovery_publishes() -> None:
    # Its zones stand in the random order of a Go map, beside both ways to tell the policy and attributes about cores.
    read = topology(
        zone("node-1", resource("cpu", 8, 7, 3)),
        zone("node-3", resource("cpu", 8, 8, 8)),
        zone("node-0", resource("cpu", 8, 0, 0)),
        topologyPolicies=["RestrictedContainerLevel"],
        attributes=attributes(
            ("cpu_atom", "8-15"),
            ("topologyManagerPolicy", "restricted"),
            ("topologyManagerScope", "container"),
            ("nodeTopologyPodsFingerprint", "pfp0v001ef46db3751d8e999"),
        ),
    )
    assert [zone.id for zone in read.zones] == [0, 1, 3]
    assert [zone.resources["cpu"].available for zone in read.zones] == [0, 3000, 8000]
    assert (read.policy, read.scope, read.publisher) == (NUMAPolicy.RESTRICTED, Scope.CONTAINER, Publisher.SUBTRACTS)
    assert (read.fingerprint, read.fingerprint_method) == ("pfp0v001ef46db3751d8e999", FingerprintMethod.ALL)
    assert read.problems == ()


KOORDLET = {
    "apiVersion": "topology.node.k8s.io/v1alpha1",
    "kind": "NodeResourceTopology",
    "metadata": {
        "name": "n1",
        "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
        "annotations": {
            "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none"}',
            "node.koordinator.sh/cpu-topology": '{"detail":[]}',
        },
    },
    "topologyPolicies": ["SingleNUMANodePodLevel"],
    "zones": [
        zone("node-0", resource("cpu", "26", "26", "26"), resource("koordinator.sh/gpu-core", "400", "400", "400")),
        zone("node-1", resource("cpu", "26", "26", "26"), resource("memory", "64Gi", "64Gi", "64Gi")),
    ],
}


def test_what_koordlet_publishes_are_totals() -> None:
    read = NodeTopology.from_object(KOORDLET)
    assert read.publisher is Publisher.TOTAL
    assert (read.policy, read.scope, read.fingerprint) == (NUMAPolicy.SINGLE_NUMA_NODE, Scope.POD, None)
    assert read.zones[0].costs == {}
    assert read.zones[0].resources["koordinator.sh/gpu-core"].available == 400
    assert read.problems == ()


@pytest.mark.parametrize(
    ("metadata", "publisher"),
    [
        ({}, Publisher.SUBTRACTS),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, Publisher.SUBTRACTS),
        ({"labels": {"app.kubernetes.io/managed-by": "Koordinator"}}, Publisher.TOTAL),
        ({"annotations": {"node.koordinator.sh/cpu-topology": "{}"}}, Publisher.TOTAL),
    ],
)
def test_koordlet_is_known_by_its_label_or_its_annotation(metadata: dict[str, Any], publisher: Publisher) -> None:
    assert topology(metadata=metadata).publisher is publisher


def test_the_form_with_cells() -> None:
    read = NodeTopology.from_object(
        {
            "metadata": {"name": "n1"},
            "topologyPolicies": ["BestEffort"],
            "cells": {
                "numa-node-1": {
                    "costs": {"numa-node-0": 20, "numa-node-1": 10},
                    "resources": {"cpu": {"capacity": "4", "allocatable": "3"}, "example.com/nic": "2"},
                },
                "0": {"resources": {"cpu": {"capacity": 4}}},
            },
        }
    )
    assert [(zone.id, zone.name) for zone in read.zones] == [(0, "0"), (1, "numa-node-1")]
    assert read.zones[0].resources == {"cpu": ZoneResource(4000, 4000, 4000)}
    assert read.zones[1].resources == {
        "cpu": ZoneResource(4000, 3000, 3000),
        "example.com/nic": ZoneResource(2, 2, 2),
    }
    assert read.zones[1].costs == {0: 20, 1: 10}
    assert (read.policy, read.problems) == (NUMAPolicy.BEST_EFFORT, ())


def test_numa_ids_may_be_sparse_and_in_any_order() -> None:
    read = topology(zone("node-8"), zone("numa-node-1"), zone("node-1023"), zone("node-10"))
    assert [zone.id for zone in read.zones] == [1, 8, 10, 1023]


def test_numa_nodes_that_have_nothing_are_counted_only() -> None:
    some, nothing = resource("cpu", 4, 4, 4), resource("cpu", 0, 0, 0)
    wide = topology(*(zone(f"node-{n}", some if n in {0, 33} else nothing) for n in range(34)), zone("node-40"))
    assert ([each.id for each in wide.zones], wide.without_resources, wide.numa_nodes) == ([0, 33], 33, 35)
    assert wide.problems == ()
    most = topology(*(zone(f"node-{n}", some if n < 17 else nothing) for n in range(34)))
    assert (most.zones, most.numa_nodes) == ((), 0)
    assert "more than 16 NUMA nodes with CPUs, memory or devices" in most.problems[0]
    none = topology(*(zone(f"node-{n}") for n in range(2)))
    assert (len(none.zones), none.without_resources) == (2, 0)
    twice = topology(zone("node-0"), zone("node-0", some), zone("node-1", some))
    assert "listed before" in twice.problems[0]


@pytest.mark.parametrize("name", ["socket-0", "node-", "node--1", "node-x", "node-1024", "node-0 ", ""])
def test_a_zone_that_names_no_numa_node_is_left_out(name: str) -> None:
    read = topology(zone(name), zone("node-1"))
    assert [zone.id for zone in read.zones] == [1]
    assert "node-N" in read.problems[0]


def test_zones_that_are_no_numa_nodes_are_passed_over_and_told() -> None:
    read = topology(zone("socket-0", type="Socket"), zone("node-0"), zone("core-0", type="Core"))
    assert [zone.id for zone in read.zones] == [0]
    only = "because only zones of type 'Node' are NUMA nodes"
    assert read.problems == (f"2 zones are ignored, {only}: 1 of type 'Socket', 1 of type 'Core'",)
    (one,) = topology(zone("node-0"), zone("x", type="\x1b" + "x" * 9_000)).problems
    assert one.startswith(f"1 zone is ignored, {only}: 1 of type ")
    assert (one.isprintable(), len(one) < 300) == (True, True)


def test_numa_nodes_without_cpus_are_read_and_told() -> None:
    zones = zone("node-0", resource("memory", 1, 1, 1)), zone("node-1", resource("memory", 1, 1, 1))
    read = topology(*zones, attributes=attributes((POLICY, "restricted")))
    assert [zone.id for zone in read.zones] == [0, 1]
    assert "no NUMA node lists cpu" in read.problems[0]


def test_a_kubelet_that_aligns_nothing_lists_no_cpus_beside_its_devices_and_that_is_no_problem() -> None:
    devices = zone("node-0", resource("example.com/gpu", 1, 1, 1)), zone("node-1", resource("example.com/gpu", 1, 1, 1))
    assert topology(*devices, attributes=attributes((POLICY, "none"))).problems == ()


def test_a_numa_node_with_memory_alone_beside_one_with_cpus_is_no_problem() -> None:
    read = topology(zone("node-0", resource("cpu", 4, 4, 4)), zone("node-1", resource("memory", 1, 1, 1)))
    assert read.problems == ()


def test_of_two_zones_for_one_numa_node_the_first_counts() -> None:
    read = topology(zone("node-0", resource("cpu", 4, 4, 4)), zone("numa-node-0", resource("cpu", 8, 8, 8)))
    assert [zone.resources["cpu"].available for zone in read.zones] == [4000]
    assert "listed before" in read.problems[0]


def test_of_two_entries_for_one_resource_the_last_counts() -> None:
    read = topology(zone("node-0", resource("cpu", 4, 4, 4), resource("cpu", 8, 8, 8)))
    assert read.zones[0].resources == {"cpu": ZoneResource(8000, 8000, 8000)}


@pytest.mark.parametrize("bad", ["many", "-1", None, [1], True, "8 Gi"])
def test_an_unreadable_amount_leaves_out_that_resource_alone(bad: object) -> None:
    read = topology(zone("node-0", resource("cpu", bad, bad, bad), resource("memory", 1, 1, 1)))
    assert read.zones[0].resources == {"memory": ZoneResource(1, 1, 1)}
    assert "cpu is ignored" in read.problems[0]


@pytest.mark.parametrize(
    "cost", [{"name": "node-1", "value": "near"}, {"name": "node-1", "value": -1}, {"name": "bus", "value": 10}, "near"]
)
def test_an_unreadable_cost_is_left_out(cost: object) -> None:
    read = topology(zone("node-0", costs=[cost, {"name": "node-0", "value": 10}]))
    assert read.zones[0].costs == {0: 10}
    assert len(read.problems) == 1


@pytest.mark.parametrize("raw", [{}, {"zones": None}, {"zones": "x"}, {"zones": ["x", None]}, {"cells": {"0": 1}}])
def test_an_object_without_usable_zones_has_none(raw: dict[str, Any]) -> None:
    assert NodeTopology.from_object(raw).zones == ()


def config(read: NodeTopology) -> tuple[str, str, int]:
    return read.policy.kubelet, read.scope.kubelet, read.max_numa_nodes


def test_a_node_that_says_nothing_has_the_kubelets_defaults() -> None:
    assert config(topology()) == ("none", "container", 8)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (["SingleNUMANodePodLevel"], ("single-numa-node", "pod", 8)),
        (["RestrictedContainerLevel"], ("restricted", "container", 8)),
        (["BestEffortPodLevel", "SingleNUMANodePodLevel"], ("best-effort", "pod", 8)),
        (["Restricted"], ("restricted", "container", 8)),
        (["None"], ("none", "container", 8)),
        ([], ("none", "container", 8)),
    ],
)
def test_the_first_topology_policy_counts(policies: list[str], expected: tuple[str, str, int]) -> None:
    read = topology(topologyPolicies=policies)
    assert config(read) == expected
    assert read.problems == ()


def test_early_exporters_repeat_the_kubelets_own_spelling_and_the_apis_example_has_another() -> None:
    for name in ("single-numa-node", "SingleNUMANode", "SingleNumaNode", "SINGLE_NUMA_NODE"):
        read = topology(topologyPolicies=[name])
        assert (config(read), read.problems) == (("single-numa-node", "container", 8), ())


@pytest.mark.parametrize("value", ["", None])
def test_an_exporter_whose_kubelet_names_no_policy_names_none_and_the_other_source_holds(value: str | None) -> None:
    read = topology(topologyPolicies=["RestrictedPodLevel"], attributes=[{"name": POLICY, "value": value}])
    assert (config(read), read.unknown_policy, read.problems) == (("restricted", "pod", 8), "", ())
    assert config(topology(topologyPolicies=[value])) == ("none", "container", 8)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"topologyPolicies": ["strict"]}, "topologyPolicies[0] 'strict'"),
        ({"topologyPolicies": [{"a": 1}, "None"]}, "topologyPolicies[0] {'a': 1}"),
        ({"attributes": attributes((POLICY, "strict\n"))}, f"{POLICY} 'strict\\n'"),
        # What publishers write into the older field where it has no name for the policy, or wrote before.
        ({"topologyPolicies": ["None"], "attributes": attributes((POLICY, "strict"))}, f"{POLICY} 'strict'"),
        ({"topologyPolicies": ["Restricted"], "attributes": attributes((POLICY, "strict"))}, f"{POLICY} 'strict'"),
    ],
)
def test_a_policy_that_cannot_be_read_is_unknown_and_not_none(fields: dict[str, Any], text: str) -> None:
    read = topology(**fields)
    assert (read.policy, read.unknown_policy) == (NUMAPolicy.NONE, text)
    assert read.problems == (f"{text} is no known policy: pods that its kubelet might reject stay away",)


def test_an_attribute_that_can_be_read_counts_where_the_older_field_cannot() -> None:
    read = topology(topologyPolicies=["strict"], attributes=attributes((POLICY, "restricted")))
    assert (config(read), read.unknown_policy) == (("restricted", "container", 8), "")


@pytest.mark.parametrize(
    ("policies", "pairs", "expected"),
    [
        (["SingleNUMANode"], [], ("none", "container")),
        (["Restricted"], [], ("none", "container")),
        ([None], [(POLICY, "SingleNUMANode")], ("none", "container")),
        (["SingleNUMANodePodLevel"], [(POLICY, "strict"), (SCOPE, "Container")], ("single-numa-node", "pod")),
        (["single-numa-node-pod-level"], [(POLICY, "single-numa-node")], ("single-numa-node", "container")),
    ],
)
def test_the_upstream_plugin_ignores_what_is_not_spelled_as_it_wants(
    policies: list[str], pairs: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    plugin = topology(topologyPolicies=policies, attributes=attributes(*pairs)).plugin
    assert plugin is not None
    assert (plugin.policy.kubelet, plugin.scope.kubelet) == expected


def test_where_the_plugin_reads_the_same_nothing_is_kept_for_it() -> None:
    assert topology(topologyPolicies=["RestrictedPodLevel"], attributes=attributes((POLICY, "none"))).plugin is None


@pytest.mark.parametrize(
    ("pairs", "expected", "ignored"),
    [
        ([(POLICY, "restricted")], ("restricted", "pod", 8), 0),
        ([(SCOPE, "container")], ("single-numa-node", "container", 8), 0),
        ([(POLICY, "none"), (POLICY, "restricted")], ("restricted", "pod", 8), 0),
        ([(POLICY, "restricted"), (POLICY, "strict")], ("restricted", "pod", 8), 1),
        ([(POLICY, "SingleNUMANode"), (SCOPE, "Pod")], ("single-numa-node", "pod", 8), 0),
        ([(SCOPE, "node")], ("single-numa-node", "pod", 8), 1),
        ([(LIMIT, "16")], ("single-numa-node", "pod", 16), 0),
        ([(LIMIT, "2")], ("single-numa-node", "pod", 2), 0),
        ([(LIMIT, "1")], ("single-numa-node", "pod", 8), 1),
        ([(LIMIT, "many")], ("single-numa-node", "pod", 8), 1),
        ([(LIMIT, "4096")], ("single-numa-node", "pod", 1024), 0),
        ([(LIMIT, "16"), (LIMIT, "0")], ("single-numa-node", "pod", 16), 1),
        ([("example.com/rack", "r1")], ("single-numa-node", "pod", 8), 0),
    ],
)
def test_attributes_override_field_by_field_and_the_last_valid_one_wins(
    pairs: list[tuple[str, str]], expected: tuple[str, str, int], ignored: int
) -> None:
    read = topology(topologyPolicies=["SingleNUMANodePodLevel"], attributes=attributes(*pairs))
    assert config(read) == expected
    assert len(read.problems) == ignored


@pytest.mark.parametrize(
    ("value", "closest"),
    [
        ("prefer-closest-numa-nodes=true", True),
        ("max-allowable-numa-nodes=16, prefer-closest-numa-nodes=true", True),
        ("prefer-closest-numa-nodes=false", False),
    ],
)
def test_the_kubelets_policy_options_may_be_given(value: str, closest: bool) -> None:
    assert topology(attributes=attributes(("topologyManagerPolicyOptions", value))).prefer_closest is closest


def test_an_old_exporter_puts_the_fingerprint_into_an_annotation() -> None:
    read = topology(metadata={"annotations": {"topology.node.k8s.io/fingerprint": "pfp0v001ef46db3751d8e999"}})
    assert read.fingerprint == "pfp0v001ef46db3751d8e999"


NAMES = st.sampled_from(
    ["name", "type", "costs", "resources", "capacity", "available", "value", "node-0", "cpu", "Node"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["Node", "node-0", "cpu", "4", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["zones", "cells", "attributes", "topologyPolicies"]), JSON))
def test_no_object_is_so_odd_that_it_stops_the_reader(raw: dict[str, Any]) -> None:
    assert NodeTopology.from_object({"metadata": {"name": "n1"}, **raw}).node == "n1"


def test_an_nrt_was_written_when_somebody_last_changed_its_zones() -> None:
    fields = [
        {"manager": "exporter", "time": "1970-01-01T00:00:20Z", "fieldsV1": {"f:zones": {}}},
        {"manager": "older", "time": "1970-01-01T00:00:10Z", "fieldsV1": {"f:zones": {}, "f:attributes": {}}},
        {"manager": "kubectl", "time": "1970-01-01T00:00:30Z", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
        {"manager": "odd", "fieldsV1": {"f:zones": {}}},
        "odd",
    ]
    assert NodeTopology.from_object({"metadata": {"name": "n", "managedFields": fields}}).written_at == 20
    assert NodeTopology.from_object({"metadata": {"name": "n"}}).written_at is None


def test_equal_distances_are_stored_once() -> None:
    costs = [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}]
    raws = [{"metadata": {"name": name}, "zones": [{"name": "node-0", "costs": [*costs]}]} for name in ("a", "b")]
    first, second = (NodeTopology.from_object(raw).zones[0].costs for raw in raws)
    assert first is second
    assert first == {0: 10, 1: 21}


def test_a_distance_that_only_compares_equal_to_a_number_is_ignored() -> None:
    for value in (1, True, 1.0):
        raw = {"metadata": {"name": "a"}, "zones": [{"name": "node-0", "costs": [{"name": "node-0", "value": value}]}]}
        assert NodeTopology.from_object(raw).zones[0].costs == ({0: 1} if type(value) is int else {})


def test_a_rewritten_nrt_differs_only_in_who_wrote_it_and_when() -> None:
    first = NodeTopology("a", written_at=1, written_by="x")
    assert NodeTopology("a", written_at=2, written_by="y").is_rewritten(first)
    assert not NodeTopology("a", written_at=1, max_numa_nodes=4).is_rewritten(first)
