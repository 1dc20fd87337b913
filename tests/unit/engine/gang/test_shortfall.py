"""Why a gang does not fit: the best domain of each level, and the resource it lacks."""

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, numa_nodes, podset, racks, whole_nodes
from tests.builders.records import pod
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint
from webhook.engine.gang.result import Shortfall

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


def test_a_level_that_no_node_has_holds_nothing() -> None:
    unlabelled = {"n0": ("zone-a", None)}
    answer = assigned(
        whole_nodes(places=unlabelled, free={"n0": {GPU: 4}}),
        group(podset(name="w", of=gpus(), count=2), constraint=Constraint(RACK)),
    )
    assert list(map(str, answer.why)) == ["no rack holds 0 of 2 pods"]


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
