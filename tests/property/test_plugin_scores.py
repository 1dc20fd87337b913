"""The plugin's scores of all nodes at once equal those of a plain loop over nodes, NUMA nodes and resources."""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import add

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, state
from webhook.engine import plugin
from webhook.engine.plugin import Strategy
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.nrt import NodeTopology, Zone, ZoneResource
from webhook.model.policy import NUMAPolicy

GPU = "example.com/gpu"
Free = Mapping[str, int]

# Amounts at which rounding could go wrong: parts of CPUs, odd bytes, and near the limits of float32 and float64.
AMOUNTS = {
    "cpu": st.one_of(st.integers(0, 20).map((1000).__mul__), st.integers(0, 9000), st.integers(160_000, 200_000)),
    "memory": st.one_of(
        st.integers(0, 8).map(GI.__mul__),
        st.integers(0, 3),
        st.integers(2**53 // 100 - 2, 2**53 // 100 + 2),
        st.integers(2**53 - 3, 2**53 + 3),
    ),
    GPU: st.integers(0, 4),
}


@st.composite
def zones(draw: st.DrawFn, number: int) -> Zone:
    free = {name: draw(amount) for name, amount in AMOUNTS.items() if draw(st.integers(0, 5))}
    resources = {name: ZoneResource(amount, amount, amount) for name, amount in free.items()}
    costs = {other: draw(st.sampled_from((10, 10, 20))) for other in range(number + 1)}
    return Zone(number, f"node-{number}", costs, resources)


@st.composite
def topologies(draw: st.DrawFn, name: str) -> NodeTopology:
    width = draw(st.integers(1, 4))
    return NodeTopology(
        node=name, policy=NUMAPolicy.SINGLE_NUMA_NODE, zones=tuple(draw(zones(number)) for number in range(width))
    )


REQUESTS = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("1", "2", "1500m", "12", "165", "1m")),
        "memory": st.sampled_from(("1", "2", "1Gi", "3Gi", "90071992547409", "9007199254740993", "9007199254740994")),
    },
    optional={GPU: st.sampled_from(("0", "1", "3"))},
)
WEIGHTS = st.dictionaries(st.sampled_from(("cpu", "memory", GPU)), st.sampled_from((0, 1, 3, 700)))


@settings(max_examples=150, deadline=None)
@given(st.data(), REQUESTS, WEIGHTS)
def test_scores_equal_those_of_a_plain_loop(
    data: st.DataObject, requests: dict[str, str], weights: dict[str, int]
) -> None:
    names = [f"n{number}" for number in range(data.draw(st.integers(1, 4)))]
    published = [data.draw(topologies(name)) for name in names]
    whole = {"cpu": 10**9, "memory": 2**60, GPU: 100, "pods": 110}
    cluster = state(*(node(name=name, allocatable=whole) for name in names), *published)
    snapshot = Snapshot(cluster.node_arrays())
    intent = NUMAIntent(policy=None, exclusive=None, managed=False)
    request = PodRequest.of(pod(requests), intent, snapshot.node_arrays.resources)
    asked = dict(zip(request.resources, request.containers[0], strict=True))
    for strategy in Strategy:
        expected = [_plain(strategy, topology, asked, weights) for topology in published]
        got = plugin.score_nodes(snapshot, request, strategy, weights)
        assert [int(got[snapshot.node_arrays.index[name]]) for name in names] == expected, strategy


def _plain(strategy: Strategy, topology: NodeTopology, asked: Free, weights: Mapping[str, int]) -> int:
    if strategy is Strategy.LEAST_NUMA_NODES:
        return _least_numa_nodes(topology, asked)
    free = [{name: amounts.available for name, amounts in zone.resources.items()} for zone in topology.zones]
    if strategy is Strategy.BALANCED_ALLOCATION:
        scores = [_balanced(here, asked) for here in free]
    else:
        scores = [_weighted(here, asked, weights, least=strategy is Strategy.LEAST_ALLOCATED) for here in free]
    return min((score for score in scores if score), default=0)


def _whole(name: str, amount: int) -> int:
    return -(-amount // 1000) if name == "cpu" else amount


def _weighted(free: Free, asked: Free, weights: Mapping[str, int], *, least: bool) -> int:
    total = weight_sum = 0
    for name, amount in asked.items():
        weight = max(weights.get(name, 1), 1)
        weight_sum += weight
        available = free.get(name, 0)
        if available < max(amount, 1):
            continue
        used = _whole(name, available) - _whole(name, amount) if least else _whole(name, amount)
        total += weight * (used * 100 // _whole(name, available))
    return total // weight_sum


def _balanced(free: Free, asked: Free) -> int:
    fractions = []
    for name, amount in asked.items():
        available = _whole(name, free.get(name, 0))
        fractions.append(float(_whole(name, amount)) / float(available) if available else 1.0)
    if any(fraction > 1 for fraction in fractions):
        return 0
    n = len(fractions)
    mean = reduce(add, fractions) / n
    squares = compensation = 0.0
    for fraction in fractions:
        deviation = fraction - mean
        squares += deviation * deviation
        compensation += deviation
    return math.trunc((1 - (squares - compensation * compensation / n) / max(n - 1, 1)) * 100)


def _least_numa_nodes(topology: NodeTopology, asked: Free) -> int:
    unit = 100 // topology.max_numa_nodes
    for width in range(1, len(topology.zones) + 1):
        sets = list(combinations(topology.zones, width))
        having = [one for one in sets if _have(one, asked)]
        if having:
            nearest = min(map(_distance, having)) == min(map(_distance, sets))
            return 100 - width * unit + (unit // 2 if nearest else 0)
    listed = any(name in zone.resources for zone in topology.zones for name in asked)
    return 0 if listed else 100


def _have(some: Sequence[Zone], asked: Free) -> bool:
    return all(
        all(name in zone.resources for zone in some) and sum(zone.resources[name].available for zone in some) >= amount
        for name, amount in asked.items()
    )


def _distance(some: Sequence[Zone]) -> float:
    return sum(left.costs.get(right.id, 255) for left in some for right in some) / len(some) ** 2
