"""Why a gang does not fit: the best domain of each level, and the resource it lacks."""

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, numa_nodes, podset, racks, whole_nodes
from tests.builders.records import pod
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.gang.result import Shortfall
from webhook.placing.gang.gang_text import never_held

# zone-a ─┬─ rack-1 ── n0 [6 GPUs, 100 CPUs]
#         └─ rack-2 ── n1 [8 GPUs,   4 CPUs]
# zone-b ─── rack-3 ── n2 [2 GPUs, 100 CPUs]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-2", n2="zone-b/rack-3")
FREE = {"n0": {GPU: 6, "cpu": 100_000}, "n1": {GPU: 8, "cpu": 4_000}, "n2": {GPU: 2, "cpu": 100_000}}


@pytest.mark.parametrize(
    ("constraint", "sentences"),
    [
        (Constraint(RACK), ["rack rack-1 holds 6 of 16 pods: nvidia.com/gpu"]),
        (
            Constraint(ZONE, RACK),
            ["zone zone-a holds 10 of 16 pods: nvidia.com/gpu", "rack rack-1 holds 6 of 16 pods: nvidia.com/gpu"],
        ),
        (
            Constraint(None, RACK),
            [
                "the cluster holds 12 of 16 pods: nvidia.com/gpu",
                "zone zone-a holds 10 of 16 pods: nvidia.com/gpu",
                "rack rack-1 holds 6 of 16 pods: nvidia.com/gpu",
            ],
        ),
    ],
)
def test_each_level_says_what_its_best_domain_holds_and_what_is_short(
    constraint: Constraint, sentences: list[str]
) -> None:
    answer = assigned(
        whole_nodes(places=PLACES, free=FREE), group(podset(name="w", of=gpus(), count=16), constraint=constraint)
    )
    assert list(map(str, answer.why)) == sentences


@pytest.mark.parametrize("constraint", [Constraint(), Constraint(RACK), Constraint(None, RACK)], ids=str)
def test_of_pods_that_no_others_wait_for_all_are_counted(constraint: Constraint) -> None:
    """Such as the workers of a LeaderWorkerSet with `LeaderReady` whose leader runs."""
    answer = assigned(
        whole_nodes(places=PLACES, free=FREE),
        group(podset(name="w", of=gpus(9), count=3, minimum=0), constraint=constraint),
    )
    assert not answer.assigned
    assert {(short.holds, short.needed, short.resource) for short in answer.why} == {(0, 3, GPU)}


def test_the_resource_that_binds_is_the_one_that_is_short_where_most_pods_fit() -> None:
    answer = assigned(
        whole_nodes(places=PLACES, free={name: free | {"cpu": 5_000} for name, free in FREE.items()}),
        group(podset(name="w", of=gpus(), count=8), constraint=Constraint(RACK)),
    )
    assert list(map(str, answer.why)) == ["rack rack-1 holds 5 of 8 pods: cpu"]


def test_where_no_node_may_be_used_it_is_no_resource() -> None:
    nowhere = pod({"cpu": "1"}, spec={"nodeSelector": {"no": "where"}})
    answer = assigned(
        whole_nodes(places=PLACES, free=FREE), group(podset(name="w", of=nowhere, count=2), constraint=Constraint(ZONE))
    )
    assert [(short.holds, short.resource) for short in answer.why] == [(0, "")]


# zone-a ── rack-1 ── n0 [4 4]     three pods of 4 CPUs: 8 are free, in two NUMA nodes
def test_numa_nodes_count() -> None:
    cluster = numa_nodes(places=racks(n0="zone-a/rack-1"), free={"n0": (4, 4)})
    strict = pod({"cpu": "3", "memory": "1Gi"}, policy="SingleNUMANode")
    answer = assigned(cluster, group(podset(name="w", of=strict, count=3), constraint=Constraint(RACK)))
    assert answer.why == (
        Shortfall(
            "example.com/rack", (("example.com/zone", "zone-a"), ("example.com/rack", "rack-1")), 2, 3, "cpu", 3000
        ),
    )


def test_different_pods_that_only_fit_one_by_one_are_counted_together() -> None:
    cluster = whole_nodes(places=racks(n0="zone-a/rack-1"), free={"n0": {GPU: 4}})
    asked = group(
        podset(name="a", of=gpus(3), count=1), podset(name="b", of=gpus(2), count=1), constraint=Constraint(RACK)
    )
    assert list(map(str, assigned(cluster, asked).why)) == ["rack rack-1 holds 1 of 2 pods: nvidia.com/gpu"]


def test_the_minimum_is_what_is_needed() -> None:
    asked = group(podset(name="w", of=gpus(), count=20, minimum=9), constraint=Constraint(RACK))
    assert [(short.holds, short.needed) for short in assigned(whole_nodes(places=PLACES, free=FREE), asked).why] == [
        (6, 9)
    ]


# rack-1 ── n0 [2]    rack-2 ── n1 [2]    [free GPUs]
@pytest.mark.parametrize(
    ("count", "size", "holds", "segments"),
    [
        (4, 3, 1, (1, 2)),  # one of 3, and the last one of 1, which fits
        (5, 2, 4, (2, 3)),  # two of 2, and the last one of 1, which does not fit
        (7, 3, 1, (1, 3)),
    ],
)
def test_a_last_segment_with_fewer_pods_counts_with_its_own(
    count: int, size: int, holds: int, segments: tuple[int, int]
) -> None:
    cluster = whole_nodes(places=racks(n0="z/rack-1", n1="z/rack-2"), free={"n0": {GPU: 2}, "n1": {GPU: 2}})
    asked = group(podset(name="w", of=gpus(), count=count, segments=Segments(size, Constraint(RACK))))
    (short,) = assigned(cluster, asked).why
    assert short.segments is not None
    assert (short.holds, (short.segments.holds, short.segments.needed)) == (holds, segments)


@pytest.mark.parametrize(
    ("count", "size", "needed"),
    [
        (5, 2, "1 nvidia.com/gpu in one rack for the last segment"),
        (4, 3, "3 nvidia.com/gpu in one rack for each of 1 more segment"),
        (
            9,
            4,
            "4 nvidia.com/gpu in one rack for each of 2 more segments",
        ),
    ],
)
def test_what_is_needed_for_a_last_segment_is_what_its_pods_request(count: int, size: int, needed: str) -> None:
    cluster = whole_nodes(places=racks(n0="z/rack-1", n1="z/rack-2"), free={"n0": {GPU: 2}, "n1": {GPU: 2}})
    asked = group(podset(name="w", of=gpus(), count=count, segments=Segments(size, Constraint(RACK))))
    assert never_held(assigned(cluster, asked)).endswith(f"; needed: {needed}")


def test_a_level_that_no_node_has_holds_nothing() -> None:
    unlabelled = {"n0": ("zone-a", None)}
    answer = assigned(
        whole_nodes(places=unlabelled, free={"n0": {GPU: 4}}),
        group(podset(name="w", of=gpus(), count=2), constraint=Constraint(RACK)),
    )
    assert list(map(str, answer.why)) == ["no node is in any rack: none has the label example.com/rack"]


def test_a_cluster_without_nodes_holds_nothing() -> None:
    for constraint in (Constraint(), Constraint(ZONE), Constraint(None, RACK)):
        answer = assigned(
            whole_nodes(places={}, free={}), group(podset(name="w", of=gpus(), count=2), constraint=constraint)
        )
        assert not answer.assigned
        assert {short.holds for short in answer.why} == {0}
    mixed = group(
        podset(name="a", of=gpus(1), count=2), podset(name="b", of=gpus(2), count=2), constraint=Constraint(RACK)
    )
    assert not assigned(whole_nodes(places={}, free={}), mixed).assigned


# zone-a ─┬─ rack-1 ── n0 [6 GPUs]  n1 [5 GPUs]
#         └─ rack-2 ── n2 [7 GPUs]
# zone-b ─── rack-3 ── n3 [16 GPUs]
IN_RACKS = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2", n3="zone-b/rack-3")
UNEVEN = {"n0": {GPU: 6}, "n1": {GPU: 5}, "n2": {GPU: 7}, "n3": {GPU: 16}}


@pytest.mark.parametrize(
    ("constraint", "segments", "pods", "sentence"),
    [
        # Of 11 and 7 GPUs, racks use 8 and 4 for segments of 4.
        (Constraint(ZONE), Segments(4, Constraint(RACK)), 20, "zone zone-b holds 4 of 5 segments of 4 pods"),
        (Constraint(), Segments(4, Constraint(RACK)), 32, "the cluster holds 7 of 8 segments of 4 pods"),
        # The last segment has two pods, and rack-2 has room for it beside another one.
        (Constraint(), Segments(4, Constraint(RACK)), 34, "the cluster holds 8 of 9 segments of 4 pods"),
        (Constraint(RACK), Segments(5, Constraint(RACK)), 20, "rack rack-3 holds 3 of 4 segments of 5 pods"),
    ],
)
def test_segments_that_are_short_are_counted_as_such(
    constraint: Constraint, segments: Segments, pods: int, sentence: str
) -> None:
    cluster = whole_nodes(places=IN_RACKS, free=UNEVEN)
    answer = assigned(cluster, group(podset(name="w", of=gpus(), count=pods, segments=segments), constraint=constraint))
    assert not answer.assigned
    assert str(answer.why[0]) == f"{sentence}, each within one rack: {GPU}"
    assert answer.why[0].segments is not None
    assert answer.why[0].holds == answer.why[0].segments.holds * segments.size or pods % segments.size


def test_the_only_segment_has_no_more_pods_than_the_pod_set() -> None:
    gang = group(podset(name="w", of=gpus(), count=20, segments=Segments(150_000, Constraint(RACK))))
    (short,) = assigned(whole_nodes(places=IN_RACKS, free=UNEVEN), gang).why
    assert str(short) == f"the cluster holds 0 of 1 segment of 20 pods, each within one rack: {GPU}"


def test_the_finest_short_layer_is_named() -> None:
    """Racks hold sixes (1, 1 and 2 of them), zones hold twelves."""
    layers = Segments(12, Constraint(ZONE), inner=Segments(6, Constraint(RACK)))
    cluster = whole_nodes(places=IN_RACKS, free=UNEVEN)
    assert assigned(cluster, group(podset(name="w", of=gpus(), count=24, segments=layers))).assigned
    answer = assigned(cluster, group(podset(name="w", of=gpus(), count=36, segments=layers)))
    assert str(answer.why[0]) == f"the cluster holds 4 of 6 segments of 6 pods, each within one rack: {GPU}"


def test_where_all_segments_would_fit_pods_are_counted() -> None:
    cluster = whole_nodes(places=IN_RACKS, free=UNEVEN)
    asked = group(
        podset(name="a", of=gpus(), count=16, segments=Segments(4, Constraint(RACK))),
        podset(name="b", of=gpus(17), count=1),
        constraint=Constraint(ZONE),
    )
    assert str(assigned(cluster, asked).why[0]) == f"zone zone-b holds 16 of 17 pods: {GPU}"
