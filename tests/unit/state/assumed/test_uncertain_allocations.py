"""Pods that may be on other NUMA nodes than replayed or allocated, and allocations that their node contradicts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders.records import cpus, resident, topology
from webhook.formats.kubernetes.pod_resources import Container, ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope
from webhook.state.assumed.bound_allocations import Arrived, displaced
from webhook.state.assumed.known_placements import credible

MACHINE = topology(node="n", free=cpus(16, 16, 16))


def arrived(
    name: str, numa_id: int, cpu: int, *, certain: bool = False, uncertain: bool = False, late: bool = True
) -> Arrived:
    return Arrived(name, {numa_id: {"cpu": 1000 * cpu}}, certain, uncertain, late)


# a, b ── NUMA 0 [16], where room came free, NUMA 1 and NUMA 2 [16]; what came free is not more than 16 - 12.
BEFORE = arrived("a", 0, 12, late=False)
FIRST = arrived("a", 1, 10)


@pytest.mark.parametrize(
    ("pods", "room", "found"),
    [
        ([arrived("a", 1, 5)], 0, {"a": [0]}),
        ([arrived("a", 1, 5, late=False)], 0, {}),
        ([arrived("a", 1, 5)], 2, {}),
        ([arrived("a", 1, 5)], 1, {}),
        ([BEFORE, arrived("b", 1, 5)], 0, {}),
        ([BEFORE, arrived("b", 1, 4)], 0, {"b": [0]}),
        ([arrived("a", 0, 12, uncertain=True, late=False), arrived("b", 1, 5)], 0, {"b": [0]}),
        ([arrived("a", 1, 5, certain=True)], 0, {}),
        ([FIRST, arrived("b", 2, 10)], 0, {"a": [0], "b": [0, 1]}),
        ([FIRST, arrived("b", 2, 10, late=False)], 0, {"a": [0], "b": [1]}),
        ([FIRST, arrived("b", 0, 10, late=False)], 0, {"a": [0], "b": [1, 2]}),
        ([FIRST, arrived("b", 0, 6, late=False)], 0, {"a": [0]}),
    ],
    ids=[
        "one that arrived later may have found the room",
        "not one that arrived before",
        "more room makes no kubelet prefer a higher NUMA node",
        "nor the same one",
        "no room beside those that came before",
        "room enough beside them",
        "those in doubt take no room for certain",
        "what an NRT has shown is so",
        "one that came after a displaced one may have found what that left",
        "on NUMA 0 only if the first is not there",
        "one whose room may have been taken may be anywhere with room",
        "but not if both fit",
    ],
)
def test_where_pods_may_be_that_a_kubelet_admitted_after_room_came_free(
    pods: list[Arrived], room: int, found: dict[str, list[int]]
) -> None:
    assert {name: sorted(ids) for name, ids in displaced(pods, [room], MACHINE).items()} == found


# n ── NUMA 0 [8]  NUMA 1 [8]      [cpus]
N = topology(node="n", free=cpus(8, 8))
BOTH = {0: {"cpu": 2000}, 1: {"cpu": 2000}}


def pod(allocation: Mapping[int, Mapping[str, int]], containers: int = 1) -> ResidentPod:
    main = Container("main", ContainerKind.APP, {"cpu": 2000}, {"cpu": 2000})
    return replace(
        resident(name="p", node="n", requests={"cpu": 9000}, numa=allocation), containers=(main,) * containers
    )


@pytest.mark.parametrize(
    ("allocation", "containers", "node"),
    [
        ({0: {"cpu": 8000}}, 1, N),
        ({1: {"memory": 2**40}}, 1, N),
        (BOTH, 2, N),
        (BOTH, 1, topology(node="n", free=cpus(8, 8), policy=NUMAPolicy.RESTRICTED)),
        (BOTH, 1, topology(node="n", free=cpus(8, 8), publisher=Publisher.TOTAL)),
        ({7: {"cpu": 8000}}, 1, None),
    ],
    ids=["one", "not listed", "a container each", "restricted", "koordlet", "nothing known"],
)
def test_what_the_kubelet_can_have_done_counts(
    allocation: Mapping[int, Mapping[str, int]], containers: int, node: NodeTopology | None
) -> None:
    assert credible(pod(allocation, containers), node).allocation == tuple(allocation.items())


@pytest.mark.parametrize(
    ("allocation", "containers", "node"),
    [
        ({2: {"cpu": 1000}}, 1, N),
        ({0: {"cpu": 8001}}, 1, N),
        (BOTH, 1, N),
        (BOTH, 2, topology(node="n", free=cpus(8, 8), scope=Scope.POD)),
    ],
    ids=["no such NUMA node", "more than it has", "two for one container", "two for one pod"],
)
def test_what_it_cannot_have_done_does_not(
    allocation: Mapping[int, Mapping[str, int]], containers: int, node: NodeTopology
) -> None:
    assert credible(pod(allocation, containers), node).allocation is None
