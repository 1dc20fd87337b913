"""Objects of Dynamic Resource Allocation, read."""

from typing import Any

import pytest

from webhook.formats.dra import (
    Allocation,
    Attribute,
    Capacity,
    Claim,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    Consumer,
    CounterUse,
    DeviceClass,
    DeviceId,
    Kind,
    NodeScope,
    PodClaim,
    Request,
    RequestPolicy,
    Result,
    Slice,
    TaintRule,
    Toleration,
    mapped_resources,
    pod_claims,
)
from webhook.formats.kubernetes.node import Taint

NANO = 10**9


def slice_of(*devices: dict[str, Any], driver: str = "gpu.example.com", **spec: Any) -> Slice:
    where = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": "n1"}
    return Slice.from_object(
        {
            "metadata": {"name": "s1"},
            "spec": {
                "driver": driver,
                "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2},
                "devices": list(devices),
                **where,
                **spec,
            },
        }
    )


def test_a_slice_has_its_pool_its_nodes_and_its_devices() -> None:
    found = slice_of(
        {
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "B200"},
                "gpu.example.com/index": {"int": 0},
                "resource.kubernetes.io/numaNode": {"int": 1},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                "ready": {"bool": True},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
            "taints": [{"key": "broken", "effect": "NoExecute"}],
        }
    )
    assert (found.name, found.driver, found.pool, found.generation, found.slices) == (
        "s1",
        "gpu.example.com",
        "n1",
        3,
        2,
    )
    assert found.scope == NodeScope(node="n1")
    (device,) = found.devices
    assert device.id == DeviceId("gpu.example.com", "n1", "gpu-0")
    assert str(device.id) == "gpu.example.com/n1/gpu-0"
    assert device.attributes["gpu.example.com/model"] == Attribute(Kind.STRING, ("B200",))
    assert device.attributes["gpu.example.com/index"] == Attribute(Kind.INT, (0,))
    assert device.attributes["gpu.example.com/driverVersion"].kind is Kind.VERSION
    assert device.capacity == {"memory": Capacity(80 * 2**30 * NANO)}
    assert device.taints == (Taint("broken", "", "NoExecute"),)
    assert device.numa_nodes == (1,)
    assert device.pcie_roots == ("pci0000:00",)
    assert (found.fault, device.fault) == ("", "")


@pytest.mark.parametrize(
    ("driver", "attributes", "numa_nodes"),
    [
        ("gpu.nvidia.com", {"resource.kubernetes.io/numaNode": {"int": 1}}, (1,)),
        ("gpu.nvidia.com", {"resource.kubernetes.io/numaNode": {"ints": [2, 3]}, "numa": {"int": 7}}, (2, 3)),
        ("gpu.nvidia.com", {"numa": {"int": 1}}, (1,)),
        ("gpu.amd.com", {"numaNode": {"int": 0}}, (0,)),
        ("dra.net", {"numaNode": {"int": 1}}, (1,)),
        ("sriovnetwork.k8snetworkplumbingwg.io", {"dra.net/numaNode": {"int": 1}}, (1,)),
        ("dra.cpu", {"dra.cpu/numaNodeID": {"int": 1}, "dra.net/numaNode": {"int": 1}}, (1,)),
        ("other.example.com", {"numaNode": {"int": 1}}, ()),
        ("dra.net", {"numaNode": {"string": "1"}}, ()),
        ("dra.net", {"numaNode": {"int": -1}}, ()),
    ],
)
def test_the_numa_node_is_the_first_known_attribute(driver: str, attributes: Any, numa_nodes: Any) -> None:
    (device,) = slice_of({"name": "d", "attributes": attributes}, driver=driver).devices
    assert device.numa_nodes == numa_nodes


TERM = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}


def test_devices_of_several_nodes() -> None:
    assert slice_of(allNodes=True).scope == NodeScope(all_nodes=True)
    assert slice_of(nodeSelector={"nodeSelectorTerms": [TERM]}).scope == NodeScope(terms=(TERM,))
    each = slice_of(
        {"name": "a", "nodeName": "n1"},
        {"name": "b", "allNodes": True},
        {"name": "c", "nodeSelector": {"nodeSelectorTerms": [TERM]}},
        {"name": "d"},
        perDeviceNodeSelection=True,
    )
    assert each.scope is None
    assert [device.scope for device in each.devices] == [
        NodeScope(node="n1"),
        NodeScope(all_nodes=True),
        NodeScope(terms=(TERM,)),
        NodeScope(),
    ]


def test_shared_counters_and_shared_devices() -> None:
    counters = slice_of(sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80"}}}])
    assert counters.counters == {"gpu-0": {"memory": 80 * NANO}}
    (device,) = slice_of(
        {
            "name": "mig",
            "consumesCounters": [
                {"counterSet": "gpu-0", "counters": {"memory": {"value": "10"}}, "compatibilityGroups": ["mig"]}
            ],
            "allowMultipleAllocations": True,
            "capacity": {
                "cpu": {
                    "value": "8",
                    "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "8", "step": "500m"}},
                },
                "mode": {"value": "4", "requestPolicy": {"default": "2", "validValues": ["2", "4"]}},
            },
            "bindingConditions": ["Attached"],
            "bindsToNode": True,
            "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "8"}}},
        }
    ).devices
    assert device.counters == (CounterUse("gpu-0", {"memory": 10 * NANO}, ("mig",)),)
    assert device.shared
    assert device.binding_conditions
    assert device.binds_to_node
    assert device.maps_node_resources
    assert device.capacity["cpu"] == Capacity(8 * NANO, RequestPolicy(NANO, (), NANO, 8 * NANO, NANO // 2))
    assert device.capacity["mode"].policy == RequestPolicy(2 * NANO, (2 * NANO, 4 * NANO))


@pytest.mark.parametrize(
    "wrong",
    [
        {"attributes": {"a": {"int": 1, "string": "b"}}},
        {"attributes": {"a": {"float": 1.0}}},
        {"attributes": {"a": {"int": True}}},
        {"attributes": {"a": {"ints": []}}},
        {"attributes": {"a": {"int": 1}, "gpu.example.com/a": {"int": 2}}},
        {"attributes": {"a": None}},
        {"attributes": {f"a{i}": {"int": 1} for i in range(33)}},
        {"attributes": {"a": {"ints": [1] * 49}}},
        {"attributes": []},
        {"attributes": [1]},
        {"capacity": {"a": {"value": "many"}}},
        {"capacity": {"a": {"value": "1"}, "gpu.example.com/a": {"value": "1"}}},
        {"taints": [{"key": 1, "effect": "NoSchedule"}]},
        {"consumesCounters": [{"counters": {}}]},
    ],
)
def test_a_device_that_cannot_be_read_says_so_and_the_others_are_read(wrong: Any) -> None:
    odd, good = slice_of({"name": "odd", **wrong}, {"name": "good"}).devices
    assert bool(odd.fault) is (wrong != {"attributes": []})
    assert odd.id.name == "odd"
    assert good.fault == ""


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"driver": "d", "pool": []},
        {"driver": "d", "pool": {"name": "p", "generation": "1"}},
        {"driver": "d", "pool": {"name": "p"}, "devices": {"a": 1}},
        {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": str(i)} for i in range(129)]},
        {"driver": "d", "pool": {"name": "p"}, "sharedCounters": [{"name": "a"}, {"name": "a"}]},
        [],
        None,
        "text",
    ],
)
def test_a_slice_that_cannot_be_read_says_so(spec: Any) -> None:
    found = Slice.from_object({"metadata": {"name": "s"}, "spec": spec})
    assert found.fault.startswith("ResourceSlice s: ")
    assert found.devices == ()


def requests_of(*requests: Any, **devices: Any) -> ClaimSpec:
    return ClaimSpec.from_object({"devices": {"requests": list(requests), **devices}})


def test_requests_and_constraints_of_a_claim() -> None:
    spec = requests_of(
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.example.com",
                "allocationMode": "ExactCount",
                "count": 2,
                "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                "tolerations": [
                    {"key": "broken", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "k", "value": "v"},
                ],
                "capacity": {"requests": {"memory": "40Gi"}},
            },
        },
        {
            "name": "nic",
            "exactly": {"deviceClassName": "nic.example.com", "allocationMode": "All", "adminAccess": True},
        },
        {
            "name": "any",
            "firstAvailable": [
                {"name": "large", "deviceClassName": "a"},
                {"name": "small", "deviceClassName": "b", "count": 3},
            ],
        },
        constraints=[
            {"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
            {"distinctAttribute": "a.example.com/b"},
        ],
    )
    gpu, nic, any_of = spec.requests
    assert gpu == Request(
        "gpu",
        "gpu.example.com",
        2,
        ("device.driver == 'gpu.example.com'",),
        tolerations=(Toleration("broken", None, "NoSchedule"), Toleration("k", "v", "")),
        capacity=(("memory", 40 * 2**30 * NANO),),
    )
    assert (nic.count, nic.admin) == (None, True)
    assert [(one.name, one.device_class, one.count) for one in any_of.first_available] == [
        ("any/large", "a", 1),
        ("any/small", "b", 3),
    ]
    assert spec.constraints == (
        Constraint("resource.kubernetes.io/pcieRoot", requests=frozenset({"gpu", "nic"})),
        Constraint("a.example.com/b", distinct=True),
    )
    assert spec.fault == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "r"},
        {"name": "r", "exactly": {"deviceClassName": "c"}, "firstAvailable": [{"deviceClassName": "c"}]},
        {"name": "r", "exactly": {}},
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
        {"name": "r", "exactly": {"deviceClassName": "c", "count": -1}},
        {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"regex": "a"}]}},
        {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{"operator": "Maybe"}]}},
        {"name": "r", "exactly": {"deviceClassName": "c", "derivedAttributes": [{"name": "a/b", "expression": "1"}]}},
        {"name": "r", "exactly": {"deviceClassName": "c", "capacity": {"requests": {"a": "x"}}}},
        {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}] * 9},
        {"name": "r", "exactly": []},
        {"name": "r", "exactly": 1},
    ],
)
def test_a_request_that_cannot_be_read_says_so_and_the_others_are_read(wrong: Any) -> None:
    odd, good = requests_of(wrong, {"name": "g", "exactly": {"deviceClassName": "c"}}).requests
    assert odd.fault
    assert odd.name == "r"
    assert good == Request("g", "c")


@pytest.mark.parametrize(
    "devices",
    [
        [],
        {"requests": "all"},
        {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}] * 33},
        {"constraints": [{"requests": ["a"]}]},
        {"constraints": [{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]},
        {"constraints": [{"matchExpression": "a"}]},
    ],
)
def test_a_claim_that_cannot_be_read_says_so(devices: Any) -> None:
    assert bool(ClaimSpec.from_object({"devices": devices}).fault) is (devices != [])


def test_an_allocated_claim() -> None:
    claim = Claim.from_object(
        {
            "metadata": {
                "namespace": "team",
                "name": "c",
                "uid": "u1",
                "resourceVersion": "7",
                "annotations": {
                    "resource.kubernetes.io/pod-claim-name": "gpu",
                    "resource.kubernetes.io/extended-resource-claim": "true",
                },
                "ownerReferences": [{"kind": "Pod", "uid": "p1", "controller": True}],
                "finalizers": ["resource.kubernetes.io/delete-protection"],
                "deletionTimestamp": "2030-01-01T00:00:00Z",
            },
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "request": "gpu",
                                "driver": "d",
                                "pool": "p",
                                "device": "gpu-0",
                                "shareID": "s",
                                "consumedCapacity": {"memory": "1"},
                            },
                            {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-1", "adminAccess": True},
                        ]
                    },
                    "nodeSelector": {"nodeSelectorTerms": [TERM]},
                },
                "reservedFor": [
                    {"resource": "pods", "name": "p", "uid": "p1"},
                    {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "g1"},
                ],
            },
        }
    )
    assert claim == Claim(
        "team",
        "c",
        "u1",
        ClaimSpec((Request("gpu", "c"),)),
        Allocation(
            (
                Result("gpu", DeviceId("d", "p", "gpu-0"), share="s", consumed={"memory": NANO}),
                Result("gpu", DeviceId("d", "p", "gpu-1"), admin=True),
            ),
            (TERM,),
        ),
        (Consumer("pods", "p", "p1"), Consumer("podgroups.scheduling.k8s.io", "g", "g1")),
        "gpu",
        "p1",
        for_extended_resources=True,
        deleted=True,
        finalizers=("resource.kubernetes.io/delete-protection",),
        resource_version="7",
    )
    assert claim.key == "team/c"


def test_a_claim_without_devices_can_be_allocated() -> None:
    allocated = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {}}}}
    assert Claim.from_object(allocated).allocation == Allocation()
    assert Claim.from_object({"metadata": {"name": "c"}, "status": {"allocation": {}}}).allocation == Allocation()
    assert Claim.from_object({"metadata": {"name": "c"}, "status": {}}).allocation is None
    assert Claim.from_object({"metadata": {"name": "c"}}).allocation is None


@pytest.mark.parametrize(
    "status",
    [
        {"allocation": {"devices": {"results": [{"driver": "d"}]}}},
        {"allocation": "all"},
        {"reservedFor": [{"resource": "pods"}] * 257},
        [1],
    ],
)
def test_a_claim_whose_allocation_cannot_be_read_says_so(status: Any) -> None:
    found = Claim.from_object({"metadata": {"namespace": "a", "name": "c"}, "status": status})
    assert found.fault.startswith("ResourceClaim a/c: ")


def test_a_template_has_the_spec_of_its_claims() -> None:
    raw = {
        "metadata": {"namespace": "team", "name": "t"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}}},
    }
    assert ClaimTemplate.from_object(raw) == ClaimTemplate("team", "t", ClaimSpec((Request("gpu", "c"),)))


def device_class(name: str, created: str, resource: str | None = None) -> DeviceClass:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return DeviceClass.from_object({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


def test_the_newest_class_serves_an_extended_resource() -> None:
    old = device_class("a", "2026-01-01T00:00:00Z", "example.com/gpu")
    new = device_class("c", "2026-02-01T00:00:00Z", "example.com/gpu")
    same = device_class("b", "2026-02-01T00:00:00Z", "example.com/gpu")
    other = device_class("d", "2026-02-01T00:00:00Z")
    found = mapped_resources([old, new, same, other])
    assert found["example.com/gpu"] == same
    assert found["deviceclass.resource.kubernetes.io/a"] == old
    assert found["deviceclass.resource.kubernetes.io/d"] == other
    assert old.selectors == ("device.driver == 'a'",)


def test_a_class_that_cannot_be_read_says_so() -> None:
    assert DeviceClass.from_object({"metadata": {"name": "c"}, "spec": {"selectors": [{"regex": "a"}]}}).fault
    assert DeviceClass.from_object({"metadata": {"name": "c"}, "spec": "x"}).fault


def taint_rule(selector: Any) -> TaintRule:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    return TaintRule.from_object({"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}})


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        (None, False),
        ({"driver": "d"}, True),
        ({"driver": "d", "pool": "p", "device": "g"}, True),
        ({"driver": "e"}, False),
        ({"pool": "q"}, False),
        ({"device": "h"}, False),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: Any, selects: bool) -> None:
    rule = taint_rule(selector)
    assert rule.taint == Taint("k", "v", "NoSchedule")
    assert rule.selects(DeviceId("d", "p", "g")) is selects
    assert rule.fault == ""


def test_a_rule_that_cannot_be_read_says_so_and_may_select_any_device() -> None:
    assert taint_rule({"selectors": [{"cel": {"expression": "true"}}]}).fault
    odd = TaintRule.from_object({"metadata": {"name": "r"}, "spec": {"taint": 1}})
    assert odd.fault
    assert odd.selects(DeviceId("d", "p", "g"))


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("k", "v", "NoSchedule"), True),
        (Toleration("k", None), True),
        (Toleration("", "", ""), False),
        (Toleration(), True),
        (Toleration("k", "w"), False),
        (Toleration("l", None), False),
        (Toleration("k", None, "NoExecute"), False),
    ],
)
def test_tolerations_cover_taints(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(Taint("k", "v", "NoSchedule")) is covers


def test_the_claims_of_a_pod() -> None:
    pod = {
        "spec": {
            "resourceClaims": [
                {"name": "own", "resourceClaimName": "shared"},
                {"name": "gpu", "resourceClaimTemplateName": "t"},
                {"name": "none", "resourceClaimTemplateName": "t"},
                {"name": "later", "resourceClaimTemplateName": "t"},
            ]
        },
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}, {"name": "none"}]},
    }
    assert pod_claims(pod) == (
        PodClaim("own", "shared", ""),
        PodClaim("gpu", "p-gpu-x", "t"),
        PodClaim("none", "", "t", skipped=True),
        PodClaim("later", "", "t"),
    )
    assert pod_claims({"spec": {"resourceClaims": "x"}}) == ()
    assert pod_claims({}) == ()
