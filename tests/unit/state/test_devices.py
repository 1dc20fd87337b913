"""The devices of the cluster: slices, claims, classes and taints become what nodes have and what is taken of it."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.devices import DRIVER, NUMA, claim, claim_template, device_class, gpus, request, resource_slice
from tests.builders.native_pod_groups import native_pod_group
from tests.builders.nodes import node
from tests.builders.pods import bound, created, gated, pod
from webhook.engine.dra.aligned_devices import Place
from webhook.formats.dra import Allocation, Claim, DeviceId
from webhook.formats.kubernetes.pod import Pod
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.devices import MOST_ROWS_OF_NAMESPACE, with_claims
from webhook.views.nodes import devices_on

GPU = "example.com/gpu"
CLASS = device_class(resource=GPU)


def amounts(cache: ClusterCache, name: str = "n0", resource: str = GPU) -> tuple[int, int]:
    """What a node has of a resource, and what is free of it; -1 = it does not have the resource."""
    snapshot = cache.snapshot().nodes.covering([resource])
    arrays = snapshot.node_arrays
    row = arrays.resources.find(resource)
    if row < 0:
        return -1, 0
    at = arrays.index[name]
    return int(arrays.allocatable[row, at]), int(snapshot.node_free(row)[at])


def test_objects_may_come_in_any_order() -> None:
    objects = [node(name="n0"), resource_slice("n0"), CLASS, claim(node="n0", devices=["gpu-0", "gpu-1"])]
    for first in range(len(objects)):
        assert amounts(cluster_cache(*objects[first:], *objects[:first])) == (4, 2)


def test_a_claim_that_goes_or_loses_its_allocation_frees_its_devices() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, claim(node="n0", devices=["gpu-0"]))
    assert amounts(cache) == (4, 3)
    put(cache, claim())
    assert amounts(cache) == (4, 4)
    put(cache, claim(node="n0", devices=["gpu-2"]))
    assert amounts(cache) == (4, 3)
    cache.devices.feeds["ResourceClaim"].delete("default/gpu")
    assert amounts(cache) == (4, 4)


def test_a_claim_with_admin_access_takes_nothing() -> None:
    seen = claim(node="n0", devices=["gpu-0"])
    seen["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert amounts(cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, seen)) == (4, 4)


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([resource_slice("n0", slices=2)], (-1, 0)),
        ([resource_slice("n0", slices=2), resource_slice("n0", slices=2, name="second", devices=[])], (4, 4)),
        ([resource_slice("n0"), resource_slice("n0", generation=2, name="next", devices=gpus(0))], (1, 1)),
        ([resource_slice("n0"), resource_slice("n0", generation=2, slices=2, name="next")], (-1, 0)),
    ],
    ids=["incomplete", "complete", "newest", "newest is incomplete"],
)
def test_only_a_complete_pool_of_the_newest_generation_counts(
    slices: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    assert amounts(cluster_cache(node(name="n0"), CLASS, *slices)) == expected


def test_a_slice_that_moves_to_another_node_leaves_the_first() -> None:
    cache = cluster_cache(node(name="n0"), node(name="n1"), resource_slice("n0", name="s"), CLASS)
    put(cache, resource_slice("n1", name="s"))
    assert (amounts(cache), amounts(cache, "n1")) == ((-1, 0), (4, 4))
    cache.devices.feeds["ResourceSlice"].delete("s")
    assert amounts(cache, "n1") == (-1, 0)


def test_a_tainted_device_is_there_and_not_free() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "n0", "device": "gpu-3"},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, rule)
    assert amounts(cache) == (4, 3)
    cache.devices.feeds["DeviceTaintRule"].delete("broken")
    assert amounts(cache) == (4, 4)


def test_devices_that_several_nodes_can_reach_count_on_each_also_on_later_ones() -> None:
    reached = resource_slice("pool")
    del reached["spec"]["nodeName"]
    reached["spec"]["allNodes"] = True
    cache = cluster_cache(node(name="n0"), reached, CLASS)
    put(cache, node(name="n1"))
    assert (amounts(cache), amounts(cache, "n1")) == ((4, 4), (4, 4))
    put(cache, claim(node="pool", devices=["gpu-0"]))
    assert (amounts(cache), amounts(cache, "n1")) == ((4, 3), (4, 3))


def test_of_two_classes_with_one_resource_the_newest_counts() -> None:
    older = device_class("all", "true", resource=GPU, created="2030-01-01T00:00:00Z")
    other = 'device.driver == "none.example.com"'
    other = 'device.driver == "none.example.com"'
    newer = device_class("none", other, resource=GPU, created="2030-01-02T00:00:00Z")
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), older)
    assert amounts(cache) == (4, 4)
    put(cache, newer)
    assert amounts(cache) == (-1, 0)


def test_a_node_that_comes_back_has_its_devices() -> None:
    cache = cluster_cache(node(name="n0"), node(name="n1"), resource_slice("n0"), CLASS)
    cache.snapshot()
    cache.nodes.delete("n0")
    cache.snapshot()
    put(cache, node(name="n0"))
    assert amounts(cache) == (4, 4)


def test_waiting_pods_are_tried_again_after_each_change_of_devices_but_not_of_versions() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS)
    changes: list[None] = []
    cache.changed.subscribe(lambda: changes.append(None))
    first = claim(node="n0", devices=["gpu-0"], owner="p")
    put(cache, first)
    assert len(changes) == 1
    put(cache, {**first, "metadata": {**first["metadata"], "resourceVersion": "2"}})
    assert len(changes) == 1
    cache.devices.feeds["ResourceSlice"].delete(f"n0-{DRIVER}")
    assert len(changes) == 2


def test_an_object_that_cannot_be_read_is_a_fault_of_its_own() -> None:
    odd = resource_slice("n0", name="odd")
    odd["spec"]["devices"] = "many"
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, odd)
    assert list(cache.devices.feeds["ResourceSlice"].faults) == ["odd"]
    assert amounts(cache)[0] >= 4


def requests(cache: ClusterCache, **spec: Any) -> tuple[dict[str, int], str]:
    """What a pod requests by its claims, and what is not counted."""
    found = cache.devices.claimed({"spec": spec}, "default")
    return dict(found.amounts), found.unchecked


def templated(*names: str) -> list[dict[str, str]]:
    return [{"name": f"c{at}", "resourceClaimTemplateName": name} for at, name in enumerate(names)]


def test_claims_of_templates_request_devices_by_class_and_selectors() -> None:
    large = request(
        selectors=[{"cel": {"expression": "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))"}}]
    )
    cache = cluster_cache(
        node(name="n0"),
        resource_slice("n0"),
        CLASS,
        claim_template(requests=[request(count=2)]),
        claim_template(name="large", requests=[large]),
    )
    assert requests(cache, resourceClaims=templated("gpu")) == ({"devices of class gpu.example.com": 2}, "")
    assert requests(cache, resourceClaims=templated("gpu", "gpu"))[0] == {"devices of class gpu.example.com": 4}
    (name,) = requests(cache, resourceClaims=templated("large"))[0]
    assert name.startswith("devices of class gpu.example.com (")
    assert amounts(cache, resource="devices of class gpu.example.com") == (4, 4)
    put(cache, claim(node="n0", devices=["gpu-0"], owner="p"))
    assert amounts(cache, resource="devices of class gpu.example.com") == (4, 3)


# NUMA 0: gpu-0, gpu-1    NUMA 1: gpu-2, gpu-3
def test_of_devices_that_must_be_alike_whole_claims_count() -> None:
    alike = [{"requests": ["gpu"], "matchAttribute": NUMA}]
    cache = cluster_cache(
        node(name="n0"),
        resource_slice("n0"),
        CLASS,
        claim_template(requests=[request(count=2)], constraints=alike),
    )
    found, unchecked = requests(cache, resourceClaims=templated("gpu"))
    assert (found, unchecked) == ({"devices of class gpu.example.com": 2, "claims like default/gpu": 1}, "")
    assert amounts(cache, resource="claims like default/gpu") == (2, 2)
    put(cache, claim(name="other", node="n0", devices=["gpu-0", "gpu-2"], owner="p"))
    assert amounts(cache, resource="devices of class gpu.example.com") == (4, 2)
    assert amounts(cache, resource="claims like default/gpu") == (2, 0)


def test_a_claim_that_a_pod_names_is_had_by_any_number_of_pods() -> None:
    cache = cluster_cache(node(name="n0"), node(name="n1"), resource_slice("n0", gpus(0)), CLASS, claim())
    found, unchecked = requests(cache, resourceClaims=[{"name": "c", "resourceClaimName": "gpu"}])
    assert (found, unchecked) == ({"claim default/gpu": 1}, "")
    assert amounts(cache, resource="claim default/gpu")[1] > 1000
    assert amounts(cache, "n1", "claim default/gpu")[1] == 0


# n0 [gpu-0 .. gpu-3]   n1 [gpu-0 .. gpu-3]   n2 without slices
def test_a_claim_that_is_allocated_is_had_on_the_nodes_of_its_allocation_by_any_number_of_pods() -> None:
    row, named = "claim default/gpu", [{"name": "c", "resourceClaimName": "gpu"}]
    nodes = [node(name=f"n{number}") for number in range(3)]
    cache = cluster_cache(*nodes, resource_slice("n0"), resource_slice("n1"), CLASS, claim())

    def there() -> list[bool]:
        assert requests(cache, resourceClaims=named) == ({row: 1}, "")
        return [amounts(cache, f"n{number}", row)[1] > 1000 for number in range(3)]

    assert there() == [True, True, False]
    put(cache, claim(node="n1", devices=["gpu-0"]))
    assert there() == [False, True, False]
    # It can be allocated there some day: no pod is kept off n0 for ever, or denied.
    assert amounts(cache, "n0", row)[0] > 0
    generation = cache.generation
    put(cache, claim(node="n1", devices=["gpu-0"], reserved_for=["p"]))
    assert there() == [False, True, False]
    assert cache.generation == generation  # whoever uses it costs no node anything
    put(cache, claim(node="n1", devices=["gpu-0"], reserved_for=[f"p{number}" for number in range(256)]))
    assert there() == [False, False, False]
    # Its driver may have withdrawn the slices: where it is allocated, it is.
    put(cache, claim(node="n2", devices=["gpu-0"]))
    assert there() == [False, False, True]
    anywhere = claim(node="n2", devices=["gpu-0"])
    del anywhere["status"]["allocation"]["nodeSelector"]
    put(cache, anywhere)
    assert there() == [True, True, True]
    put(cache, claim())
    assert there() == [True, True, False]


def test_a_claim_that_a_pod_group_shares_is_counted_once_for_all_its_pods() -> None:
    entries = [{"name": "c0", "resourceClaimTemplateName": "gpu"}]
    group = native_pod_group(resourceClaims=entries)
    cache = cluster_cache(node(name="n0"), resource_slice("n0", gpus(0)), CLASS, claim_template(), group)
    spec = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": [*entries, *templated("gpu", "gpu")[1:]]}
    own = {"devices of class gpu.example.com": 1}
    assert requests(cache, **spec) == (own, "claim c0: it is not known")
    made = claim("g-gpu", owner="uid-g")
    made["metadata"]["ownerReferences"][0]["kind"] = "PodGroup"
    put(cache, {**group, "status": {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "g-gpu"}]}}, made)
    assert requests(cache, **spec) == ({**own, "claim default/g-gpu": 1}, "")
    assert amounts(cache, resource="claim default/g-gpu")[1] > 1000
    claims = cache.devices.claims_of({"spec": {**spec, "resourceClaims": entries}}, "default", "p")
    assert claims.why_not_now == "claim c0 is shared by its PodGroup"
    # Another entry of the same name is the pod's own, and so is that of a pod of no group.
    other = [{"name": "c0", "resourceClaimTemplateName": "other"}]
    assert requests(cache, **{**spec, "resourceClaims": other}) == ({}, "claim c0: its template is not known")
    assert requests(cache, resourceClaims=entries) == (own, "")


def test_what_is_not_known_is_not_counted_and_said() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS)
    assert requests(cache, resourceClaims=templated("none")) == ({}, "claim c0: its template is not known")


UNREAD = "device.attributes['a.example.com'].map(x, x).size() > 0"
FAILING = "device.attributes['gpu.example.com'].model == 'a'"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (UNREAD, "claim c0: .map() is not evaluated"),
        (FAILING, "claim c0: the device has no gpu.example.com/model"),
    ],
)
def test_a_selector_that_is_not_evaluated_excludes_no_node_and_is_said(expression: str, why: str) -> None:
    odd = request("gpu", 1, expression)
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, claim_template(requests=[odd]))
    (name,) = requests(cache, resourceClaims=templated("gpu"))[0]
    assert amounts(cache, resource=name)[1] >= 4
    assert requests(cache, resourceClaims=templated("gpu"))[1] == why
    cache.devices.feeds["ResourceSlice"].delete(f"n0-{DRIVER}")
    assert amounts(cache, resource=name)[1] == 0
    assert requests(cache, resourceClaims=templated("gpu"))[1] == ""


def test_a_class_whose_selector_is_not_evaluated_is_said() -> None:
    odd = device_class(DRIVER, UNREAD)
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), odd, claim_template())
    amounts(cache)
    assert requests(cache, resourceClaims=templated("gpu"))[1] == "claim c0: .map() is not evaluated"


def test_a_tenant_cannot_define_any_number_of_resources() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS)
    for number in range(MOST_ROWS_OF_NAMESPACE + 1):
        only = [{"cel": {"expression": f"device.driver == '{number}'"}}]
        put(cache, claim_template(name=f"t{number}", requests=[request(selectors=only)]))
    assert requests(cache, resourceClaims=templated("t0"))[1] == ""
    assert "too many" in requests(cache, resourceClaims=templated(f"t{MOST_ROWS_OF_NAMESPACE}"))[1]
    put(cache, claim_template(namespace="other", requests=[request(count=2)]))
    raw = {"spec": {"resourceClaims": templated("gpu")}}
    assert cache.devices.claimed(raw, "other").unchecked == ""
    for number in range(MOST_ROWS_OF_NAMESPACE + 1):
        cache.devices.feeds["ResourceClaimTemplate"].delete(f"default/t{number}")
    cache.devices.feeds["ResourceClaimTemplate"].delete("other/gpu")
    assert cache.devices.resources == {GPU, "deviceclass.resource.kubernetes.io/gpu.example.com"}


# Assumed allocations. The node has gpu-0 to gpu-3.

OF_CLASS = "devices of class gpu.example.com"
ALLOCATED = claim(node="n0", devices=["gpu-0"], owner="p")


def allocation_of(raw: dict[str, Any]) -> Allocation:
    found = Claim.from_object(raw).allocation
    assert found is not None
    return found


def assuming(*more: dict[str, Any], device: str = "gpu-0") -> ClusterCache:
    """A cluster in which the claim of pod `p` is assumed to have a device."""
    objects = node(name="n0"), resource_slice("n0"), CLASS, claim_template(), claim(owner="p"), *more
    cache = cluster_cache(*objects)
    assert amounts(cache) == (4, 4)
    assert cache.devices.assume_claims("p", {"default/gpu": allocation_of(claim(node="n0", devices=[device]))})
    return cache


def held(cache: ClusterCache) -> dict[str, tuple[str, ...]]:
    return {one.name: one.claims for one in devices_on(cache, "n0") if one.claims}


def test_every_count_and_search_and_view_sees_an_assumed_device_as_taken() -> None:
    cache = assuming(claim(name="next", requests=[request(count=4)]))
    assert amounts(cache) == (4, 3)
    assert amounts(cache, resource=OF_CLASS) == (4, 3)
    assert amounts(cache, resource="claim default/next")[1] == 0
    assert held(cache) == {"gpu-0": ("default/gpu",)}
    assert cache.devices.assumed_holder(DeviceId(DRIVER, "n0", "gpu-0")) == ("default/gpu", "p")
    assert cache.devices.assumed_holder(DeviceId(DRIVER, "n0", "gpu-1")) is None
    cache.devices.forget_claims("p")
    assert (amounts(cache), amounts(cache, resource=OF_CLASS), held(cache)) == ((4, 4), (4, 4), {})


def test_a_claim_that_is_assumed_counts_as_devices_and_no_longer_as_a_request() -> None:
    cache = assuming()
    raw = pod(name="p", resourceClaims=templated("gpu"))
    raw["status"] = {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "gpu"}]}
    assert cache.devices.claimed(raw, "default").unchecked == "claim c0: it is allocated already"
    cache.devices.forget_claims("p")
    assert dict(cache.devices.claimed(raw, "default").amounts) == {OF_CLASS: 1}


@pytest.mark.parametrize(
    ("event", "free"),
    [
        (ALLOCATED, 3),
        (claim(node="n0", devices=["gpu-1", "gpu-2"], owner="p"), 2),
        ({**claim(owner="p"), "metadata": {**claim(owner="p")["metadata"], "uid": "another"}}, 4),
        (None, 4),
    ],
    ids=["shown", "another allocator was first", "another claim of this name", "deleted"],
)
def test_an_assumption_ends_when_its_claim_shows_an_allocation_or_goes(event: dict[str, Any] | None, free: int) -> None:
    cache = assuming()
    if event is None:
        cache.devices.feeds["ResourceClaim"].delete("default/gpu")
    else:
        put(cache, event)
    assert amounts(cache) == (4, free)
    cache.devices.forget_claims("p")
    assert amounts(cache) == (4, free)


def test_a_claim_that_changes_otherwise_stays_assumed() -> None:
    cache, protected = assuming(), claim(owner="p")
    protected["metadata"] |= {"resourceVersion": "2", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    put(cache, protected)
    assert (amounts(cache), held(cache)) == ((4, 3), {"gpu-0": ("default/gpu",)})
    cache.devices.forget_claims("p")
    assert cache.devices.claims()["default/gpu"] == Claim.from_object(protected)


def test_a_device_is_guarded_until_its_pod_is_bound_or_gone() -> None:
    device = DeviceId(DRIVER, "n0", "gpu-0")
    for shown_first in (True, False):
        cache = assuming(gated(name="p"))
        if shown_first:
            put(cache, ALLOCATED)
            assert cache.devices.assumed_holder(device) == ("default/gpu", "p")
        put(cache, bound(name="p", node="n0"))
        if not shown_first:
            # The watch of claims is behind that of pods: the device is not free.
            assert (amounts(cache), cache.devices.assumed_holder(device)) == ((4, 3), ("default/gpu", "p"))
            put(cache, ALLOCATED)
        assert (amounts(cache), cache.devices.assumed_holder(device)) == ((4, 3), None)


def test_a_claim_that_loses_its_allocation_again_is_free() -> None:
    cache = assuming()
    put(cache, ALLOCATED)
    put(cache, claim(owner="p"))
    assert (amounts(cache), cache.devices.assumed_holder(DeviceId(DRIVER, "n0", "gpu-0"))) == ((4, 4), None)


def test_only_claims_that_have_nothing_can_be_assumed_and_of_a_pod_all_or_none() -> None:
    cache = assuming(claim(name="taken", node="n0", devices=[]), claim(name="second"))
    allocation = allocation_of(claim(node="n0", devices=["gpu-3"]))
    assert not cache.devices.assume_claims("q", {"default/second": allocation, "default/gpu": allocation})
    assert not cache.devices.assume_claims("q", {"default/second": allocation, "default/none": allocation})
    assert amounts(cache) == (4, 3)
    assert cache.devices.assume_claims("p", {"default/second": allocation})
    assert held(cache) == {"gpu-3": ("default/second",)}


# In flight: pods that count on a node, and have no claim yet.


def in_flight(cache: ClusterCache, name: str, **spec: Any) -> AssumedPod:
    """A pod with these claims or devices that is assumed on n0."""
    raw = created(name=name, **spec)
    read = with_claims(Pod.from_object(raw), raw, cache.devices)
    found = AssumedPod(read.key, read.uid, "n0", {}, read.requests, None, 1e12)
    cache.assume(found)
    return found


def test_a_device_near_cpus_is_not_one_that_a_pod_in_flight_is_about_to_get() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS, claim_template(), claim(owner="q"))
    assumed = in_flight(cache, "p", devices={GPU: 2})
    raw = created(name="q", resourceClaims=templated("gpu"))
    raw["status"] = {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "gpu"}]}
    cache.snapshot()
    claims = cache.devices.claims_of(raw, "default", "q")
    assert claims.search([Place("n0", (0,))], one_root=False).found is None
    assert claims.search([Place("n0", (1,))], one_root=False).found is not None
    cache.forget(assumed)
    cache.snapshot()
    assert claims.search([Place("n0", (0,))], one_root=False).found is not None


def test_the_devices_of_a_pod_in_flight_are_taken_until_its_claim_is_there_and_then_as_the_claim_says() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0"), CLASS)
    in_flight(cache, "p", devices={GPU: 1})
    by_class = "deviceclass.resource.kubernetes.io/gpu.example.com"
    assert (amounts(cache)[1], amounts(cache, resource=by_class)[1]) == (3, 3)
    put(cache, claim(node="n0", devices=["gpu-3"], extended=True, owner="p"))
    assert (amounts(cache)[1], amounts(cache, resource=by_class)[1]) == (3, 3)
    put(cache, bound(name="p", node="n0", devices={GPU: 1}))
    assert (amounts(cache)[1], amounts(cache, resource=by_class)[1]) == (3, 3)
    cache.pods.delete("default/p")
    assert (amounts(cache)[1], amounts(cache, resource=by_class)[1]) == (3, 3)
    cache.devices.feeds["ResourceClaim"].delete("default/gpu")
    assert (amounts(cache)[1], amounts(cache, resource=by_class)[1]) == (4, 4)


def test_pods_in_flight_share_a_claim_that_they_name() -> None:
    cache = cluster_cache(node(name="n0"), resource_slice("n0", gpus(0)), CLASS, claim())
    named = [{"name": "c", "resourceClaimName": "gpu"}]
    for name in ("p", "q"):
        in_flight(cache, name, resourceClaims=named)
        assert (amounts(cache)[1], amounts(cache, resource="claim default/gpu")[1] > 1000) == (0, True)


# Devices that every node can reach: gpu-0, gpu-1
def test_devices_of_all_nodes_that_pods_in_flight_are_about_to_get_are_taken_on_each_of_them() -> None:
    reached = resource_slice("pool", gpus(0, 0))
    del reached["spec"]["nodeName"]
    reached["spec"]["allNodes"] = True
    cache = cluster_cache(node(name="n0"), node(name="n1"), reached, CLASS)
    assumed = in_flight(cache, "p", devices={GPU: 1})
    assert (amounts(cache)[1], amounts(cache, "n1")[1]) == (1, 1)
    cache.forget(assumed)
    assert (amounts(cache)[1], amounts(cache, "n1")[1]) == (2, 2)
