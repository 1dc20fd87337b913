"""Kueue's docs on topology aware scheduling, with its annotations written as KAI-Scheduler's, which this service reads.

Facts of `keps/2724-topology-aware-scheduling`, of the site's pages on concepts, set-up and use, and of the examples
those include. Required and preferred topology are required and preferred placement, slices are segments, a pod set
group is a workload whose annotations stand on itself, unconstrained is a minimum without a level.
"""

import pytest

from tests.conformance.peers.bed import (
    GPU,
    Bed,
    Tree,
    job,
    job_set,
    leader_worker_set,
    minimum,
    preferred,
    required,
    segments,
    template,
    training,
)

# block-1 ─┬─ rack-1 ── n0 [1]
#          └─ rack-2 ── n1 [1]
# block-2 ─┬─ rack-1 ── n2 [1]
#          └─ rack-3 ── n3 [1]
BLOCKS = {"block-1": {"rack-1": [1], "rack-2": [1]}, "block-2": {"rack-1": [1], "rack-3": [1]}}


def test_racks_of_one_name_in_two_blocks_are_two() -> None:
    bed = Bed(BLOCKS, "block", "rack")
    assert bed.review(job(2, required("rack"))).verdict == "wait"
    assert len(bed.review(job(2, required("block"))).per("block")) == 1


def test_room_is_what_other_pods_leave_on_nodes_that_are_ready_and_schedulable() -> None:
    bed = Bed({"b": {"r1": [4], "r2": [4], "r3": [4], "r4": [4]}}, "block", "rack")
    bed.changed("n0", status={"conditions": [{"type": "Ready", "status": "False"}]})
    bed.changed("n1", spec={"unschedulable": True})
    bed.with_pod("daemon", "n2", 1)
    assert bed.review(job(4, required("rack"))).per("rack") == {"b/r4": 4}
    bed.with_pod("other", "n3", 2)
    assert bed.review(job(3, required("rack"))).per("rack") == {"b/r3": 3}
    assert bed.review(job(4, required("rack"))).verdict == "wait"


# block-1 ─┬─ rack-1 ── n0 [2]
#          └─ rack-2 ── n1 [2]
# block-2 ─── rack-3 ── n2 [2]
@pytest.mark.parametrize(("pods", "racks", "blocks"), [(2, 1, 1), (4, 2, 1), (5, 3, 2)])
def test_a_preferred_level_is_tried_first_then_those_above_it_then_several(pods: int, racks: int, blocks: int) -> None:
    bed = Bed({"block-1": {"rack-1": [2], "rack-2": [2]}, "block-2": {"rack-3": [2]}}, "block", "rack")
    answer = bed.review(job(pods, preferred("rack")))
    assert (len(answer.per("rack")), len(answer.per("block"))) == (racks, blocks)


# b1 ─┬─ r1 ── n0 [7]  n1 [7]
#     └─ r2 ── n2 [7]  n3 [7]
# b2 ─┬─ r1 ── n4 [7]  n5 [7]
#     └─ r2 ── n6 [7]  n7 [7]
def test_a_required_a_preferred_and_an_unconstrained_job_fill_a_cluster() -> None:
    tree = {block: {"r1": [7, 7], "r2": [7, 7]} for block in ("b1", "b2")}
    bed = Bed(tree, "block", "rack", "hostname")
    in_rack = bed.review(job(10, required("rack"), name="first"))
    assert (len(in_rack.per("rack")), sorted(in_rack.per("node").values())) == (1, [3, 7])
    spread = bed.with_answer(in_rack).review(job(40, preferred("block"), name="second"))
    assert len(spread.per("block")) == 2
    refused = bed.with_answer(spread).review(job(10, required("rack"), name="third"))
    assert refused.verdict == "wait"
    assert [(short["holds"], short["needed"]) for short in refused.group["why"]] == [(4, 10)]
    gaps = bed.review(job(6, minimum(6), name="fourth"))
    assert gaps.per("node") == {"n1": 4, "n7": 2}


@pytest.mark.parametrize(
    ("room", "pods", "size", "taken"),
    [
        # The largest nodes, the last one as tight as can be.
        ([3, 3, 2, 1], 7, 1, [3, 3, 0, 1]),
        # The same in segments of two: of nodes that hold equally many segments those with least room.
        ([6, 5, 4, 3, 2], 12, 2, [6, 0, 4, 0, 2]),
        # Not balanced: the last node may get few.
        ([10, 10], 12, 1, [10, 2]),
    ],
)
def test_the_fewest_nodes_are_taken_and_of_these_the_tightest(
    room: list[int], pods: int, size: int, taken: list[int]
) -> None:
    asked = required("rack") | (segments(size, "hostname") if size > 1 else {})
    answer = Bed({"b": {"r": room}}, "block", "rack", "hostname").review(job(pods, asked))
    assert [answer.per("node").get(f"n{node}", 0) for node in range(len(room))] == taken


# The clusters of Kueue's balanced placement, one block of racks of nodes each, and how few racks and nodes it takes.
@pytest.mark.parametrize(
    ("racks", "pods", "size", "most_racks", "most_nodes"),
    [
        ([[15], [15]], 25, 1, 2, 2),
        ([[15, 13, 10]], 23, 1, 1, 2),
        ([[20, 10], [15, 15]], 22, 1, 1, 2),
        ([[20, 10], [15, 15]], 20, 1, 1, 1),
        ([[10, 5], [5, 5, 5]], 15, 1, 1, 3),
        ([[15], [15], [15, 15]], 25, 5, 1, 2),
    ],
)
def test_no_more_racks_or_nodes_than_a_balanced_placement(
    racks: list[list[int]], pods: int, size: int, most_racks: int, most_nodes: int
) -> None:
    tree: Tree = {"b": {f"r{number}": nodes for number, nodes in enumerate(racks)}}
    asked = preferred("rack") | (segments(size, "hostname") if size > 1 else {})
    answer = Bed(tree, "block", "rack", "hostname").review(job(pods, asked))
    assert len(answer.per("rack")) <= most_racks
    assert len(answer.per("node")) <= most_nodes


BALANCED = {"topology-webhook.dev/strategy": "Balanced"}


# The assignments that the KEP gives for a balanced placement, blocks of racks of nodes each.
@pytest.mark.parametrize(
    ("blocks", "pods", "size", "counts"),
    [
        ([[[15], [15]]], 25, 1, [13, 12]),
        ([[[15, 13, 10]]], 23, 1, [12, 11, 0]),
        ([[[20, 10], [15, 15]]], 22, 1, [0, 0, 11, 11]),
        ([[[20, 10], [15, 15]]], 20, 1, [20, 0, 0, 0]),
        ([[[10, 5], [5, 5, 5]]], 15, 1, [0, 0, 5, 5, 5]),
        ([[[15], [15]], [[15, 15]]], 25, 1, [0, 0, 13, 12]),
        ([[[15], [15], [15, 15]]], 25, 5, [0, 0, 15, 10]),
    ],
)
def test_balanced_gives_the_counts_of_a_balanced_placement(
    blocks: list[list[list[int]]], pods: int, size: int, counts: list[int]
) -> None:
    tree: Tree = {
        f"b{block}": {f"r{number}": nodes for number, nodes in enumerate(racks)} for block, racks in enumerate(blocks)
    }
    asked = preferred("rack") | BALANCED | (segments(size, "hostname") if size > 1 else {})
    answer = Bed(tree, "block", "rack", "hostname").review(job(pods, asked))
    assert [answer.per("node").get(f"n{node}", 0) for node in range(len(counts))] == counts


# block ─┬─ r1 ── n0 [8]  n1 [8]
#        └─ r2 ── n2 [8]  n3 [8]
@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        (required("block"), [4, 8, 8]),
        (required("block") | BALANCED, [5, 5, 5, 5]),
        (required("block") | segments(4, "rack"), [4, 8, 8]),
        (required("block") | segments(4, "rack") | BALANCED, [6, 6, 8]),
    ],
)
def test_counts_are_even_at_the_segments_level_and_below(asked: dict[str, str], counts: list[int]) -> None:
    bed = Bed({"b": {"r1": [8, 8], "r2": [8, 8]}}, "block", "rack", "hostname")
    assert sorted(bed.review(job(20, asked)).per("node").values()) == counts


def test_leader_and_workers_are_balanced_by_themselves() -> None:
    bed = Bed({"b": {"r1": [10, 10]}}, "block", "rack", "hostname")
    asked = required("rack") | BALANCED
    answer = bed.review(training("PyTorchJob", asked, Master=(1, template()), Worker=(12, template(takes=1))))
    assert sorted(answer.per("node").values()) == [6, 7]


def test_a_block_in_which_one_rack_holds_all_is_preferred() -> None:
    tree = {"b1": {"r1": [15], "r2": [15]}, "b2": {"r1": [15, 15]}}
    assert Bed(tree, "block", "rack", "hostname").review(job(25, preferred("rack"))).per("rack") == {"b2/r1": 25}


# block ─┬─ rack-1 ── 4 nodes [8]
#        └─ rack-2 ── 4 nodes [8]         twice
def test_slices_of_slices_fill_a_block() -> None:
    """Slices of 32 pods in a block, and in each of them slices of 16 in a rack: segments inside segments."""
    tree = {block: {"r1": [8] * 4, "r2": [8] * 4} for block in ("b1", "b2")}
    layers = segments("32,16", "block,rack")
    answer = Bed(tree, "block", "rack", "hostname").review(job(64, required("block") | layers))
    assert (len(answer.per("block")), list(answer.per("rack").values())) == (1, [32, 32])
    assert list(answer.per("node").values()) == [8] * 8
    assert len(answer.segments("rack", 16)) == 4


def test_ten_pods_of_four_cpus_share_a_rack() -> None:
    tree = {"b": {"r1": [16, 16], "r2": [16, 16, 8]}}
    assert Bed(tree, "block", "rack").review(job(10, required("rack"), 4)).per("rack") == {"b/r2": 10}


# b ─┬─ r1 ── n0 [1]  n1 [1]
#    ├─ r2 ── n2 [2]
#    └─ r3 ── n3 [2]
def test_a_leader_requires_a_rack_and_the_workers_prefer_one() -> None:
    bed = Bed({"b": {"r1": [1, 1], "r2": [2], "r3": [2]}}, "block", "rack", "hostname")
    jobs = {"leader": (1, 1, template(required("rack"))), "workers": (2, 2, template(preferred("rack")))}
    answer = bed.review(job_set(jobs))
    assert (len(answer.per("rack", "w-leader-")), len(answer.per("rack", "w-workers-"))) == (1, 2)


@pytest.mark.parametrize("block", [{}, required("block"), preferred("block")])
def test_each_job_of_a_replicated_job_is_on_one_host(block: dict[str, str]) -> None:
    # b1 ── r1 ── n0 [4]  n1 [3]  n2 [3]
    # b2 ── r2 ── n3 [5]  n4 [4]
    bed = Bed({"b1": {"r1": [4, 3, 3]}, "b2": {"r2": [5, 4]}}, "block", "rack", "hostname")
    jobs = {
        "leader": (1, 1, template(required("block"))),
        "workers": (2, 4, template(block | segments(4, "hostname"))),
    }
    answer = bed.review(job_set(jobs))
    hosts = answer.segments("node", 4, "w-workers-")
    assert len(hosts) == 2
    if block:
        assert answer.per("block", "w-workers-") == {"b2": 8}


# b1 ─┬─ r1 ── n0 [4]  n1 [2]
#     └─ r2 ── n2 [3]
# b2 ─── r3 ── n3 [4]
SAMPLES = {"b1": {"r1": [4, 2], "r2": [3]}, "b2": {"r3": [4]}}


def test_a_replicated_job_is_in_one_rack() -> None:
    answer = Bed(SAMPLES, "block", "rack").review(job_set({"workers": (1, 4, template(required("rack")))}))
    assert len(answer.per("rack")) == 1


def test_slices_may_be_in_several_blocks_unless_one_is_required() -> None:
    bed = Bed(SAMPLES, "block", "rack")
    answer = bed.review(job_set({"workers": (1, 8, template(segments(4, "rack")))}))
    assert answer.segments("rack", 4) == ["b1/r1", "b2/r3"]
    in_block = job_set({"workers": (1, 8, template(required("block") | segments(4, "rack")))})
    assert bed.review(in_block).verdict == "wait"
    larger = SAMPLES | {"b2": {"r3": [4], "r4": [4]}}
    assert Bed(larger, "block", "rack").review(in_block).segments("rack", 4) == ["b2/r3", "b2/r4"]


@pytest.mark.parametrize("level", ["hostname", "rack"])
def test_a_leader_and_its_workers_share_a_domain_and_each_replica_has_its_own(level: str) -> None:
    # r1 ── n0 [3 CPUs 2 GPUs]    r2 ── n1 [3 CPUs 2 GPUs]    r3 ── n2 [8 CPUs]
    nodes = {"cpu": 3, GPU: 2}
    bed = Bed({"b": {"r1": [nodes], "r2": [nodes], "r3": [8]}}, "block", "rack", "hostname")
    workers = template(takes={"cpu": "200m", GPU: 1})
    asked = leader_worker_set(2, 3, workers, required(level), template(takes={"cpu": "100m"}))
    answer = bed.review(asked)
    assert answer.per("rack", "w-0") != answer.per("rack", "w-1")
    assert [len(answer.per("node", f"w-{replica}")) for replica in (0, 1)] == [1, 1]
    assert bed.with_pod("other", "n0", {GPU: 1}).review(asked).verdict == "wait"


@pytest.mark.parametrize("leader", [True, False])
def test_pods_of_neighbouring_ranks_are_neighbours(leader: bool) -> None:
    # r1 ── n0 [2]    r2 ── n1 [2]    r3 ── n2 [2]
    bed = Bed({"b": {"r1": [2], "r2": [2], "r3": [2]}}, "block", "rack", "hostname")
    asked = leader_worker_set(1, 5, template(), required("block"), template() if leader else None)
    answer = bed.review(asked)
    racks = [answer.domain("rack", pod) for pod in ("w-0-1", "w-0-2", "w-0-3", "w-0-4")]
    assert len(answer.per("rack")) == 3
    assert racks == sorted(racks)


def test_a_launcher_that_works_comes_before_the_workers() -> None:
    # r1 ── n0 [3]    r2 ── n1 [2]
    bed = Bed({"b": {"r1": [3], "r2": [2]}}, "block", "rack", "hostname")
    launcher, workers = (1, template()), (4, template())
    answer = bed.review(training("MPIJob", required("block"), Launcher=launcher, Worker=workers))
    racks = [answer.domain("rack", pod) for pod in ("w-launcher", *(f"w-worker-{index}" for index in range(4)))]
    assert racks == sorted(racks)


def test_the_workers_of_a_workload_share_a_rack_within_the_block_of_all() -> None:
    # b1 ── r1 ── n0 [4]           b2 ─┬─ r2 ── n1 [4]
    #                                  └─ r3 ── n2 [1]
    bed = Bed({"b1": {"r1": [4]}, "b2": {"r2": [4], "r3": [1]}}, "block", "rack")
    jobs = {"driver": (1, 1, template()), "workers": (2, 2, template(required("rack")))}
    answer = bed.review(job_set(jobs, required("block")))
    assert answer.per("rack") == {"b2/r3": 1, "b2/r2": 4}


def test_a_gang_holds_nodes_and_leaves_the_other_racks_of_its_block_to_others() -> None:
    bed = Bed({"block-1": {"rack-1": [1], "rack-2": [1], "rack-3": [1]}}, "block", "rack")
    first = bed.review(job(2, required("block"), name="first"))
    second = bed.with_answer(first).review(job(1, required("rack"), name="second"))
    assert len(first.per("rack")) == 2
    assert not first.per("rack").keys() & second.per("rack").keys()


@pytest.mark.parametrize(
    "asked",
    [
        required("no-level"),
        preferred("no-level"),
        segments(2, "no-level"),
        segments(None, "rack"),
        segments(0, "rack"),
        required("rack") | preferred("block"),
    ],
)
def test_what_cannot_be_meant_is_denied(asked: dict[str, str]) -> None:
    assert Bed(SAMPLES, "block", "rack").review(job(2, asked)).verdict == "deny"


# rack-1 ── n0 [32]  n1 [32]
# rack-2 ── n2 [32]  n3 [32]
ONE_A_NODE = {"rack-1": [32, 32], "rack-2": [32, 32]}


@pytest.mark.parametrize(
    ("pods", "size", "racks", "held", "needed"),
    [
        (3, 2, [1, 2], None, ""),
        # No rack holds three of these pods: one, the last segment, is all that the cluster holds.
        (4, 3, None, (1, 4), "60 cpu in one rack for each of 1 more segment"),
        # What is missing is the last segment, which has one pod.
        (5, 2, None, (4, 5), "20 cpu in one rack for the last segment"),
    ],
)
def test_a_smaller_last_slice_counts_with_its_own_pods(
    pods: int, size: int, racks: list[int] | None, held: tuple[int, int] | None, needed: str
) -> None:
    """As in kubernetes-sigs/kueue#15640."""
    answer = Bed(ONE_A_NODE, "rack").review(job(pods, segments(size, "rack"), 20))
    assert answer.verdict == ("wait" if racks is None else "allow")
    if racks is not None:
        assert sorted(answer.per("rack").values()) == racks
        return
    short = answer.group["why"][0]
    assert (short["holds"], short["needed"]) == held
    assert needed in answer.message
