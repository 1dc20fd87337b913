"""KAI-Scheduler's docs on topology aware scheduling: one domain for a workload, for its subgroups, for groups of these.

Facts of `docs/topology/README.md` and `multilevel.md`, `docs/developer/designs/topology-awareness` and
`hierarchical-podgroup`, `examples/ray` and `test/e2e/suites/allocate/topology`.
"""

import pytest

from tests.conformance.peers.bed import (
    TOPOLOGY,
    Bed,
    job,
    job_set,
    minimum,
    preferred,
    required,
    template,
    workload,
)

# zone-a ─┬─ a1 ── n0 [1]  n1 [1]        [free CPUs, here and below; of KAI's examples GPUs]
#         ├─ a2 ── n2 [1]
#         ├─ a3 ── n3 [1]
#         └─ a4 ── n4 [1]
# zone-b ─┬─ b1 ── n5 [1]  n6 [1]
#         ├─ b2 ── n7 [1]  n8 [1]
#         └─ b3 ── n9 [1]  n10 [1]
ZONES = {
    "zone-a": {"a1": [1, 1], "a2": [1], "a3": [1], "a4": [1]},
    "zone-b": {"b1": [1, 1], "b2": [1, 1], "b3": [1, 1]},
}


def test_the_zone_with_least_room_is_taken_and_in_it_the_racks_with_most() -> None:
    answer = Bed(ZONES, "zone", "rack").review(job(3, required("zone") | preferred("rack")))
    assert answer.per("zone") == {"zone-a": 3}
    assert sorted(answer.per("rack").values()) == [1, 2]
    assert answer.per("rack")["zone-a/a1"] == 2


# block-1 ── rack-1 ── n0 [1]  n1 [1]
#   -   ────────────── n2 [8]             no label of any level
UNLABELLED = {"block-1": {"rack-1": [1, 1]}, "": {"": [8]}}


@pytest.mark.parametrize(("pods", "verdict"), [(2, "allow"), (3, "wait")])
def test_a_required_level_keeps_off_nodes_without_its_label(pods: int, verdict: str) -> None:
    answer = Bed(UNLABELLED, "block", "rack").review(job(pods, required("rack")))
    assert answer.verdict == verdict
    assert "n2" not in answer.per("node")


# block-1 ─┬─ rack-1 ── n0 [1]
#          └─ rack-2 ── n1 [1]
# block-2 ─── rack-3 ── n2 [2]
BLOCKS = {"block-1": {"rack-1": [1], "rack-2": [1]}, "block-2": {"rack-3": [2]}}


def test_a_preferred_level_falls_back_to_the_one_above() -> None:
    bed = Bed(BLOCKS, "block", "rack")
    assert bed.review(job(2, preferred("rack"))).per("rack") == {"block-2/rack-3": 2}
    bed.with_pod("other", "n2", 1)
    assert bed.review(job(2, preferred("rack"))).per("block") == {"block-1": 2}
    assert len(bed.review(job(3, preferred("rack"))).per("block")) == 2


def test_a_required_level_bounds_the_fallback_of_a_preferred_one() -> None:
    bed = Bed(BLOCKS, "block", "rack").with_pod("other", "n2", 1)
    assert bed.review(job(2, required("block") | preferred("rack"))).per("block") == {"block-1": 2}
    assert bed.review(job(3, required("block") | preferred("rack"))).verdict == "wait"


# zone ─┬─ rack-1 ── n0 [2]  n1 [2]
#       └─ rack-2 ── n2 [2]  n3 [2]
TWO_RACKS = {"zone": {"rack-1": [2, 2], "rack-2": [2, 2]}}


@pytest.mark.parametrize(
    ("asked", "takes", "nodes"),
    [
        (required("rack"), 2, 2),
        (preferred("rack"), 2, 2),
        (required("rack") | preferred("hostname"), 1, 1),
        (required("rack") | preferred("hostname"), 2, 2),
    ],
)
def test_two_pods_of_half_or_whole_nodes_share_a_rack(asked: dict[str, str], takes: int, nodes: int) -> None:
    answer = Bed(TWO_RACKS, "zone", "rack", "hostname").review(job(2, asked, takes))
    assert (len(answer.per("node")), len(answer.per("rack"))) == (nodes, 1)


def test_four_pods_of_whole_nodes_fill_two_racks_of_their_zone() -> None:
    zones = {"zone-a": TWO_RACKS["zone"], "zone-b": TWO_RACKS["zone"]}
    answer = Bed(zones, "zone", "rack").review(job(4, required("zone") | preferred("rack"), 2))
    assert (len(answer.per("zone")), sorted(answer.per("rack").values())) == (1, [2, 2])


# dc ─┬─ zone-a ─┬─ a1 ── n0 [2]  n1 [2]  n2 [2]
#     │          ├─ a2 ── n3 [4]
#     │          └─ a3 ── n4 [2]  n5 [2]  n6 [2]
#     ├─ zone-b ─┬─ b1 ── n7 [4]  n8 [4]
#     │          └─ b2 ── n9 [2]
#     └─ zone-c ─── c1 ── n10 [2]  n11 [4]
DATACENTER = {
    "dc": {
        "zone-a": {"a1": [2, 2, 2], "a2": [4], "a3": [2, 2, 2]},
        "zone-b": {"b1": [4, 4], "b2": [2]},
        "zone-c": {"c1": [2, 4]},
    }
}


@pytest.mark.parametrize(
    ("pods", "level", "sizes"),
    [
        (4, "rack", {"dc/zone-a/a2": 4}),
        (6, "zone", {"dc/zone-c": 6}),
        (8, "zone", {"dc/zone-b": 8}),
        (11, "zone", {"dc/zone-a": 11}),
        (32, "dc", {"dc": 32}),
    ],
)
def test_the_tightest_domain_that_holds_the_gang_is_taken(pods: int, level: str, sizes: dict[str, int]) -> None:
    answer = Bed(DATACENTER, "dc", "zone", "rack").review(job(pods, preferred("rack") | required("dc")))
    assert answer.per(level) == sizes


def test_where_no_zone_holds_the_gang_it_gets_two_with_fewest_racks() -> None:
    """KAI begins with the zone that holds most, and then needs four racks."""
    answer = Bed(DATACENTER, "dc", "zone", "rack").review(job(20, preferred("zone")))
    assert (len(answer.per("zone")), len(answer.per("rack")), len(answer.per("node"))) == (2, 3, 8)


def test_levels_may_be_named_by_their_last_segment() -> None:
    asked = {**required("zone"), **preferred("rack"), "kai.scheduler/topology": TOPOLOGY}
    assert Bed(DATACENTER, "dc", "zone", "rack").review(job(2, asked)).verdict == "allow"


@pytest.mark.parametrize("level", ["required", "preferred"])
def test_a_level_without_a_topology_is_denied(level: str) -> None:
    asked = {f"kai.scheduler/topology-{level}-placement": "rack"}
    assert Bed(DATACENTER, "dc", "zone", "rack").review(job(2, asked)).verdict == "deny"


# zone-a ─┬─ s1 ─┬─ r1 ── n0 [1]
#         │      └─ r2 ── n1 [2]
#         └─ s2 ─── r3 ── n2 [3]
# zone-b ─── s3 ─── r4 ── n3 [3]
SPINES = {"zone-a": {"s1": {"r1": [1], "r2": [2]}, "s2": {"r3": [3]}}, "zone-b": {"s3": {"r4": [3]}}}


def test_subgroups_have_a_rack_each_and_not_all_the_same() -> None:
    a, b = template(required("rack")), template(required("rack"))
    answer = Bed(SPINES, "zone", "spine", "rack").review(job_set({"a": (1, 2, a), "b": (1, 3, b)}))
    assert len(answer.per("rack", "w-a-")) == 1
    assert len(answer.per("rack", "w-b-")) == 1
    assert answer.per("rack", "w-a-") != answer.per("rack", "w-b-")


def test_bare_pods_of_one_group_ask_for_a_rack_each_kind() -> None:
    def pod(name: str, cpus: int) -> dict[str, object]:
        below = template(required("rack") | {"pod-group-name": "sample"}, cpus)
        metadata = below["metadata"] | {"name": name, "namespace": "team"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": below["spec"]}

    answers = Bed(SPINES, "zone", "spine", "rack").review_all([pod("a1", 2), pod("b1", 1)])
    assert [answer.verdict for answer in answers] == ["allow", "allow"]


def test_subgroups_have_a_rack_each_within_one_zone() -> None:
    """In KAI's example two of them share a spine, which no annotation expresses: see unit.engine.gang.test_nested."""
    below = template(required("rack"))
    jobs = {"a": (1, 1, below), "b": (1, 2, below), "c": (1, 3, below)}
    answer = Bed(SPINES, "zone", "spine", "rack").review(job_set(jobs, required("zone")))
    assert answer.per("zone") == {"zone-a": 6}
    assert [list(answer.per("rack", f"w-{name}-").values()) for name in jobs] == [[1], [2], [3]]


def test_head_and_worker_groups_of_a_ray_cluster_have_levels_of_their_own() -> None:
    spec = {
        "headGroupSpec": {"template": template(required("rack") | preferred("hostname"))},
        "workerGroupSpecs": [
            {
                "groupName": "gpu",
                "replicas": 4,
                "minReplicas": 4,
                "template": template(required("zone") | preferred("rack")),
            },
            {"groupName": "free", "replicas": 1, "minReplicas": 1, "template": template()},
        ],
    }
    answer = Bed(SPINES, "zone", "spine", "rack", "hostname").review(workload("RayCluster", "ray.io/v1", spec))
    assert answer.verdict == "allow"
    assert len(answer.per("node")) <= 3
    assert answer.per("zone", "w-gpu-") == {"zone-a": 4}
    assert len(answer.per("rack", "w-gpu-")) == 2


@pytest.mark.parametrize(("minimum_pods", "verdict"), [(None, "wait"), (9, "allow"), (10, "wait")])
def test_a_minimum_starts_as_many_as_there_is_room_for(minimum_pods: int | None, verdict: str) -> None:
    asked = required("zone") | ({} if minimum_pods is None else minimum(minimum_pods))
    answer = Bed({"zone-a": {"r1": [4, 5]}, "zone-b": {"r2": [3]}}, "zone", "rack").review(job(12, asked))
    assert answer.verdict == verdict
    assert answer.per("zone") == ({"zone-a": 9} if verdict == "allow" else {})


def test_a_job_without_level_or_minimum_starts_one_by_one() -> None:
    assert Bed(SPINES, "zone", "spine", "rack").review(job(50)).verdict == "allow"
