"""Where gangs are placed: a table for each rule, with the tree above it."""

import pytest

from tests.builders.gangs import GPU, RACK, ZONE, gpus, group, numa_nodes, podset, racks, whole_nodes
from tests.builders.records import pod
from tests.unit.engine.gang.assignments import assigned, nodes_of, values_of
from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.model.options import GangStrategy
from webhook.model.policy import NUMAPolicy


def gpu_nodes(places: dict[str, str], free: dict[str, int]) -> ClusterState:
    """Nodes with this many free GPUs."""
    return whole_nodes(places=racks(**places), free={name: {GPU: amount} for name, amount in free.items()})


# zone-a ─┬─ rack-1 ── n0 [4]  n1 [4]        [free GPUs]
#         └─ rack-2 ── n2 [3]  n3 [2]
# zone-b ─── rack-3 ── n4 [8]
PLACES = {
    "n0": "zone-a/rack-1",
    "n1": "zone-a/rack-1",
    "n2": "zone-a/rack-2",
    "n3": "zone-a/rack-2",
    "n4": "zone-b/rack-3",
}
FREE = {"n0": 4, "n1": 4, "n2": 3, "n3": 2, "n4": 8}


@pytest.mark.parametrize(
    ("count", "constraint", "domain"),
    [
        (3, Constraint(RACK), ["zone-a", "rack-2"]),
        (4, Constraint(RACK), ["zone-b", "rack-3"]),
        (5, Constraint(RACK), ["zone-b", "rack-3"]),
        (9, Constraint(RACK), None),
        (9, Constraint(ZONE), ["zone-a"]),
        (9, Constraint(None, RACK), ["zone-a"]),
        (9, Constraint(ZONE, RACK), ["zone-a"]),
        (14, Constraint(ZONE, RACK), None),
        (14, Constraint(None, RACK), []),
        (21, Constraint(), []),
        (22, Constraint(), None),
    ],
)
def test_of_the_domains_that_hold_all_the_one_with_fewest_nodes_is_taken_and_then_the_tightest(
    count: int, constraint: Constraint, domain: list[str] | None
) -> None:
    answer = assigned(gpu_nodes(PLACES, FREE), group(podset(name="w", of=gpus(), count=count), constraint=constraint))
    assert answer.assigned == (domain is not None)
    assert values_of(answer) == (domain or [])
    assert sum(map(len, nodes_of(answer).values())) == (count if answer.assigned else 0)


def test_spread_takes_the_domain_with_most_room() -> None:
    asked = group(podset(name="w", of=gpus(), count=2), constraint=Constraint(ZONE))
    assert values_of(assigned(gpu_nodes(PLACES, FREE), asked)) == ["zone-b"]
    assert values_of(assigned(gpu_nodes(PLACES, FREE), asked, GangStrategy.SPREAD)) == ["zone-a"]


# zone-a ─┬─ rack-1 ── n0 [3]  n1 [3]  n2 [3]
#         └─ rack-2 ── n3 [6]
def test_nodes_are_chosen_over_all_racks_that_are_used() -> None:
    places = {"n0": "zone-a/rack-1", "n1": "zone-a/rack-1", "n2": "zone-a/rack-1", "n3": "zone-a/rack-2"}
    cluster = gpu_nodes(places, {"n0": 3, "n1": 3, "n2": 3, "n3": 6})
    answer = assigned(cluster, group(podset(name="w", of=gpus(), count=12), constraint=Constraint(ZONE)))
    assert {node: len(pods) for node, pods in nodes_of(answer).items()} == {"n0": 3, "n1": 3, "n3": 6}


# zone-a ─┬─ rack-1 ── n0 [2]
#         └─ rack-2 ── n1 [8]
# zone-b ─── rack-3 ── n2 [2]
def test_of_equally_tight_racks_the_one_in_the_fullest_zone_is_taken() -> None:
    cluster = gpu_nodes(
        {"n0": "zone-a/rack-1", "n1": "zone-a/rack-2", "n2": "zone-b/rack-3"}, {"n0": 2, "n1": 8, "n2": 2}
    )
    answer = assigned(cluster, group(podset(name="w", of=gpus(), count=2), constraint=Constraint(RACK)))
    assert values_of(answer) == ["zone-b", "rack-3"]


# zone-a ─┬─ rack-1 ── n0 [8 GPUs, 64 cpus]  n1 [8 GPUs, 64 cpus]
#         └─ rack-2 ── n2 [2 cpus]
@pytest.mark.parametrize("constraint", [Constraint(ZONE), Constraint(), Constraint(ZONE, ZONE)])
def test_a_launcher_goes_beside_its_workers_without_being_asked_to(constraint: Constraint) -> None:
    places = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2")
    free = {"n0": {GPU: 8, "cpu": 64_000}, "n1": {GPU: 8, "cpu": 64_000}, "n2": {GPU: 0, "cpu": 2_000}}
    launcher, workers = (
        podset(name="launcher", of=pod({"cpu": "2"}), count=1),
        podset(name="worker", of=gpus(8), count=1),
    )
    answer = assigned(whole_nodes(places=places, free=free), group(launcher, workers, constraint=constraint))
    assert len(nodes_of(answer)) == 1


def test_within_the_domain_the_fewest_nodes_are_used_and_the_last_is_the_tightest() -> None:
    asked = group(podset(name="w", of=gpus(), count=6), constraint=Constraint(ZONE))
    cluster = gpu_nodes(PLACES | {"n4": "zone-c/rack-3"}, FREE | {"n4": 0})
    assert {node: len(pods) for node, pods in nodes_of(assigned(cluster, asked)).items()} == {"n0": 4, "n1": 2}


# zone-a ── rack-1 ── n0 [8 8]  n1 [8 0]      [free cpus per NUMA node]
#        └─ rack-2 ── n2 [4 4 4 4]
def test_rack_and_numa_node_are_solved_together() -> None:
    places = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2")
    cluster = numa_nodes(places=places, free={"n0": (8, 8), "n1": (8, 0), "n2": (4, 4, 4, 4)})
    workers = podset(name="w", of=pod({"cpu": "6", "memory": "1Gi"}, policy="SingleNUMANode"), count=3)
    answer = assigned(cluster, group(workers, constraint=Constraint(RACK)))
    assert values_of(answer) == ["zone-a", "rack-1"]
    assert [(each.node, each.numa_nodes) for each in answer.pods()] == [("n0", (0,)), ("n0", (1,)), ("n1", (0,))]


# zone-a ─┬─ rack-1 ── n0 [2]  n1 [2]
#         └─ rack-2 ── n2 [2]  n3 [1]
def test_ranks_follow_the_tree() -> None:
    cluster = gpu_nodes({name: PLACES[name] for name in ("n0", "n1", "n2", "n3")}, {"n0": 2, "n1": 2, "n2": 2, "n3": 1})
    answer = assigned(cluster, group(podset(name="w", of=gpus(), count=7), constraint=Constraint(ZONE)))
    assert [(each.rank, each.node) for each in answer.pods()] == list(
        enumerate(["n0", "n0", "n1", "n1", "n2", "n2", "n3"])
    )


# zone-a ─┬─ rack-1 ── n0 [5]
#         ├─ rack-2 ── n1 [4]
#         └─ rack-3 ── n2 [3]
SEGMENT_RACKS = {"n0": "zone-a/rack-1", "n1": "zone-a/rack-2", "n2": "zone-a/rack-3"}
SEGMENT_FREE = {"n0": 5, "n1": 4, "n2": 3}


@pytest.mark.parametrize(
    ("count", "size", "sizes"),
    [
        (8, 2, {"n0": 4, "n1": 4}),
        (10, 2, {"n0": 4, "n1": 4, "n2": 2}),
        (8, 4, {"n0": 4, "n1": 4}),
        (9, 4, {"n0": 5, "n1": 4}),
        (11, 4, {"n0": 4, "n1": 4, "n2": 3}),
        (12, 4, None),
    ],
)
def test_each_segment_is_within_one_rack(count: int, size: int, sizes: dict[str, int] | None) -> None:
    segments = Segments(size, Constraint(required=RACK))
    asked = group(podset(name="w", of=gpus(), count=count, segments=segments), constraint=Constraint(preferred=ZONE))
    answer = assigned(gpu_nodes(SEGMENT_RACKS, SEGMENT_FREE), asked)
    assert answer.assigned == (sizes is not None)
    assert {node: len(pods) for node, pods in nodes_of(answer).items()} == (sizes or {})
    seats = {each.rank: each.node for each in answer.pods()}
    for start in range(0, count if answer.assigned else 0, size):
        assert len({seats[rank] for rank in range(start, min(start + size, count))}) == 1


# zone-a ─── rack-1 ── n0 [6]  n1 [5]  n2 [4]  n3 [1]
@pytest.mark.parametrize(
    ("count", "sizes"),
    [(4, {"n2": 4}), (5, {"n1": 5}), (6, {"n0": 6}), (9, {"n1": 5, "n2": 4}), (8, {"n1": 4, "n2": 4})],
)
def test_segments_go_to_the_tightest_nodes_and_the_smaller_last_one_beside_another(
    count: int, sizes: dict[str, int]
) -> None:
    cluster = gpu_nodes(dict.fromkeys(("n0", "n1", "n2", "n3"), "zone-a/rack-1"), {"n0": 6, "n1": 5, "n2": 4, "n3": 1})
    asked = group(
        podset(name="w", of=gpus(), count=count, segments=Segments(4, Constraint(3))), constraint=Constraint(RACK)
    )
    assert {node: len(pods) for node, pods in nodes_of(assigned(cluster, asked)).items()} == sizes


# zone-a ─── rack-1 ── n0 [8]  n1 [8]  n2 [7]
def test_segments_of_whole_nodes() -> None:
    cluster = gpu_nodes(dict.fromkeys(("n0", "n1", "n2"), "zone-a/rack-1"), {"n0": 8, "n1": 8, "n2": 7})
    node_level = 3
    for count, fits in ((16, True), (24, False)):
        asked = group(
            podset(name="w", of=gpus(), count=count, segments=Segments(8, Constraint(node_level))),
            constraint=Constraint(RACK),
        )
        assert assigned(cluster, asked).assigned == fits


def test_a_segment_that_runs_in_part_is_completed_where_it_runs() -> None:
    segments = Segments(4, Constraint(required=RACK))
    workers = podset(name="w", of=gpus(), count=6, segments=segments, running=[(0, "n2"), (1, "n2")])
    answer = assigned(gpu_nodes(SEGMENT_RACKS, SEGMENT_FREE), group(workers))
    seats = {each.rank: each.node for each in answer.pods()}
    assert {seats[2], seats[3]} == {"n2"}
    assert {seats[rank] for rank in (4, 5, 6, 7)} <= {"n0", "n1"}
    assert len({seats[rank] for rank in (4, 5, 6, 7)}) == 1


@pytest.mark.parametrize(
    ("constraint", "running", "domain"),
    [
        (Constraint(required=RACK), "n4", ["zone-b", "rack-3"]),
        (Constraint(preferred=RACK), "n4", ["zone-b", "rack-3"]),
        (Constraint(required=ZONE), "n3", ["zone-a"]),
        (Constraint(required=RACK), "n3", ["zone-a", "rack-2"]),
    ],
)
def test_running_members_hold_a_required_domain_and_attract_a_preferred_one(
    constraint: Constraint, running: str, domain: list[str]
) -> None:
    workers = podset(name="w", of=gpus(), count=2, running=[(0, running)])
    answer = assigned(gpu_nodes(PLACES, FREE), group(workers, constraint=constraint))
    assert values_of(answer) == domain
    assert [each.rank for each in answer.pods()] == [1, 2]


def test_a_preferred_domain_that_cannot_take_the_others_does_not_hold_them_up() -> None:
    workers = podset(name="w", of=gpus(), count=8, running=[(0, "n3")])
    assert assigned(gpu_nodes(PLACES, FREE), group(workers, constraint=Constraint(preferred=RACK))).assigned
    assert not assigned(gpu_nodes(PLACES, FREE), group(workers, constraint=Constraint(required=RACK))).assigned


@pytest.mark.parametrize(("minimum", "seats"), [(8, 8), (6, 8), (9, 0)])
def test_an_elastic_group_gets_its_minimum_first_and_then_what_fits(minimum: int, seats: int) -> None:
    workers = podset(name="w", of=gpus(), count=10, minimum=minimum)
    answer = assigned(gpu_nodes(PLACES, FREE), group(workers, constraint=Constraint(required=RACK)))
    assert len(list(answer.pods())) == seats
    assert answer.unplaced() == ([f"w-{rank}" for rank in range(seats, 10)] if seats else [])


# zone-a ─┬─ rack-1 ── n0 [4]  n1 [4]
#         └─ rack-2 ── n2 [3]  n3 [2]
@pytest.mark.parametrize(("workers", "minimum", "assigned_members"), [(3, 3, 3), (6, 1, 3), (6, 3, 3), (6, 4, None)])
def test_an_elastic_part_gets_its_minimum_and_then_what_is_left_beside_it(
    workers: int, minimum: int, assigned_members: int | None
) -> None:
    cluster = gpu_nodes({name: PLACES[name] for name in ("n0", "n1", "n2", "n3")}, FREE)
    leader, followers = (
        podset(name="leader", of=gpus(2), count=1),
        podset(name="worker", of=gpus(2), count=workers, minimum=minimum),
    )
    answer = assigned(cluster, group(leader, followers, constraint=Constraint(required=RACK)))
    assert [each.name for each in answer.pods()] == (
        [] if assigned_members is None else ["leader-0", *(f"worker-{rank}" for rank in range(assigned_members))]
    )
    small = podset(name="small", of=gpus(1), count=20, minimum=1)
    answer = assigned(cluster, group(leader, small, constraint=Constraint(required=RACK)))
    assert [each.name for each in answer.pods()] == ["leader-0", *(f"small-{rank}" for rank in range(6))]
    assert max(map(len, nodes_of(answer).values())) <= 4


# zone-a ─┬─ rack-1 ── n0 [4]
#         └─ rack-2 ── n1 [3]  n2 [1]
def test_a_leader_and_its_workers_share_a_rack() -> None:
    cluster = gpu_nodes(
        {"n0": "zone-a/rack-1", "n1": "zone-a/rack-2", "n2": "zone-a/rack-2"}, {"n0": 4, "n1": 3, "n2": 1}
    )
    leader, workers = podset(name="leader", of=gpus(1), count=1), podset(name="worker", of=gpus(3), count=1)
    answer = assigned(cluster, group(leader, workers, constraint=Constraint(required=RACK)))
    assert {each.name: each.node for each in answer.pods()} in (
        {"leader-0": "n0", "worker-0": "n0"},
        {"leader-0": "n2", "worker-0": "n1"},
    )
    assert not assigned(
        cluster, group(leader, podset(name="worker", of=gpus(3), count=2), constraint=Constraint(required=RACK))
    ).assigned


# zone-a ─┬─ rack-1 ── n0 [4]
#         └─ rack-2 ── n1 [5]
# zone-b ─── rack-3 ── n2 [6]
def test_subgroups_have_a_rack_each_within_the_zone_of_all() -> None:
    cluster = gpu_nodes(
        {"n0": "zone-a/rack-1", "n1": "zone-a/rack-2", "n2": "zone-b/rack-3"}, {"n0": 4, "n1": 5, "n2": 6}
    )
    one = group(podset(name="one", of=gpus(), count=4), constraint=Constraint(required=RACK), name="one")
    other = group(podset(name="other", of=gpus(), count=5), constraint=Constraint(required=RACK), name="other")
    answer = assigned(cluster, group(one, other, constraint=Constraint(required=ZONE)))
    assert values_of(answer) == ["zone-a"]
    assert {each.set: each.node for each in answer.pods()} == {"one": "n0", "other": "n1"}


# zone ─┬─ rack-1 ── n0 [7]     parts of 3, 4 and 4: the first takes the tighter rack, where only a part of 4 fits well
#       └─ rack-2 ── n1 [5]
def test_what_greedy_gets_wrong_the_exact_search_repairs_within_its_bound() -> None:
    cluster = gpu_nodes({"n0": "zone/rack-1", "n1": "zone/rack-2"}, {"n0": 7, "n1": 5})
    sizes = {"a": 3, "b": 4, "c": 4}
    asked = group(
        *(
            group(podset(name=name, of=gpus(), count=size), constraint=Constraint(required=RACK), name=name)
            for name, size in sizes.items()
        )
    )
    answer = assigned(cluster, asked)
    assert {each.set: each.node for each in answer.pods()} in (
        {"a": "n0", "b": "n0", "c": "n1"},
        {"a": "n0", "b": "n1", "c": "n0"},
    )
    without_search = assigned(cluster, asked, effort=Effort(steps=0))
    assert not without_search.assigned
    assert not without_search.exhaustive


def test_pods_that_ask_for_the_same_in_several_sets_are_counted_as_one() -> None:
    answer = assigned(
        gpu_nodes(PLACES, FREE),
        group(
            podset(name="master", of=gpus(), count=1),
            podset(name="worker", of=gpus(), count=7),
            constraint=Constraint(required=RACK),
        ),
    )
    assert values_of(answer) in (["zone-a", "rack-1"], ["zone-b", "rack-3"])
    assert [each.name for each in answer.pods()] == ["master-0", *(f"worker-{rank}" for rank in range(7))]


# zone-a ── rack-1 ── n0 [8 8]  n1 [8 8]   restricted: a pod of 12 CPUs takes both NUMA nodes of a node
def test_pods_over_several_numa_nodes_are_replayed() -> None:
    places = racks(n0="zone-a/rack-1", n1="zone-a/rack-1")
    cluster = numa_nodes(places=places, free={"n0": (8, 8), "n1": (8, 8)}, policy=NUMAPolicy.RESTRICTED)
    wide = pod({"cpu": "12", "memory": "1Gi"})
    answer = assigned(cluster, group(podset(name="w", of=wide, count=2), constraint=Constraint(required=RACK)))
    assert [(each.node, each.numa_nodes) for each in answer.pods()] == [("n0", (0, 1)), ("n1", (0, 1))]
    assert not assigned(
        cluster, group(podset(name="w", of=wide, count=3), constraint=Constraint(required=RACK))
    ).assigned


# zone-a ── rack-1 ── n0 [8 8]   two containers of 5: one in each NUMA node, so one pod, though 16 CPUs are free
def test_pods_of_several_containers_are_replayed() -> None:
    cluster = numa_nodes(places=racks(n0="zone-a/rack-1"), free={"n0": (8, 8)})
    two = pod({"cpu": "3", "memory": "1Gi"}, {"cpu": "5", "memory": "1Gi"})
    answer = assigned(cluster, group(podset(name="w", of=two, count=2)))
    assert answer.assigned
    assert [each.numa_nodes for each in answer.pods()] == [(0,), (1,)]
    three = pod({"cpu": "5", "memory": "1Gi"}, {"cpu": "5", "memory": "1Gi"})
    assert assigned(cluster, group(podset(name="w", of=three, count=1))).assigned
    assert not assigned(cluster, group(podset(name="w", of=three, count=2))).assigned


def test_a_group_that_runs_already_needs_nothing() -> None:
    answer = assigned(gpu_nodes(PLACES, FREE), group(podset(name="w", of=gpus(), count=0)))
    assert answer.assigned
    assert list(answer.pods()) == []


def test_the_answer_as_json() -> None:
    asked = group(podset(name="w", of=gpus(), count=3), constraint=Constraint(required=RACK), name="train")
    answer = assigned(gpu_nodes(PLACES, FREE), asked).to_object()
    rack = [["example.com/zone", "zone-a"], ["example.com/rack", "rack-2"]]
    assert (answer["name"], answer["topology"], answer["placed"]) == ("train", "network", True)
    assert answer["domain"] == rack
    assert answer["pods"][0] == {
        "name": "w-0",
        "set": "w",
        "rank": 0,
        "node": "n2",
        "numaNodes": [],
        "domain": rack,
    }
    assert answer["why"] == []


# rack-1 ── n0 [8 4], no kubelet aligns there
def test_where_numa_nodes_are_ours_to_choose_a_gang_fills_the_fullest_first() -> None:
    cluster = numa_nodes(places=racks(n0="zone-a/rack-1"), free={"n0": (8, 4)}, policy=NUMAPolicy.NONE)
    answer = assigned(
        cluster, group(podset(name="w", of=pod({"cpu": "4", "memory": "1Gi"}, policy="SingleNUMANode"), count=1))
    )
    assert [each.numa_nodes for each in answer.pods()] == [(1,)]
