"""A bound pod's allocation beside the NRT of its node, which has two NUMA nodes of 16 CPUs."""

from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.fingerprints import pod_fingerprint
from tests.unit.views.one_node import WRITTEN_AT, allocated, bound_at
from tests.unit.views.racks import WRITTEN
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.state.cluster_cache import ClusterCache
from webhook.views.pod_standing import AllocationAmount, AllocationCheck, AllocationVerdict, allocation_check

POD = "default/p"


def check(
    free: tuple[int, ...], annotations: dict[str, str] | None = None, hour: int = 1, **how: Any
) -> AllocationCheck:
    """The pod has 8 CPUs; its allocation, unless given, names NUMA node 0. The NRT was written at 02:00."""
    pod = bound(
        name="p", node="n0", annotations=allocated(0, 8) if annotations is None else annotations, status=bound_at(hour)
    )
    cache = ClusterCache(clock=lambda: WRITTEN_AT + 3_600)
    cache.use_allocation_key(UnverifiedAllocations(b""))
    put(cache, node(name="n0"), pod)
    if free:
        put(cache, nrt(node="n0", free=free, memory=None, metadata=WRITTEN, **how))
    found = allocation_check(cache, POD)
    assert found is not None
    return found


NAMED: dict[str, Any] = {"attributes": {"nodeTopologyPodsFingerprint": pod_fingerprint([("default", "p")])}}


@pytest.mark.parametrize(
    ("free", "how", "verdict", "reported"),
    [
        ((8, 16), NAMED, AllocationVerdict.AGREES, (0,)),
        ((16, 8), NAMED, AllocationVerdict.DISAGREES, (1,)),
        ((8, 16), {}, AllocationVerdict.POSSIBLE, None),
        ((16, 8), {}, AllocationVerdict.DISAGREES, None),
        ((16, 16), {"hour": 3}, AllocationVerdict.NOT_REPORTED, None),
        ((), {}, AllocationVerdict.NOT_PUBLISHED, None),
        ((8, 16), {"annotations": {}}, AllocationVerdict.NO_ALLOCATION, None),
    ],
)
def test_the_allocation_agrees_or_not_or_that_is_open(
    free: tuple[int, ...], how: dict[str, Any], verdict: AllocationVerdict, reported: tuple[int, ...] | None
) -> None:
    found = check(free, **how)
    assert (found.verdict, found.reported) == (verdict, reported)


def test_the_amounts_stand_side_by_side() -> None:
    assert check((8, 4), **NAMED).amounts == (AllocationAmount(0, "cpu", 8_000, 8_000),)
    assert check(()).amounts == (AllocationAmount(0, "cpu", 8_000, None),)


def test_a_pod_that_is_not_bound_has_no_check() -> None:
    assert allocation_check(ClusterCache(), POD) is None
