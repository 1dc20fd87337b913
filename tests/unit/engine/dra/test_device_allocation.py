"""Which devices the claims of a pod get on a node."""

import gc
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import ref

import pytest

from tests.builders.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    distinct,
    first_available,
    match,
    request,
    resource_slice,
    result,
)
from webhook.engine.dra import device_allocation
from webhook.engine.dra.device_allocation import (
    MAX_SHAPES,
    MAX_STEPS,
    Cause,
    DeviceAllocator,
    DeviceCount,
    Fit,
    Verdict,
)
from webhook.engine.dra.device_pools import Budget, DeviceInventory
from webhook.formats.dra import Claim, DeviceClass, DeviceId, Result, Slice
from webhook.model.resources import MAX_AMOUNT

NIC = "nic.example.com"
PCIE = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"
FITS, NO, UNKNOWN = Verdict.FITS, Verdict.DOES_NOT_FIT, Verdict.CANNOT_SAY


class Cluster:
    """An inventory with the classes of GPUs and NICs, and an allocator on it."""

    def __init__(self, *slices: dict[str, Any]) -> None:
        self.inventory = DeviceInventory()
        for name in (DRIVER, NIC):
            self.inventory.put_class(DeviceClass.from_object(device_class(name)))
        for one in slices:
            self.inventory.put_slice(Slice.from_object(one))
        self.allocator = DeviceAllocator(self.inventory)

    def take(self, *names: str, node: str = "n1", **fields: Any) -> "Cluster":
        """Let a claim have these devices."""
        results = [result(name, pool=node, **fields) for name in names]
        self.inventory.put_claim(Claim.from_object(claim("-".join(names), results=results)))
        return self

    def fit(self, *claims: dict[str, Any], node: str = "n1", **how: Any) -> Fit:
        """The answer for a pod with these claims."""
        prepared = {key: how.pop(key) for key in ("alike", "pod_uid", "budget") if key in how}
        fitter = self.allocator.fitter([Claim.from_object(one) for one in claims], **prepared)
        return fitter.on(self.inventory.on(node, {"rack": "r1"}), **how)


def gpus(*found: dict[str, Any], node: str = "n1", **fields: Any) -> dict[str, Any]:
    return resource_slice(node, found or [device(f"gpu-{i}") for i in range(4)], **fields)


def taken(fit: Fit) -> list[list[str]]:
    assert fit.verdict is FITS, fit
    return [[one.device.id.name for one in found] for found in fit.devices]


def test_the_first_free_devices_are_taken() -> None:
    cluster = Cluster(gpus()).take("gpu-1")
    fit = cluster.fit(claim("a", [request(count=2)]), claim("b", [request()]))
    assert taken(fit) == [["gpu-0", "gpu-2"], ["gpu-3"]]
    assert [one.request for one in fit.devices[0]] == ["gpu", "gpu"]
    assert fit.results[0] == Result("gpu", DeviceId(DRIVER, "n1", "gpu-0"))
    no = cluster.fit(claim("a", [request(count=2)]), claim("b", [request(count=2)]))
    assert (no.verdict, no.cause, no.detail) == (NO, Cause.TOO_FEW_DEVICES, "request gpu of claim b")
    no = cluster.fit(claim("a", [request(count=4)]))
    assert no.detail == "request gpu of claim a: 3 of 4 that match can be taken"
    assert cluster.fit(claim("a", [request()]), node="n2").verdict is NO
    assert taken(cluster.fit()) == []
    assert taken(cluster.fit(claim("a", []))) == [[]]


def test_class_and_request_select_devices() -> None:
    cluster = Cluster(
        gpus(*(device(f"gpu-{i}", attributes={"model": "ab"[i % 2]}) for i in range(4))),
        gpus(device("nic-0"), driver=NIC),
    )
    by_model = request("b", 2, 'device.attributes["gpu.example.com"].model == "b"')
    assert taken(cluster.fit(claim("a", [by_model, request("nic", cls=NIC)]))) == [["gpu-1", "gpu-3", "nic-0"]]
    assert cluster.fit(claim("a", [{**by_model, "exactly": {**by_model["exactly"], "count": 3}}])).verdict is NO
    missing = cluster.fit(claim("a", [request(cls="none")]))
    assert (missing.verdict, missing.cause, missing.detail) == (NO, Cause.NO_CLASS, "none of request gpu of claim a")
    cluster.inventory.put_class(DeviceClass.from_object(device_class("none", "true")))
    assert taken(cluster.fit(claim("a", [request(cls="none")]))) == [["gpu-0"]]


def test_all_devices_are_all_that_match_and_each_must_be_free() -> None:
    cluster = Cluster(gpus())
    assert taken(cluster.fit(claim("a", [request(count=None)]))) == [[f"gpu-{i}" for i in range(4)]]
    assert cluster.fit(claim("a", [request("one"), request(count=None)])).verdict is NO
    assert cluster.fit(claim("a", [request(count=None)]), node="n2").verdict is NO
    assert cluster.take("gpu-3").fit(claim("a", [request(count=None)])).verdict is NO
    many = Cluster(gpus(*(device(f"gpu-{i}") for i in range(33))))
    assert many.fit(claim("a", [request(count=None)])).verdict is NO
    assert many.fit(claim("a", [request(count=33)])).cause is Cause.TOO_MANY_DEVICES


def test_all_devices_wait_for_pools_that_change() -> None:
    cluster = Cluster(gpus(), gpus(driver=NIC, slices=2))
    fit = cluster.fit(claim("a", [request(count=None)]))
    assert (fit.verdict, fit.cause) == (NO, Cause.POOL_CHANGES)
    assert taken(cluster.fit(claim("a", [request()]))) == [["gpu-0"]]


# Two PCIe roots on each of two NUMA nodes; the GPU on the first root is taken.
def paired() -> Cluster:
    cluster = Cluster(
        gpus(*(device(f"gpu-{i}", attributes={PCIE: f"pci{i}", NUMA: i // 2}) for i in range(4))),
        gpus(*(device(f"nic-{i}", attributes={PCIE: f"pci{i}", NUMA: i // 2}) for i in range(4)), driver=NIC),
    )
    return cluster.take("gpu-0")


def test_devices_of_a_constraint_are_alike() -> None:
    both = [request(), request("nic", cls=NIC)]
    assert taken(paired().fit(claim("a", both))) == [["gpu-1", "nic-0"]]
    assert taken(paired().fit(claim("a", both, constraints=[match(PCIE)]))) == [["gpu-1", "nic-1"]]
    two = [request(count=2), request("nic", 2, cls=NIC)]
    assert taken(paired().fit(claim("a", two, constraints=[match(NUMA)]))) == [["gpu-2", "gpu-3", "nic-2", "nic-3"]]
    fit = paired().fit(claim("a", two, constraints=[match(PCIE)]))
    assert (fit.verdict, fit.cause) == (NO, Cause.CONSTRAINTS)
    # A constraint on one request leaves the other alone; one without a device that has the attribute cannot be met.
    assert taken(paired().fit(claim("a", both, constraints=[match(NUMA, "gpu")]))) == [["gpu-1", "nic-0"]]
    assert paired().fit(claim("a", both, constraints=[match("example.com/none")])).verdict is NO


def test_devices_of_a_constraint_are_different() -> None:
    fit = paired().fit(claim("a", [request(count=2)], constraints=[distinct(NUMA)]))
    assert taken(fit) == [["gpu-1", "gpu-2"]]
    assert paired().fit(claim("a", [request(count=3)], constraints=[distinct(NUMA)])).verdict is NO


def test_values_of_other_types_are_different() -> None:
    cluster = Cluster(gpus(device("a", attributes={"x": 1}), device("b", attributes={"x": True})))
    attribute = f"{DRIVER}/x"
    assert cluster.fit(claim("a", [request(count=2)], constraints=[match(attribute)])).verdict is NO
    assert taken(cluster.fit(claim("a", [request(count=2)], constraints=[distinct(attribute)]))) == [["a", "b"]]


def test_lists_match_if_they_have_a_value_in_common() -> None:
    cluster = Cluster(
        gpus(
            *(device(name, attributes={"x": {"ints": ints}}) for name, ints in (("a", [1, 2]), ("b", [3]), ("c", [2])))
        )
    )
    attribute = f"{DRIVER}/x"
    assert taken(cluster.fit(claim("a", [request(count=2)], constraints=[match(attribute)]))) == [["a", "c"]]
    assert taken(cluster.fit(claim("a", [request(count=2)], constraints=[distinct(attribute)]))) == [["a", "b"]]


def test_a_constraint_that_keeps_a_request_from_all_devices_ends_the_search() -> None:
    cluster = Cluster(gpus(device("a", attributes={"x": 1}), device("b", attributes={"x": 2})))
    fit = cluster.fit(claim("a", [request(count=None)], constraints=[match(f"{DRIVER}/x")]))
    assert (fit.verdict, fit.cause) == (NO, Cause.CONSTRAINTS)


def test_tainted_devices_need_a_toleration() -> None:
    cluster = Cluster(
        gpus(
            device("a", taints=[{"key": "broken", "effect": "NoSchedule"}]),
            device("b", taints=[{"key": "note", "effect": "None"}]),
            device("c", taints=[{"key": "new", "effect": "Unheard"}]),
        )
    )
    assert taken(cluster.fit(claim("a", [request(count=2)]))) == [["b", "c"]]
    assert cluster.fit(claim("a", [request(count=3)])).verdict is NO
    assert cluster.fit(claim("a", [request(count=None)])).verdict is NO
    tolerating = request(count=None, tolerations=[{"key": "broken", "operator": "Exists"}])
    assert taken(cluster.fit(claim("a", [tolerating]))) == [["a", "b", "c"]]


def test_admin_access_gets_devices_that_others_have_but_not_twice_in_a_claim() -> None:
    cluster = Cluster(gpus(device("a"), device("b"))).take("a", "b")
    admin = request(adminAccess=True)
    fit = cluster.fit(claim("a", [admin]))
    assert taken(fit) == [["a"]]
    assert fit.results[0].admin
    assert taken(cluster.fit(claim("a", [admin, request("other", adminAccess=True)]))) == [["a", "b"]]
    assert taken(cluster.fit(claim("a", [admin]), claim("b", [admin]))) == [["a"], ["a"]]
    assert cluster.fit(claim("a", [request(count=3, adminAccess=True)])).verdict is NO
    assert taken(cluster.fit(claim("a", [request(count=None, adminAccess=True)]))) == [["a", "b"]]


def test_admin_access_to_a_taken_device_leaves_a_free_one_to_others() -> None:
    attributes = {"numa": 1}
    cluster = Cluster(gpus(device("a", attributes=attributes), device("b", attributes=attributes))).take("b")
    both = [request("admin", adminAccess=True), request("own")]
    assert taken(cluster.fit(claim("c", both, constraints=[match(f"{DRIVER}/numa")]))) == [["b", "a"]]


def test_the_first_alternative_that_can_be_met_counts() -> None:
    cluster = Cluster(gpus(), gpus(device("nic-0"), driver=NIC))
    either = first_available("any", request("many", 5), request("nic", cls=NIC), request("one"))
    assert taken(cluster.fit(claim("a", [either]))) == [["nic-0"]]
    assert cluster.fit(claim("a", [either])).devices[0][0].request == "any/nic"
    assert taken(cluster.fit(claim("a", [either]), claim("b", [either]))) == [["nic-0"], ["gpu-0"]]
    # The first alternative would leave nothing for what comes after it.
    both = first_available("any", request("four", 4), request("two", 2))
    assert taken(cluster.fit(claim("a", [both, request("last", 2)]))) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]
    named = claim("a", [both, request("last")], constraints=[match("example.com/none", "any/four")])
    assert taken(cluster.fit(named)) == [["gpu-0", "gpu-1", "gpu-2"]]
    assert cluster.fit(claim("a", [both], constraints=[match("example.com/none", "any")])).verdict is NO


def test_a_selector_that_fails_in_an_alternative_for_all_devices_leaves_the_claim_open_though_it_is_not_needed() -> (
    None
):
    cluster = Cluster(gpus())
    failing = f'device.attributes["{DRIVER}"].none == 1'
    counted = first_available("any", request("one"), request("other", 1, failing))
    assert cluster.fit(claim("a", [counted])).verdict is FITS
    whole = first_available("any", request("one"), request("all", None, failing))
    assert cluster.fit(claim("a", [whole])).verdict is UNKNOWN


def test_an_allocated_claim_pins_the_pod() -> None:
    cluster = Cluster(gpus(), gpus(node="n2")).take("gpu-0")
    mine = claim("mine", [request()], results=[result("gpu-0", pool="n1")], node="n1")
    assert taken(cluster.fit(mine, claim("b", [request()]))) == [[], ["gpu-1"]]
    elsewhere = cluster.fit(mine, claim("b", [request()]), node="n2")
    assert (elsewhere.verdict, elsewhere.cause) == (NO, Cause.CLAIM_ELSEWHERE)
    everywhere = claim("mine", [request()], results=[result("gpu-0", pool="n1")])
    assert taken(cluster.fit(everywhere, node="n2")) == [[]]


def test_an_allocated_claim_has_room_for_256_pods() -> None:
    full = claim("a", [request()], results=[], reserved_for=[f"p{i}" for i in range(256)])
    fit = Cluster(gpus()).fit(full)
    assert (fit.verdict, fit.cause) == (NO, Cause.CLAIM_IN_USE)
    assert Cluster(gpus()).fit(full, pod_uid="uid-p7").verdict is FITS


def partitions(**first: Any) -> dict[str, Any]:
    """A GPU of 80 that can be had whole, in halves or in quarters."""
    sizes = {"whole": 80, "half-0": 40, "half-1": 40, "quarter-0": 20, "quarter-1": 20}
    return resource_slice(
        "n1",
        [
            device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": {"memory": {"value": str(size)}}}])
            for name, size in sizes.items()
        ],
        slices=2,
        **first,
    )


COUNTERS = resource_slice(
    "n1", [], name="counters", slices=2, sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80"}}}]
)


def test_devices_share_counters() -> None:
    cluster = Cluster(COUNTERS, partitions())
    assert taken(cluster.fit(claim("a", [request()]))) == [["whole"]]
    assert taken(cluster.fit(claim("a", [request(count=2)]))) == [["half-0", "half-1"]]
    assert taken(cluster.fit(claim("a", [request(count=3)]))) == [["half-0", "quarter-0", "quarter-1"]]
    assert cluster.fit(claim("a", [request(count=4)])).verdict is NO
    cluster.take("half-1")
    assert taken(cluster.fit(claim("a", [request()]))) == [["half-0"]]
    assert taken(cluster.fit(claim("a", [request(count=2)]))) == [["quarter-0", "quarter-1"]]
    also = [Result("", DeviceId(DRIVER, "n1", "quarter-0"))]
    assert taken(cluster.fit(claim("a", [request()]), also=also)) == [["quarter-1"]]


def sliced(policy: Mapping[str, Any] | None = None) -> dict[str, Any]:
    value = {"value": "10", **({"requestPolicy": dict(policy)} if policy else {})}
    return gpus(
        *(device(name, capacity={"slots": value}, allowMultipleAllocations=True) for name in ("a", "b")),
        device("alone", capacity={"slots": "10"}),
    )


def slots(amount: str, count: int = 1, name: str = "gpu") -> dict[str, Any]:
    return request(name, count, capacity={"requests": {"slots": amount}})


def test_a_shared_device_serves_claims_as_long_as_its_capacity_suffices() -> None:
    cluster = Cluster(sliced())
    fit = cluster.fit(claim("x", [slots("6")]), claim("y", [slots("4")]), claim("z", [slots("6")]))
    assert taken(fit) == [["a"], ["a"], ["b"]]
    assert fit.devices[0][0].consumed == (("slots", 6 * 10**9),)
    assert taken(cluster.fit(claim("x", [request()]), claim("y", [slots("1")]))) == [["a"], ["b"]]
    assert taken(cluster.fit(claim("x", [slots("10", 3)]))) == [["a", "b", "alone"]]
    assert cluster.fit(claim("x", [slots("11")])).verdict is NO
    assert cluster.fit(claim("x", [request(capacity={"requests": {"none": "1"}})])).verdict is NO
    cluster.take("a", shareID="s1", consumedCapacity={"slots": "5"})
    assert taken(cluster.fit(claim("x", [slots("6")]))) == [["b"]]
    assert taken(cluster.fit(claim("x", [slots("5")]))) == [["a"]]
    assert taken(cluster.fit(claim("x", [slots("5")]), also=cluster.fit(claim("y", [slots("5")])).results)) == [["b"]]


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        ({"default": "2", "validValues": ["2", "4", "8"]}, "3", 4),
        ({"default": "2", "validValues": ["2", "4", "8"]}, "9", None),
        ({"default": "2", "validValues": ["2", "4", "8"]}, "", 2),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "3"}}, "1", 2),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "3"}}, "3", 5),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "3"}}, "9", None),
        ({"default": "2", "validRange": {"min": "2", "max": "8"}}, "3", 3),
        ({"default": "3"}, "", 3),
        ({"default": "3"}, "1", 1),
    ],
)
def test_a_policy_rounds_what_a_request_consumes(policy: Any, requested: str, consumed: int | None) -> None:
    cluster = Cluster(sliced(policy))
    cluster.take("alone")
    fit = cluster.fit(claim("x", [slots(requested) if requested else request()]))
    if consumed is None:
        assert fit.verdict is NO
    else:
        assert taken(fit) == [["a"]]
        assert fit.devices[0][0].consumed == (("slots", consumed * 10**9),)


def test_thousandths_depend_on_a_feature_gate() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "max": "8", "step": "500m"}}
    assert Cluster(sliced(policy)).fit(claim("x", [slots("1300m")])).verdict is UNKNOWN


def test_devices_of_other_numa_nodes_are_left_out() -> None:
    cluster = paired()
    both = claim("a", [request(), request("nic", cls=NIC)])
    assert taken(cluster.fit(both, numa_nodes={1})) == [["gpu-2", "nic-2"]]
    assert taken(cluster.fit(both, numa_nodes={0, 1})) == [["gpu-1", "nic-0"]]
    assert cluster.fit(claim("a", [request(count=2)]), numa_nodes={0}).verdict is NO
    assert cluster.fit(claim("a", [request("nic", None, cls=NIC)]), numa_nodes={0}).verdict is NO
    # Of a device without the attribute nothing is known.
    assert taken(Cluster(gpus()).fit(claim("a", [request()]), numa_nodes={1})) == [["gpu-0"]]


def test_devices_of_all_claims_can_be_asked_to_share_an_attribute() -> None:
    gpu, nic = claim("a", [request()]), claim("b", [request("nic", cls=NIC)])
    assert taken(paired().fit(gpu, nic)) == [["gpu-1"], ["nic-0"]]
    assert taken(paired().fit(gpu, nic, alike=PCIE)) == [["gpu-1"], ["nic-1"]]
    assert paired().fit(claim("a", [request(count=2)]), nic, alike=PCIE).verdict is NO
    assert taken(Cluster(gpus()).fit(gpu, alike=PCIE)) == [["gpu-0"]]


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ('device.attributes["gpu.example.com"].none == 1', UNKNOWN),
        ('device.attributes["gpu.example.com"].x.exists(a, a == 1)', UNKNOWN),
        ("anything at all", UNKNOWN),
        ("false && anything", UNKNOWN),
        ("false", NO),
    ],
)
def test_what_a_selector_does_not_answer_is_not_known(expression: str, verdict: Verdict) -> None:
    cluster = Cluster(gpus())
    fit = cluster.fit(claim("a", [request("gpu", 1, expression)]))
    assert fit.verdict is verdict
    if verdict is UNKNOWN:
        assert fit.cause is Cause.SELECTOR
        assert fit.detail.startswith("request gpu of claim a: ")
    # However the selector is meant, there are only four devices, and on another node none.
    assert cluster.fit(claim("a", [request("gpu", 5, expression)])).verdict is NO
    assert cluster.fit(claim("a", [request("gpu", 1, expression)]), node="n2").verdict is NO


def test_an_error_counts_where_kube_scheduler_meets_it() -> None:
    cluster = Cluster(gpus(device("a", attributes={"x": 1}), device("b")))
    by_x = request("gpu", 1, 'device.attributes["gpu.example.com"].x == 1')
    assert taken(cluster.fit(claim("a", [by_x]))) == [["a"]]
    assert cluster.take("a").fit(claim("a", [by_x])).verdict is UNKNOWN
    # A taken device is not evaluated.
    assert Cluster(gpus(device("a", attributes={"x": 2}), device("b"))).take("b").fit(claim("a", [by_x])).verdict is NO


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "gpu"},
        {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "derivedAttributes": [{}]}},
    ],
)
def test_a_request_that_is_newer_than_this_code_is_not_known(odd: Any) -> None:
    fit = Cluster(gpus()).fit(claim("a", [odd]))
    assert (fit.verdict, fit.cause) == (UNKNOWN, Cause.UNREAD)


def test_objects_that_are_not_read_are_not_known() -> None:
    good = claim("a", [request()])
    assert Cluster(gpus(device("a", attributes={"x": {}}))).fit(good).cause is Cause.UNREAD
    assert Cluster(gpus(), gpus(name="odd", sharedCounters="x")).fit(good).verdict is UNKNOWN
    odd_class = Cluster(gpus())
    odd_class.inventory.put_class(DeviceClass.from_object({"metadata": {"name": DRIVER}, "spec": {"selectors": [{}]}}))
    assert odd_class.fit(good).verdict is UNKNOWN
    constraints = claim("a", [request()], constraints=[{"matchExpression": "x"}])
    assert Cluster(gpus()).fit(constraints).verdict is UNKNOWN
    allocated = claim("b", [request()])
    allocated["status"] = {"allocation": {"devices": {"results": [{}]}}}
    assert Cluster(gpus()).fit(allocated).verdict is UNKNOWN
    holder = Cluster(gpus())
    holder.inventory.put_claim(Claim.from_object(allocated))
    assert holder.fit(good).verdict is UNKNOWN
    assert holder.fit(claim("a", [request(count=5)])).verdict is NO


def test_an_odd_pool_of_another_driver_changes_nothing() -> None:
    cluster = Cluster(gpus(), gpus(driver=NIC, sharedCounters="x"))
    assert taken(cluster.fit(claim("a", [request()]))) == [["gpu-0"]]
    assert cluster.fit(claim("a", [request(cls=NIC)])).verdict is UNKNOWN


def test_a_search_is_bounded() -> None:
    # All differ, and any two have another value in common than any third.
    devices = [device(f"gpu-{i}", attributes={"x": i, "y": i % 7, "z": i % 11}) for i in range(100)]
    constraints = [match(f"{DRIVER}/y", "a"), distinct(f"{DRIVER}/x"), match(f"{DRIVER}/z", "b"), match("a/b", "c")]
    hard = claim("c", [request("a", 8), request("b", 8), request("c", 1)], constraints=constraints)
    fit = Cluster(gpus(*devices)).fit(hard)
    assert (fit.verdict, fit.cause) == (UNKNOWN, Cause.TOO_LONG)
    # Equal devices do not make a search long.
    equal = [request("a", 16), request("b", 1, cls=NIC)]
    nic = gpus(device("nic", attributes={"v": 1}), driver=NIC)
    same = Cluster(gpus(*(device(f"gpu-{i}", attributes={"v": 2}) for i in range(128))), nic)
    fit = same.fit(claim("c", equal, constraints=[match("none/v", "b")]))
    assert (fit.verdict, fit.cause) == (NO, Cause.CONSTRAINTS)
    assert MAX_STEPS > 16 * 128


def test_a_decision_is_bounded() -> None:
    cluster = Cluster(gpus())
    budget = Budget(0)
    fit = cluster.fit(claim("a", [request("gpu", 1, "true")]), budget=budget)
    assert (fit.verdict, fit.cause) == (UNKNOWN, Cause.TOO_LONG)
    assert taken(cluster.fit(claim("a", [request("gpu", 1, "true")]))) == [["gpu-0"]]
    many = [claim(f"c{i}", [request(count=32)]) for i in range(5)]
    large = Cluster(*(gpus(*(device(f"gpu-{i}") for i in range(100)), name=n, pool=n) for n in "ab"))
    assert large.fit(*many).cause is Cause.TOO_LONG
    assert large.fit(*many[1:]).verdict is FITS


def test_equal_nodes_share_an_answer_with_their_own_devices() -> None:
    cluster = Cluster(gpus(), gpus(node="n2"), gpus(device("x"), device("y"), device("z"), device("w"), node="n3"))
    fitter = cluster.allocator.fitter([Claim.from_object(claim("a", [request(count=2)]))])
    found = {node: taken(fitter.on(cluster.inventory.on(node, {}))) for node in ("n1", "n2", "n3")}
    assert found == {"n1": [["gpu-0", "gpu-1"]], "n2": [["gpu-0", "gpu-1"]], "n3": [["x", "y"]]}
    cluster.take("gpu-0", node="n2")
    assert taken(fitter.on(cluster.inventory.on("n2", {}))) == [["gpu-1", "gpu-2"]]
    assert fitter.on(cluster.inventory.on("n2", {})).devices[0][0].device.id.pool == "n2"


def test_what_is_remembered_of_claims_and_pools_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(gpus())
    replaced = ref(cluster.inventory.on("n1", {}).pools[0])
    for number in range(MAX_SHAPES + 10):
        cluster.fit(claim("a", [request(f"r{number}")]))
    assert len(cluster.allocator._shapes) == MAX_SHAPES
    cluster.inventory.put_slice(Slice.from_object(gpus(device("other"))))
    gc.collect()
    assert replaced() is None
    monkeypatch.setattr(device_allocation, "MAX_NUMBERS", 0)
    monkeypatch.setattr(device_allocation, "MAX_KEPT", 0)
    assert taken(cluster.fit(claim("a", [request("r")]), claim("b", [request("s")], results=[]))) == [["other"], []]
    assert len(cluster.allocator._shapes) == 1
    assert taken(cluster.fit(claim("a", [request("r")]))) == [["other"]]


def test_how_many_equal_pods_fit_on_a_node() -> None:
    cluster = Cluster(gpus()).take("gpu-0")
    node = cluster.inventory.on("n1", {})

    def many(*claims: dict[str, Any], most: int = 10) -> tuple[int, Verdict]:
        count, answer = cluster.allocator.fitter([Claim.from_object(one) for one in claims]).how_many(node, most)
        return count, answer.verdict

    assert many(claim("a", [request()])) == (3, NO)
    assert many(claim("a", [request(count=2)])) == (1, NO)
    assert many(claim("a", [request()]), most=2) == (2, FITS)
    assert many(claim("a", results=[])) == (10, FITS)
    assert many(claim("a", [request("gpu", 1, "what")])) == (0, UNKNOWN)


def count(cluster: Cluster, resource: str = "example.com/gpu", node: str = "n1") -> DeviceCount:
    return cluster.allocator.count(resource, cluster.inventory.on(node, {}))


def mapped(*slices: dict[str, Any], expressions: Sequence[str] = ()) -> Cluster:
    cluster = Cluster(*slices)
    cluster.inventory.put_class(DeviceClass.from_object(device_class(DRIVER, *expressions, resource="example.com/gpu")))
    return cluster


def test_an_extended_resource_counts_what_its_class_selects() -> None:
    cluster = mapped(
        gpus(*(device(f"gpu-{i}") for i in range(3)), device("bad", taints=[{"key": "k", "effect": "NoSchedule"}])),
        gpus(device("nic"), driver=NIC),
    ).take("gpu-0")
    assert count(cluster) == DeviceCount(4, 2, 2)
    assert count(cluster, f"deviceclass.resource.kubernetes.io/{NIC}") == DeviceCount(1, 1, 1)
    assert count(cluster, "example.com/none") == DeviceCount(0, 0, 0)
    assert count(cluster, node="n2") == DeviceCount(0, 0, 0)


def test_what_is_not_known_of_an_extended_resource_counts_as_a_possibility() -> None:
    unknown = mapped(gpus(), expressions=["device.what"])
    assert count(unknown) == DeviceCount(0, 0, 4)
    odd = mapped(gpus(), gpus(name="odd", sharedCounters="x"))
    assert count(odd) == DeviceCount(0, 0, MAX_AMOUNT)
    assert count(mapped(COUNTERS, partitions())) == DeviceCount(5, 3, 5)
