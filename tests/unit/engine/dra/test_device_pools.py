"""Pools of devices as nodes see them, and the allocations of claims."""

from typing import Any

import pytest

from tests.builders.devices import DRIVER, claim, device, device_class, resource_slice, result, taint_rule
from webhook.engine.dra.device_pools import DeviceInventory, PoolDevices, any_holds
from webhook.formats.dra import Claim, DeviceClass, DeviceId, Slice, TaintRule

RACK = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}


def inventory(*slices: dict[str, Any]) -> DeviceInventory:
    found = DeviceInventory()
    for one in slices:
        found.put_slice(Slice.from_object(one))
    return found


def pools(found: DeviceInventory, node: str = "n1", **labels: str) -> tuple[PoolDevices, ...]:
    return found.on(node, labels).pools


def names(found: DeviceInventory, node: str = "n1", **labels: str) -> list[str]:
    return [one.id.name for one in found.on(node, labels).devices]


def devices(*found: str) -> list[dict[str, Any]]:
    return [device(name) for name in found]


def test_devices_are_in_the_order_of_kube_scheduler() -> None:
    found = inventory(
        resource_slice("n1", devices("z", "y"), name="b", slices=2),
        resource_slice("n1", devices("x"), name="a", slices=2),
        resource_slice("n1", devices("w"), driver="a.example.com", pool="p2"),
        resource_slice("n1", devices("v"), driver="a.example.com", pool="p1", name="c"),
        resource_slice(
            "n1", [device("u", bindingConditions=["Attached"])], driver="a.example.com", pool="p0", name="d"
        ),
        resource_slice("n2", devices("t")),
    )
    assert names(found) == ["v", "w", "x", "z", "y", "u"]
    assert names(found, "n3") == []


def test_slices_of_several_nodes_and_devices_with_nodes_of_their_own() -> None:
    found = inventory(
        resource_slice("", devices("a"), pool="p1", name="a", allNodes=True),
        resource_slice("", devices("b"), pool="p2", name="b", nodeSelector=RACK),
        resource_slice(
            "",
            [device("c", nodeName="n1"), device("d", nodeName="n2"), device("e", nodeSelector=RACK), device("f")],
            pool="p3",
            name="c",
            perDeviceNodeSelection=True,
        ),
    )
    assert names(found, "n1") == ["a", "c"]
    assert names(found, "n2", rack="r1") == ["a", "b", "d", "e"]
    assert names(found, "n2", rack="r2") == ["a", "d"]


def test_a_pool_without_all_its_slices_is_incomplete() -> None:
    found = inventory(resource_slice("n1", devices("a"), slices=2))
    (pool,) = pools(found)
    assert (pool.incomplete, pool.devices) == (True, ())
    found.put_slice(Slice.from_object(resource_slice("n2", devices("b"), pool="n1", slices=2)))
    assert names(found) == ["a"]
    found.remove_slice(f"n2-{DRIVER}")
    assert pools(found)[0].incomplete


def test_the_newest_generation_counts() -> None:
    found = inventory(
        resource_slice("n1", devices("old"), name="a"), resource_slice("n1", devices("new"), name="b", generation=2)
    )
    assert names(found) == ["new"]


def test_a_pool_whose_newest_generation_left_the_node_is_obsolete() -> None:
    newer = resource_slice("n2", devices("new"), pool="p", name="b", generation=2)
    found = inventory(resource_slice("n1", devices("old"), pool="p", name="a", slices=2), newer)
    assert pools(found) == ()
    # As upstream, one that is complete by itself is not compared with the others.
    alone = inventory(resource_slice("n1", devices("old"), pool="p", name="a"), newer)
    assert names(alone) == ["old"]


COUNTERS = [{"name": "gpu-0", "counters": {"memory": {"value": "80"}}}]


def consumes(counter_set: str, counter: str) -> dict[str, Any]:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": "10"}}}]}


def test_shared_counters_belong_to_all_slices_of_the_pool() -> None:
    found = inventory(
        resource_slice("", [], name="a", pool="n1", slices=2, nodeName="n1", sharedCounters=COUNTERS),
        resource_slice("n1", [device("mig", **consumes("gpu-0", "memory"))], slices=2),
    )
    (pool,) = pools(found)
    assert pool.counters == {"gpu-0": {"memory": 80 * 10**9}}
    assert [one.id.name for one in pool.consumers] == ["mig"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (devices("a"), "two devices have one name"),
        ([device("b", **consumes("gpu-1", "memory"))], "counters that do not exist"),
        ([device("b", **consumes("gpu-0", "cores"))], "counters that do not exist"),
    ],
)
def test_an_invalid_pool_has_no_devices(second: Any, reason: str) -> None:
    found = inventory(
        resource_slice("n1", name="a", slices=3, sharedCounters=COUNTERS),
        resource_slice("n1", devices("a"), name="b", slices=3),
        resource_slice("n1", second, name="c", slices=3),
    )
    (pool,) = pools(found)
    assert reason in pool.invalid
    assert pool.devices == ()


@pytest.mark.parametrize(
    "slices",
    [
        [
            resource_slice("n1", devices("a"), name="a", slices=2),
            resource_slice("n1", devices("b"), name="b", slices=3),
        ],
        [
            resource_slice("n1", name="a", slices=2, sharedCounters=COUNTERS),
            resource_slice(
                "n1",
                [
                    device(
                        "a",
                        consumesCounters=[
                            {
                                "counterSet": "gpu-0",
                                "counters": {"memory": {"value": "1"}},
                                "compatibilityGroups": ["mig"],
                            }
                        ],
                    )
                ],
                name="b",
                slices=2,
            ),
        ],
        [resource_slice("n1", devices("a"), name="a", slices=2), resource_slice("n1", [{"name": "b"}] * 129, slices=2)],
    ],
)
def test_of_some_pools_nothing_is_known(slices: Any) -> None:
    (pool,) = pools(inventory(*slices))
    assert pool.fault
    assert pool.devices == ()


def test_rules_taint_devices() -> None:
    found = inventory(resource_slice("n1", [device("a"), device("b", taints=[{"key": "own", "effect": "NoExecute"}])]))
    found.put_rule(TaintRule.from_object(taint_rule("broken", {"device": "b"})))
    assert [[taint.key for taint in one.taints] for one in found.on("n1", {}).devices] == [[], ["own", "broken"]]
    found.put_rule(TaintRule.from_object(taint_rule("broken", {"driver": "other"})))
    assert [[taint.key for taint in one.taints] for one in found.on("n1", {}).devices] == [[], ["own"]]
    found.put_rule(TaintRule.from_object(taint_rule("odd", {"device": "a", "selectors": [{"cel": {}}]})))
    assert [bool(one.fault) for one in found.on("n1", {}).devices] == [True, False]
    found.remove_rule("odd")
    assert not any(one.fault for one in found.on("n1", {}).devices)


def test_the_pools_of_a_node_are_kept_until_they_change() -> None:
    found = inventory(resource_slice("n1", devices("a")), resource_slice("n2", devices("b")))
    before, other = pools(found), pools(found, "n2")
    found.put_slice(Slice.from_object(resource_slice("n1", devices("a"))))  # equal
    assert pools(found) is before
    found.put_slice(Slice.from_object(resource_slice("n1", devices("a", "c"))))
    assert names(found) == ["a", "c"]
    assert pools(found, "n2") is other
    found.put_slice(Slice.from_object(resource_slice("", devices("s"), nodeSelector=RACK)))
    assert names(found, "n2", rack="r1") == ["b", "s"]
    assert names(found, "n2", rack="r2") == ["b"]
    found.remove_slice(f"shared-{DRIVER}")
    found.remove_slice(f"n2-{DRIVER}")
    found.remove_slice("unknown")
    assert names(found, "n2", rack="r1") == []
    assert list(found.nodes) == ["n1"]
    assert not found.has_shared
    assert not found.empty


GPU_0 = DeviceId(DRIVER, "n1", "gpu-0")


def test_allocations_are_those_of_claims() -> None:
    found = DeviceInventory()
    taken = found.taken
    for name, fields in (("a", {}), ("b", {"adminAccess": True}), ("c", {"shareID": "s1"}), ("d", {"shareID": "s2"})):
        found.put_claim(Claim.from_object(claim(name, results=[result("gpu-0", pool="n1", **fields)])))
    assert taken.holders == {GPU_0: ("default/a",)}
    assert {key: [one.share for one in shares] for key, shares in taken.shares[GPU_0].items()} == {
        "default/c": ["s1"],
        "default/d": ["s2"],
    }
    found.put_claim(Claim.from_object(claim("a")))
    found.remove_claim("default/c")
    found.remove_claim("default/c")
    assert taken.holders == {}
    assert taken.has(GPU_0)
    found.remove_claim("default/d")
    assert not taken.has(GPU_0)
    assert taken.shares == {}


def test_a_device_that_two_claims_have_stays_taken_until_both_are_gone() -> None:
    found = DeviceInventory()
    for name in "ab":
        found.put_claim(Claim.from_object(claim(name, results=[result("gpu-0", pool="n1")])))
    assert found.taken.holders == {GPU_0: ("default/a", "default/b")}
    found.remove_claim("default/a")
    assert found.taken.holders == {GPU_0: ("default/b",)}
    found.remove_claim("default/b")
    assert found.taken.holders == {}


def test_a_claim_whose_allocation_is_not_read_may_have_any_device() -> None:
    found = DeviceInventory()
    odd = claim("a")
    odd["status"] = {"allocation": {"devices": {"results": [{}]}}}
    found.put_claim(Claim.from_object(odd))
    assert list(found.taken.unread) == ["default/a"]
    found.put_claim(Claim.from_object(claim("a")))
    assert found.taken.unread == {}


def test_extended_resources_follow_the_classes() -> None:
    found = DeviceInventory()
    assert found.empty
    found.put_class(DeviceClass.from_object(device_class(resource="example.com/gpu")))
    assert set(found.mapped) == {"example.com/gpu", f"deviceclass.resource.kubernetes.io/{DRIVER}"}
    found.remove_class(DRIVER)
    assert found.mapped == {}


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        ({}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "c", "operator": "Gt", "values": ["0"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["1"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}, False),
        ({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}, False),
        (
            {
                "matchExpressions": [{"key": "a", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}],
            },
            False,
        ),
    ],
)
def test_a_term_holds_as_for_node_affinity(term: Any, holds: bool) -> None:
    assert any_holds([term], "n1", {"a": "1", "c": "x"}) is holds
    assert any_holds([{}, term], "n1", {"a": "1", "c": "x"}) is holds
