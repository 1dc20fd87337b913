"""Decisions without a search over all sets of NUMA nodes equal decisions with it."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, state
from tests.unit.engine.whole_way import whole_split, whole_way
from webhook.engine import kubelet
from webhook.engine.decide import decide
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import parse_numa_intent
from webhook.model.nrt import NodeTopology, Publisher, Zone, ZoneResource
from webhook.model.options import Options
from webhook.model.pod import Pod, PreferredTerm
from webhook.model.policy import NUMAPolicy, Scope

BEST_EFFORT, RESTRICTED = NUMAPolicy.BEST_EFFORT, NUMAPolicy.RESTRICTED
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
CAPACITIES = (
    {"cpu": 8000, "memory": 8 * GI, GPU: 2},
    {"cpu": 12000, "memory": 6 * GI, GPU: 2},
    {"cpu": 8000, "memory": 8 * GI, GPU: 2, HUGE: 2 * GI},
)


@st.composite
def topologies(draw: st.DrawFn, name: str, policies: tuple[NUMAPolicy, ...], most: int = 6) -> NodeTopology:
    """A machine of up to `most` NUMA nodes, equal or not. Each resource is unused, used up or in between."""
    alike = draw(st.sampled_from((CAPACITIES[0], CAPACITIES[0], CAPACITIES[2], None)))
    zones = []
    for numa_id in range(draw(st.integers(1, most))):
        capacity = alike or draw(st.sampled_from(CAPACITIES))
        resources = {}
        for resource, amount in capacity.items():
            unit = GI if amount >= GI else 1000 if resource == "cpu" else 1
            free = draw(st.one_of(st.just(amount), st.integers(0, amount // unit).map(unit.__mul__)))
            resources[resource] = ZoneResource(amount, amount, free)
        zones.append(Zone(numa_id, f"node-{numa_id}", {}, resources))
    return NodeTopology(
        node=name,
        policy=draw(st.sampled_from(policies)),
        scope=draw(st.sampled_from(Scope)),
        zones=tuple(zones),
        publisher=draw(st.sampled_from((Publisher.SUBTRACTS, Publisher.SUBTRACTS, Publisher.TOTAL))),
    )


@st.composite
def snapshots(draw: st.DrawFn, policies: tuple[NUMAPolicy, ...], most: int = 6) -> Snapshot:
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    whole = {"cpu": 10**6, "memory": 2**45, HUGE: 2**45, GPU: 100, "pods": 110}
    nodes = [node(name=name, allocatable=whole) for name in names]
    return Snapshot(state(*nodes, *(draw(topologies(name, policies, most)) for name in names)).node_arrays())


@st.composite
def wide_pods(draw: st.DrawFn, containers: int = 1) -> Pod:
    """A Guaranteed pod that often needs several NUMA nodes for each of its resources."""
    lists = []
    for _ in range(draw(st.integers(1, containers))):
        amounts = {"cpu": str(draw(st.integers(1, 40))), "memory": f"{draw(st.integers(1, 40))}Gi"}
        if draw(st.booleans()):
            amounts[GPU] = str(draw(st.integers(0, 6)))
        if draw(st.sampled_from((False, False, True))):
            amounts[HUGE] = f"{draw(st.integers(0, 6))}Gi"
        lists.append(amounts)
    return pod(*lists, policy=draw(st.sampled_from((None, "Restricted", "BestEffort"))))


def requested(snapshot: Snapshot, wanted: Pod) -> PodRequest:
    intent, _ = parse_numa_intent(wanted.annotations)
    return PodRequest.of(wanted, intent, snapshot.node_arrays.resources)


@settings(max_examples=100, deadline=None)
@given(snapshots((RESTRICTED,)), wide_pods(containers=2))
def test_the_sets_that_restricted_could_prefer_decide_like_all_sets(snapshot: Snapshot, wanted: Pod) -> None:
    request = requested(snapshot, wanted)
    fit = kubelet.predict(snapshot, request)
    for n in range(snapshot.node_arrays.n):
        reason, mask = whole_way(snapshot, request, n)
        assert (reason is Reason.FITS) == fit.fits[n]
        # A device asked for zero times binds the pod to a NUMA node, but takes nothing of it.
        if mask.bit_count() > 1:
            assert mask == fit.mask[n]
            assert fit.reason[n] == Reason.FITS


@settings(max_examples=200, deadline=None)
@given(snapshots(tuple(NUMAPolicy)), wide_pods(containers=2))
def test_the_amounts_on_known_numa_nodes_are_those_of_the_admission(snapshot: Snapshot, wanted: Pod) -> None:
    request = requested(snapshot, wanted)
    fit = kubelet.predict(snapshot, request)
    for n in np.flatnonzero(fit.fits).tolist():
        assert fit.allocation(n) == whole_split(snapshot, request, n)


@settings(max_examples=150, deadline=None)
@given(snapshots((NUMAPolicy.NONE, BEST_EFFORT)), wide_pods())
def test_totals_decide_like_all_sets_where_no_hint_is_refused(snapshot: Snapshot, wanted: Pod) -> None:
    request = requested(snapshot, wanted)
    fit = kubelet.predict(snapshot, request)
    for n in range(snapshot.node_arrays.n):
        reason, mask = whole_way(snapshot, request, n)
        assert (reason is Reason.FITS) == fit.fits[n]
        if mask.bit_count() > 1:
            assert mask == fit.mask[n]


@settings(max_examples=300, deadline=None)
@given(snapshots((BEST_EFFORT,), most=8), wide_pods())
def test_what_best_effort_spreads_over_several_numa_nodes_lies_where_all_sets_say(
    snapshot: Snapshot, wanted: Pod
) -> None:
    request = requested(snapshot, wanted)
    fit = kubelet.predict(snapshot, request)
    if fit.wide is None:
        return
    at_least = fit.wide.at_least
    for place, n in enumerate(fit.wide.nodes.tolist()):
        _, mask = whole_way(snapshot, request, n)
        assert at_least[place] <= mask.bit_count()
        assert fit.mask[n] == mask
        # Asked for by itself, before anything is known of the others.
        assert kubelet.predict(snapshot, request).masks(np.array([n])) == [mask]
        assert fit.allocation(n) == whole_split(snapshot, request, n)


# n0 ── cpu [8 8 0]  memory [0 0 8] GiB      [free per NUMA node]: the affinity is NUMA node 0, and memory is in 2
def test_two_numa_nodes_are_enough_where_each_of_two_resources_has_enough_in_one() -> None:
    free = ((8000, 0), (8000, 0), (0, 8 * GI))
    zones = [
        Zone(
            numa_id,
            f"node-{numa_id}",
            {},
            {"cpu": ZoneResource(8000, 8000, cpu), "memory": ZoneResource(8 * GI, 8 * GI, memory)},
        )
        for numa_id, (cpu, memory) in enumerate(free)
    ]
    topology = NodeTopology(node="n0", policy=BEST_EFFORT, scope=Scope.CONTAINER, zones=tuple(zones))
    snapshot = Snapshot(
        state(node(name="n0", allocatable={"cpu": 10**6, "memory": 2**45, "pods": 110}), topology).node_arrays()
    )
    request = requested(snapshot, pod({"cpu": "1", "memory": "1Gi"}))
    fit = kubelet.predict(snapshot, request)
    assert fit.wide is not None
    assert fit.wide.at_least.tolist() == [2]
    assert fit.mask[0] == whole_way(snapshot, request, 0)[1] == 0b101


# (weight, name) of each node that the pod prefers.
NAMED = st.lists(st.tuples(st.integers(1, 100), st.sampled_from(["n0", "n1", "n2", "n3"])), max_size=3)


@settings(max_examples=150, deadline=None)
@given(snapshots((BEST_EFFORT,), most=8), wide_pods(), NAMED, st.sampled_from([0, 1, 50, 100]), st.integers(1, 4))
def test_the_best_are_the_same_before_and_after_all_scores_are_known(
    snapshot: Snapshot, wanted: Pod, preferred: list[tuple[int, str]], share: int, k: int
) -> None:
    fields = [
        PreferredTerm(weight, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]})
        for weight, name in preferred
    ]
    wanted = replace(wanted, preferred_terms=tuple(fields))
    options = Options(preference_weight=share)
    intent, _ = parse_numa_intent(wanted.annotations)
    early, settled = decide(snapshot, wanted, intent, options), decide(snapshot, wanted, intent, options)
    assert settled.score.shape == (snapshot.node_arrays.n,)
    assert early.best(k) == settled.best(k)
    assert [settled.score[snapshot.node_arrays.index[one.node]] for one in early.best(k)] == [
        one.score for one in early.best(k)
    ]
