"""Claims that are allocated for a pod which is still gated are taken back, unless its placement is on its way."""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from tests.builders.clusters import cluster_cache, put
from tests.builders.devices import claim, device_class, resource_slice
from tests.builders.nodes import node
from tests.builders.pods import bound, gated
from webhook.controllers.claim_take_back import ClaimTakeBack
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.write import Outcome, Write
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.assumed_pod import AssumedPod


def claiming(name: str = "p", *, claims: Sequence[str] = ("gpu",), **how: Any) -> dict[str, Any]:
    """A gated pod that names these claims."""
    return gated(name=name, resourceClaims=[{"name": one, "resourceClaimName": one} for one in claims], **how)


def reserved(*pods: str, name: str = "gpu") -> dict[str, Any]:
    """A claim that has gpu-0, reserved for the pods with these uids."""
    found = claim(name=name, node="n0", devices=["gpu-0"])
    found["status"]["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in pods]
    return found


class Site(ClaimWrites):
    """The sweep on the real cache. Only the API server is a fake."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.cache = cluster_cache(node(name="n0"), resource_slice(node="n0"), device_class(), *objects)
        self.leads, self.outcome = True, Outcome.WRITTEN
        self.released: list[tuple[str, str]] = []
        self.loop = ClaimTakeBack(self.cache, self, lambda: self.leads)

    async def release(self, key: str, pod_uid: str) -> Write:
        self.released.append((key, pod_uid))
        return Write(self.outcome)


async def test_a_claim_that_is_reserved_for_a_gated_pod_is_taken_back() -> None:
    site = Site(claiming(claims=["gpu", "other"]), reserved("q", "p"), claim(name="other"))
    await site.loop.sweep(0)
    assert site.released == [("default/gpu", "p")]


async def test_of_a_pod_that_is_assumed_gone_bound_or_another_one_nothing_is_taken() -> None:
    site = Site(claiming(), reserved("p"))
    site.cache.assume(AssumedPod("default/p", "p", "n0", {}, {}, NUMAPolicy.SINGLE_NUMA_NODE, monotonic() + 60))
    await site.loop.sweep(0)
    for pod in (bound(name="p", node="n0", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]), None):
        site = Site(*(() if pod is None else (pod,)), reserved("p"))
        await site.loop.sweep(0)
        assert site.released == []
    site = Site(claiming(), reserved("another"))
    await site.loop.sweep(0)
    assert site.released == []


async def test_a_placement_that_was_given_up_is_taken_back() -> None:
    site = Site(claiming(), reserved("p"))
    assumed = AssumedPod("default/p", "p", "n0", {}, {}, NUMAPolicy.SINGLE_NUMA_NODE, monotonic() + 60)
    site.cache.assume(assumed)
    site.cache.forget(assumed)
    await site.loop.sweep(0)
    assert site.released == [("default/gpu", "p")]


async def test_a_claim_that_is_only_assumed_is_not_left_over() -> None:
    site = Site(claiming(), claim())
    allocation = site.cache.devices.claims()["default/gpu"].allocation
    assert allocation is None
    put(site.cache, reserved("q", name="template"))
    given = site.cache.devices.claims()["default/template"].allocation
    assert given is not None
    assert site.cache.devices.assume_claims("p", {"default/gpu": given})
    await site.loop.sweep(0)
    assert site.released == []


async def test_only_the_leader_writes_and_only_once_nothing_of_an_earlier_one_is_on_its_way() -> None:
    site = Site(claiming(), reserved("p"))
    site.leads = False
    await site.loop.sweep(0)
    assert site.released == []


async def test_neither_failures_nor_who_reserves_it_again_make_many_calls() -> None:
    for outcome in (Outcome.REFUSED, Outcome.WRITTEN):
        site = Site(claiming(), reserved("p"))
        site.outcome = outcome
        for second in range(3600):
            await site.loop.sweep(second)
        # Pauses of 1, 2, 4 … 60 s, each of them half as long on average.
        assert 59 <= len(site.released) < 250


async def test_a_pod_with_an_odd_status_is_a_fault_of_its_own() -> None:
    odd = claiming("odd")
    odd["spec"]["resourceClaims"] = "many"
    odd["status"] = {"resourceClaimStatuses": 7}
    site = Site(odd, claiming(), reserved("p"))
    await site.loop.sweep(0)
    assert site.released == [("default/gpu", "p")]
