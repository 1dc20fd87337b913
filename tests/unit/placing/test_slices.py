"""Extended resources that a DeviceClass maps (KEP-5004): nodes have them from a device plugin, or in ResourceSlices."""

from typing import Any

from tests.builders.clusters import cluster_cache
from tests.builders.devices import claim, device_class, gpus, resource_slice
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, pod
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.placing.pod.decision import PodDecision, Verdict, decide_pod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

GPU = "nvidia.com/gpu"


def decided(cache: ClusterCache, raw: dict[str, Any]) -> PodDecision:
    read = Pod.from_object(raw)
    return decide_pod(cache.snapshot().nodes, read, parse_numa_intent(read.annotations)[0], Rules())


# plugin  device plugin, one GPU near each NUMA node
# dra     ResourceSlice with 4 GPUs
def mixed(*more: dict[str, Any]) -> ClusterCache:
    return cluster_cache(
        node(name="plugin", devices={GPU: 2}),
        nrt(node="plugin", free=(16, 16), devices={GPU: (1, 1)}),
        node(name="dra"),
        nrt(node="dra", free=(16, 16)),
        *more,
    )


SERVED = (resource_slice("dra"), device_class(resource=GPU))


def test_a_strict_pod_that_only_a_node_with_slices_can_take_is_not_denied() -> None:
    two = pod(devices={GPU: 2})
    assert decided(mixed(), two).verdict is Verdict.DENY
    found = decided(mixed(*SERVED), two)
    assert found.verdict is Verdict.ALLOW
    assert found.fit_count == 1
    assert "best dra" in found.message


def test_the_resource_of_the_class_itself_counts_too() -> None:
    found = decided(mixed(*SERVED), pod(devices={"deviceclass.resource.kubernetes.io/gpu.example.com": 4}))
    assert (found.verdict, found.fit_count) == (Verdict.ALLOW, 1)


def test_devices_that_claims_or_pods_hold_are_not_free() -> None:
    holds = (
        claim(node="dra", devices=["gpu-0"]),
        bound(node="dra", name="other", devices={GPU: 1}, numa=None),
        claim(name="other-x", node="dra", devices=["gpu-1"], extended=True, owner="other"),
    )
    assert decided(mixed(*SERVED, *holds), pod(devices={GPU: 2})).fit_count == 1
    found = decided(mixed(*SERVED, *holds), pod(devices={GPU: 3}))
    assert (found.verdict, found.fit_count) == (Verdict.WAIT, 0)


def test_what_the_node_itself_names_goes_before_its_slices() -> None:
    found = decided(mixed(*SERVED, resource_slice("plugin")), pod(devices={GPU: 2}))
    assert "best dra" in found.message
    assert found.fit_count == 1


def test_a_pod_is_not_denied_while_a_driver_may_bring_its_devices_back() -> None:
    for missing in ([], [resource_slice("dra", slices=2)], [resource_slice("dra", gpus(0))]):
        found = decided(mixed(device_class(resource=GPU), *missing), pod(devices={GPU: 2}))
        assert found.verdict is Verdict.WAIT, missing


def test_a_pod_whose_cpus_no_node_can_align_is_denied_all_the_same() -> None:
    assert decided(mixed(*SERVED), pod(cpu=17, devices={GPU: 2})).verdict is Verdict.DENY


def test_without_the_class_or_its_slices_all_is_as_before() -> None:
    cache = mixed(*SERVED)
    cache.devices.feeds["DeviceClass"].delete("gpu.example.com")
    assert decided(cache, pod(devices={GPU: 2})).verdict is Verdict.DENY


def test_the_node_object_stays_what_it_is_for_comparisons() -> None:
    cache = mixed(*SERVED)
    cache.snapshot()
    assert cache.state.nodes["dra"].allocatable[GPU] == 4
    published = cache.state.published("dra")
    assert published is not None
    assert GPU not in published.allocatable
