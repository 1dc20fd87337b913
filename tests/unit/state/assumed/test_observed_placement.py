"""When what a node agent says of a pod's NUMA nodes counts, and when it does not."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, bound
from tests.fingerprints import pod_fingerprint
from tests.unit.views.one_node import allocated
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.model.names import KAI_OBSERVED_PLACEMENT
from webhook.placing.node_holdings import Holdings
from webhook.state.assumed.observed_placement import Ignored, NUMASource, PodNUMANodes
from webhook.state.cluster_cache import ClusterCache

# 2030-01-01T02:00:00Z
WRITTEN_AT: Final = 1_893_463_200
STARTED: Final = {"containerStatuses": [{"state": {"running": {}}}], "startTime": "2030-01-01T01:00:00Z"}


def observed(numa: int, cpus: int) -> dict[str, str]:
    return {KAI_OBSERVED_PLACEMENT: json.dumps([{"zone": f"node-{numa}", "amount": {"cpu": str(cpus)}}])}


def running(name: str, annotations: Mapping[str, str], *, cpu: int = 4, hour: int = 1, **how: Any) -> dict[str, Any]:
    """A pod that was bound at this hour; the NRT was written at two."""
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2030-01-01T{hour:02}:00:00Z"}]
    status = how.pop("status", STARTED)
    return bound(
        name=name, node="n0", cpu=cpu, annotations=dict(annotations), status={**status, "conditions": conditions}, **how
    )


def cluster(*pods: dict[str, Any], free: tuple[int, ...], reported: tuple[str, ...] | None = None) -> ClusterCache:
    """n0 with NUMA nodes of 16 CPUs. reported: the pods that the NRT's fingerprint covers; None: it has none."""
    covers = None if reported is None else pod_fingerprint(("default", name) for name in reported)
    attributes = {} if covers is None else {"nodeTopologyPodsFingerprint": covers}
    metadata = {"managedFields": [{"time": "2030-01-01T02:00:00Z", "fieldsV1": {"f:zones": {}}}]}
    cache = ClusterCache(clock=lambda: float(WRITTEN_AT + 60))
    cache.use_allocation_key(UnverifiedAllocations(b""))
    put(cache, node(name="n0", cpus=16 * len(free)))
    put(cache, nrt(node="n0", free=free, cpus=16, memory=None, attributes=attributes, metadata=metadata))
    for pod in pods:
        put(cache, pod)
    cache.snapshot()
    return cache


def found(cache: ClusterCache, name: str = "p") -> PodNUMANodes:
    return cache.numa_nodes("n0")[f"default/{name}"]


def where(cache: ClusterCache, name: str = "p") -> tuple[list[int], NUMASource | None, Ignored | None]:
    one = found(cache, name)
    return sorted(one.numa), one.source, one.ignored


def reserved(cache: ClusterCache, name: str = "p") -> dict[int, Mapping[str, int]]:
    ledger = cache.snapshot().nodes.ledger
    reservation = None if ledger is None else ledger.get(f"default/{name}")
    return {} if reservation is None else dict(reservation.numa)


# n0 ── NUMA 0 [16 of 16 CPUs free]  NUMA 1 [12 of 16]: a pod of 4 is on NUMA 1, whatever was predicted.
ON_1: Final = (16, 12)


def test_an_observation_counts_instead_of_an_allocation_once_the_nrt_counts_the_pod() -> None:
    cache = cluster(running("p", {**allocated(0, 4), **observed(1, 4)}), free=ON_1)
    assert where(cache) == ([1], NUMASource.OBSERVED, None)
    (held,) = Holdings(cache).on("n0").pods
    assert held.numa == {1: {"cpu": 4_000}}
    without = cluster(running("p", allocated(0, 4)), free=ON_1)
    assert where(without) == ([0], NUMASource.ALLOCATED, None)


def test_it_says_where_a_pod_is_that_nobody_has_allocated_anything() -> None:
    for policy in (SINGLE, None):
        assert where(cluster(running("p", observed(1, 4), numa=policy), free=ON_1)) == ([1], NUMASource.OBSERVED, None)
        assert where(cluster(running("p", {}, numa=policy), free=ON_1)) == ([], None, None)


def test_what_the_nrts_sums_confirm_beats_it() -> None:
    proven = cluster(running("p", {**allocated(1, 4), **observed(1, 4)}), free=ON_1, reported=("p",))
    assert where(proven) == ([1], NUMASource.REPORTED, None)
    forged = cluster(running("p", {**allocated(1, 4), **observed(0, 4)}), free=ON_1, reported=("p",))
    assert where(forged) == ([1], NUMASource.REPORTED, Ignored.CONFIRMED_ELSEWHERE)


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({KAI_OBSERVED_PLACEMENT: "?"}, Ignored.UNREADABLE),
        (observed(2, 4), Ignored.IMPOSSIBLE),
        (observed(1, 3), Ignored.OTHER_AMOUNTS),
        ({KAI_OBSERVED_PLACEMENT: '[{"zone":"node-1","amount":{"memory":"1Gi"}}]'}, Ignored.OTHER_AMOUNTS),
        (
            {KAI_OBSERVED_PLACEMENT: json.dumps([{"zone": f"node-{numa}", "amount": {"cpu": "2"}} for numa in (0, 1)])},
            Ignored.IMPOSSIBLE,
        ),
        (observed(0, 4), Ignored.NOT_TAKEN),
    ],
    ids=[
        "unreadable",
        "a NUMA node that the NRT has not",
        "fewer CPUs than its kubelet gives",
        "no CPUs at all",
        "two NUMA nodes of a single-numa-node kubelet",
        "one of which nothing is taken",
    ],
)
def test_an_impossible_one_is_ignored(annotations: Mapping[str, str], why: Ignored) -> None:
    cache = cluster(running("p", {**allocated(1, 4), **annotations}), free=ON_1)
    assert where(cache) == ([1], NUMASource.ALLOCATED, why)


def test_nobody_can_have_seen_a_pod_that_has_not_started() -> None:
    cache = cluster(running("p", {**allocated(0, 4), **observed(1, 4)}, status={}), free=ON_1)
    assert where(cache) == ([0], NUMASource.ALLOCATED, Ignored.NOT_STARTED)


def test_where_koordlet_obeys_allocations_or_there_is_no_nrt_nothing_else_counts() -> None:
    pod = running("p", {**allocated(0, 4), **observed(1, 4)})
    koordlet = {"labels": {"app.kubernetes.io/managed-by": "Koordinator"}}
    for objects in ([nrt(node="n0", free=(16, 16), cpus=16, metadata=koordlet)], []):
        cache = ClusterCache(clock=lambda: float(WRITTEN_AT))
        for raw in (node(name="n0"), *objects, pod):
            put(cache, raw)
        cache.snapshot()
        assert where(cache) == ([0], NUMASource.ALLOCATED, Ignored.NOT_PUBLISHED)


# n0 ── NUMA 0 [8 of 16 free]  NUMA 1 [12 of 16]: 8 and 4 CPUs are taken.
def test_observations_that_together_say_more_than_is_taken_are_all_ignored() -> None:
    pods = [running(name, observed(1, 4)) for name in "ab"]
    third = running("c", observed(0, 4))
    cache = cluster(*pods, third, free=(8, 12))
    assert [where(cache, name)[1:] for name in "abc"] == [
        (None, Ignored.NOT_TAKEN), (None, Ignored.NOT_TAKEN), (NUMASource.OBSERVED, None),
    ]  # fmt: skip


# n0 ── NUMA 0 [16 of 16 free]  NUMA 1 [8 of 16]: the NRT proves that `a` is on NUMA 1, and leaves no room for a lie.
def test_what_the_nrt_proves_of_one_pod_is_not_there_for_another_one() -> None:
    honest, liar = running("a", allocated(1, 8), cpu=8), running("b", observed(1, 6), cpu=6, hour=1)
    cache = cluster(honest, liar, free=(10, 8), reported=("a", "b"))
    assert where(cache, "a") == ([1], NUMASource.REPORTED, None)
    assert where(cache, "b") == ([], None, Ignored.NOT_TAKEN)


def test_until_the_nrt_counts_the_pod_both_places_are_reserved_and_the_prediction_counts() -> None:
    early = running("p", {**allocated(0, 4), **observed(1, 4)}, hour=3)
    cache = cluster(early, free=(16, 16))
    assert where(cache) == ([0], NUMASource.ALLOCATED, Ignored.NOT_REPORTED)
    assert reserved(cache) == {0: {"cpu": 4_000}, 1: {"cpu": 4_000}}
    same = cluster(running("p", {**allocated(0, 4), **observed(0, 4)}, hour=3), free=(16, 16))
    assert reserved(same) == {0: {"cpu": 4_000}}


def test_an_observation_takes_nothing_from_what_is_reserved_for_a_pod_that_may_be_anywhere() -> None:
    lost = cluster(running("p", {}, hour=3), free=(16, 16, 16))
    seen = cluster(running("p", observed(1, 4), hour=3), free=(16, 16, 16))
    assert reserved(seen) == reserved(lost)
    assert reserved(lost).keys() == {0, 1, 2}


def test_of_an_unmanaged_pod_of_which_nothing_is_known_the_observed_place_is_reserved() -> None:
    assert reserved(cluster(running("p", {}, hour=3, numa=None), free=(16, 16))) == {}
    seen = cluster(running("p", observed(1, 4), hour=3, numa=None), free=(16, 16))
    assert reserved(seen) == {1: {"cpu": 4_000}}


def test_a_pod_that_says_it_is_everywhere_reserves_no_more_than_its_requests() -> None:
    zones = [{"zone": f"node-{numa}", "amount": {"cpu": "4"}} for numa in range(4)]
    everywhere = {KAI_OBSERVED_PLACEMENT: json.dumps(zones)}
    cache = cluster(running("p", {**allocated(0, 4), **everywhere}, hour=3), free=(16,) * 4)
    assert reserved(cache) == {0: {"cpu": 4_000}}


def test_another_pods_observation_changes_nothing_for_a_pod() -> None:
    other = running("a", {**allocated(0, 4), **observed(1, 4)})
    cache = cluster(other, running("b", allocated(1, 4)), free=(12, 12), reported=("a", "b"))
    assert where(cache, "a") == ([0], NUMASource.REPORTED, Ignored.CONFIRMED_ELSEWHERE)
    assert where(cache, "b") == ([1], NUMASource.REPORTED, None)
    assert cache.allocation_changes() == ()


# n0 ── NUMA 0 [12 of 16 free]  NUMA 1 [12 of 16]: two equal pods, and the sums do not say which is where.
def test_of_two_equal_pods_that_were_mistaken_for_each_other_both_are_where_they_were_observed() -> None:
    pods = [running("a", {**allocated(0, 4), **observed(1, 4)}), running("b", {**allocated(1, 4), **observed(0, 4)})]
    cache = cluster(*pods, free=(12, 12), reported=("a", "b"))
    assert where(cache, "a") == ([1], NUMASource.OBSERVED, None)
    assert where(cache, "b") == ([0], NUMASource.OBSERVED, None)


def test_the_guard_does_not_call_certain_what_a_mere_observation_decides() -> None:
    early = running("a", {**allocated(1, 4), **observed(0, 4)}, hour=3)
    cache = cluster(early, free=(16, 16))
    admission = cache.kubelet_admission("n0", "default/new")
    assert admission is not None
    assert admission.leeway.kept == [{1: {"cpu": 4_000}, 0: {"cpu": 4_000}}]


def test_an_observation_that_goes_away_leaves_what_was_known_before() -> None:
    pod = running("p", {**allocated(0, 4), **observed(1, 4)}, hour=3)
    cache = cluster(pod, free=(16, 16))
    put(cache, running("p", allocated(0, 4), hour=3))
    assert reserved(cache) == {0: {"cpu": 4_000}}
    assert replace(found(cache), numa={}) == PodNUMANodes({}, NUMASource.ALLOCATED)
