"""Decisions without a search over all sets of NUMA nodes equal decisions with it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.pods import container
from tests.builders.records import GI, node, pod, resident, state
from tests.property.short_ways import BEST_EFFORT, GPU, NIC, RESTRICTED, requested, snapshots, wide_pods
from tests.unit.engine.whole_way import whole_split, whole_way
from webhook.engine import kubelet
from webhook.engine.decide import decide
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod, PreferredTerm
from webhook.formats.nrt import NodeTopology, Zone, ZoneResource
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy, Scope


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
def test_totals_decide_like_all_sets_where_no_allocation_is_refused(snapshot: Snapshot, wanted: Pod) -> None:
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


# The affinity, and what uses which NUMA nodes      [free per NUMA node]
@pytest.mark.parametrize(
    ("free", "asked", "mask"),
    [
        # cpu [8 8 0]  memory [0 0 8]: the affinity is 0, and memory is in 2
        ({"cpu": (8000, 8000, 0), "memory": (0, 0, 8 * GI)}, {"cpu": "1", "memory": "1Gi"}, 0b101),
        # cpu [0 8 3]  memory [8 0 0]: the affinity is 0, and CPUs come from the fullest of the others, not the lowest
        ({"cpu": (0, 8000, 3000), "memory": (8 * GI, 0, 0)}, {"cpu": "2", "memory": "2Gi"}, 0b101),
        # a [0 1 1]  b [0 1 0]: the affinity is 0 and 1, but nothing is in 0
        ({GPU: (0, 1, 1), NIC: (0, 1, 0)}, {GPU: "2", NIC: "1"}, 0b110),
    ],
)
def test_two_numa_nodes_are_enough_although_neither_holds_all(
    free: dict[str, tuple[int, ...]], asked: dict[str, str], mask: int
) -> None:
    whole = {"cpu": 8000, "memory": 8 * GI, GPU: 1, NIC: 1}
    zones = [
        Zone(
            numa_id,
            f"node-{numa_id}",
            {},
            {name: ZoneResource(whole[name], whole[name], free[name][numa_id]) for name in free},
        )
        for numa_id in range(3)
    ]
    topology = NodeTopology(node="n0", policy=BEST_EFFORT, scope=Scope.CONTAINER, zones=tuple(zones))
    allocatable = {name: 3 * amount for name, amount in whole.items()} | {"pods": 110}
    others = resident(name="others", node="n0", requests={name: 3 * whole[name] - sum(free[name]) for name in free})
    snapshot = Snapshot(state(node(name="n0", allocatable=allocatable), topology, others).node_arrays())
    limits = asked if "cpu" in asked else None
    request = requested(snapshot, pod(spec={"containers": [container(requests=asked, limits=limits)]}))
    fit = kubelet.predict(snapshot, request)
    assert fit.wide is not None
    assert fit.wide.at_least.tolist() == [2]
    assert fit.mask[0] == whole_way(snapshot, request, 0)[1] == mask


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
