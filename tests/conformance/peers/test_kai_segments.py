"""KAI-Scheduler's docs and pod grouper on segments: equal parts of a role, each within one domain of a level.

Facts of `docs/developer/designs/segmented-subgroups` and `min-subgroups`, and of the tests of the groupers of
PyTorchJobs and LeaderWorkerSets.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.peers.bed import (
    NOTHING,
    TOPOLOGY,
    Bed,
    ReviewAnswer,
    job,
    job_set,
    leader_worker_set,
    required,
    segments,
    template,
    training,
    workload,
)

# zone-a ─┬─ r1 ── n0 [5]  n1 [4]
#         └─ r2 ── n2 [4]  n3 [2]
# zone-b ─┬─ r3 ── n4 [4]
#         └─ r4 ── n5 [4]  n6 [3]
RACKS = {"zone-a": {"r1": [5, 4], "r2": [4, 2]}, "zone-b": {"r3": [4], "r4": [4, 3]}}
# One zone of the same, and room for 19 in the other.
LARGE = {"zone-a": {"r1": [5, 4], "r2": [4, 2]}, "zone-b": {"r3": [4, 4], "r4": [4, 3], "r5": [4]}}
FOUR_IN_RACK = segments(4, "rack")


def test_sixteen_pods_are_four_segments_of_four_in_a_rack_each() -> None:
    answer = Bed(RACKS, "zone", "rack").review(job(16, FOUR_IN_RACK))
    assert len(answer.segments("rack", 4)) == 4
    assert len(answer.per("zone")) == 2


def test_and_all_within_one_zone_where_that_is_required() -> None:
    assert Bed(RACKS, "zone", "rack").review(job(16, required("zone") | FOUR_IN_RACK)).verdict == "wait"
    answer = Bed(LARGE, "zone", "rack").review(job(16, required("zone") | FOUR_IN_RACK))
    assert len(answer.segments("rack", 4)) == 4
    assert answer.per("zone") == {"zone-b": 16}


@pytest.mark.parametrize("on_template", [False, True])
def test_the_annotations_stand_on_the_workload_or_its_template(on_template: bool) -> None:
    asked, below = (NOTHING, FOUR_IN_RACK) if on_template else (FOUR_IN_RACK, NOTHING)
    assert len(Bed(RACKS, "zone", "rack").review(job(16, asked, on_template=below)).segments("rack", 4)) == 4


def without_topology(asked: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in asked.items() if key != "kai.scheduler/topology"}


def test_of_a_job_of_three_types_the_workers_alone_are_in_segments() -> None:
    """The workload names the topology, and requires a zone for all types."""
    workers = template(without_topology(FOUR_IN_RACK))
    asked = training("TFJob", required("zone"), Chief=(1, template()), PS=(2, template()), Worker=(16, workers))
    answer = Bed(LARGE, "zone", "rack").review(asked)
    assert answer.per("zone") == {"zone-b": 19}
    assert len(answer.segments("rack", 4, "w-worker-")) == 4
    assert Bed(RACKS, "zone", "rack").review(asked).verdict == "wait"


def test_segments_of_a_worker_type_need_nothing_on_the_workload() -> None:
    asked = training("PyTorchJob", Master=(1, template()), Worker=(4, template(segments(2, "rack"))))
    assert len(Bed({"z": {"r1": [3], "r2": [2]}}, "zone", "rack").review(asked).segments("rack", 2, "w-worker-")) == 2


# One rack more than a segment each, so that no two segments share one.
@pytest.mark.parametrize(("workers", "sizes"), [(4, [2, 2]), (5, [2, 2, 1]), (1, [1])])
def test_the_last_segment_may_be_smaller(workers: int, sizes: list[int]) -> None:
    bed = Bed({"z": {f"r{number}": [1, 1] for number in range(4)}}, "zone", "rack")
    asked = training("PyTorchJob", Master=(1, template()), Worker=(workers, template(segments(2, "rack"))))
    answer = bed.review(asked)
    racks = answer.segments("rack", 2, "w-worker-")
    assert len(racks) == len(sizes)
    assert [answer.per("rack", "w-worker-")[rack] for rack in racks] == sizes


@pytest.mark.parametrize(
    ("racks", "assigned"),
    [
        ([12], 12),
        ([4, 4, 4], 12),
        ([4, 4, 4, 3], 12),
        ([4, 4, 4, 4], 16),
        ([8, 12], 20),
        ([4, 4, 3], 0),
        ([5, 5, 1, 1], 0),
    ],
)
def test_segments_beyond_the_minimum_are_elastic(racks: list[int], assigned: int) -> None:
    """12 of 20 must start: three segments of four. Of the other two, as many pods start as there is room for."""
    tree = {"z": {f"r{number}": [room] for number, room in enumerate(racks)}}
    asked = training("PyTorchJob", minimum_pods=12, Worker=(20, template(FOUR_IN_RACK)))
    answer = Bed(tree, "zone", "rack").review(asked)
    assert (answer.verdict, len(answer.nodes)) == ("allow" if assigned else "wait", assigned)
    assert len(answer.segments("rack", 4)) == assigned // 4


def test_a_preferred_level_of_segments_is_no_condition() -> None:
    bed = Bed({"z": {"r1": [3], "r2": [3], "r3": [2]}}, "zone", "rack")
    assert bed.review(job(8, segments(4, "rack"))).verdict == "wait"
    assert bed.review(job(8, segments(4, "", "rack"))).verdict == "allow"
    answer = bed.review(job(6, segments(3, "zone", "rack")))
    assert sorted(answer.segments("rack", 3)) == ["z/r1", "z/r2"]


def test_the_template_names_the_topology_before_the_workload() -> None:
    above = {"kai.scheduler/topology": "another"}
    assert Bed(RACKS, "zone", "rack").review(job(4, above, on_template=FOUR_IN_RACK)).verdict == "allow"
    workers = template(FOUR_IN_RACK)
    asked = training("PyTorchJob", above, Master=(1, template()), Worker=(4, workers))
    assert Bed(RACKS, "zone", "rack").review(asked).verdict == "allow"


@pytest.mark.parametrize("size", ["four", "0", "-2", "1.5"])
def test_a_size_that_is_none_is_denied(size: str) -> None:
    workers = template(FOUR_IN_RACK | {"kai.scheduler/segment-size": size})
    answer = Bed(RACKS, "zone", "rack").review(training("PyTorchJob", Worker=(4, workers)))
    assert answer.verdict == "deny"
    assert "segment-size" in answer.message


def replica_set(
    size: int, segment: int, leader: bool, in_spec: bool, excluded: bool = False, replicas: int = 1
) -> dict[str, Any]:
    """A LeaderWorkerSet with its segments' size in the spec or in an annotation, and their level on the workers."""
    asked = segments(None if in_spec else segment, "rack")
    policy = {"subGroupSize": segment, "subGroupPolicyType": "LeaderExcluded" if excluded else "LeaderWorker"}
    above = template() if leader else None
    return leader_worker_set(replicas, size, template(asked), leader=above, policy=policy if in_spec else None)


@pytest.mark.parametrize("leader", [True, False])
@pytest.mark.parametrize("in_spec", [True, False])
@pytest.mark.parametrize(
    ("size", "segment", "sizes"),
    [
        # The leader beside two workers, two workers.
        (5, 2, [3, 2]),
        # The leader and one worker, two workers.
        (4, 2, [2, 2]),
        # The leader and two workers, and what is left.
        (5, 3, [3, 2]),
        (9, 4, [5, 4]),
        (8, 4, [4, 4]),
    ],
)
def test_the_leader_is_in_the_first_segment(
    size: int, segment: int, sizes: list[int], leader: bool, in_spec: bool
) -> None:
    # Racks that hold exactly a segment each.
    tree = {"z": {f"r{number}": [room] for number, room in enumerate(sizes)}}
    answer = Bed(tree, "zone", "rack").review(replica_set(size, segment, leader, in_spec))
    assert answer.verdict == "allow", answer.message
    names = ["w-0", *(f"w-0-{index}" for index in range(1, size))]
    assert racks_of(answer, names[: sizes[0]]) == {"z/r0"}
    assert racks_of(answer, names[sizes[0] :]) == {"z/r1"}


@pytest.mark.parametrize("leader", [True, False])
def test_an_excluded_leader_is_in_no_segment(leader: bool) -> None:
    tree = {"z": {"r0": [2], "r1": [2], "r2": [1]}}
    answer = Bed(tree, "zone", "rack").review(replica_set(5, 2, leader, in_spec=True, excluded=True))
    assert racks_of(answer, ["w-0"]) == {"z/r2"}
    assert len(racks_of(answer, ["w-0-1", "w-0-2"])) == len(racks_of(answer, ["w-0-3", "w-0-4"])) == 1


def racks_of(answer: ReviewAnswer, pods: list[str]) -> set[str]:
    return {answer.domain("rack", pod) for pod in pods}


def test_each_replica_is_a_gang_of_its_own() -> None:
    tree = {"z": {"r0": [3], "r1": [2], "r2": [3], "r3": [2]}}
    answer = Bed(tree, "zone", "rack").review(replica_set(5, 2, leader=True, in_spec=True, replicas=2))
    assert answer.verdict == "allow"
    for replica in ("w-0", "w-1"):
        assert len(racks_of(answer, [replica, f"{replica}-1", f"{replica}-2"])) == 1
        assert len(racks_of(answer, [f"{replica}-3", f"{replica}-4"])) == 1


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster"])
def test_one_role_of_any_workload_may_be_in_segments(kind: str) -> None:
    """In KAI-Scheduler these kinds have no index, unless an annotation names a label with it."""
    workers = template(segments(2, "rack") | {"kai.scheduler/pod-index-label": "example.com/index"})
    if kind == "JobSet":
        asked = job_set({"lead": (1, 1, template()), "worker": (2, 2, workers)})
    else:
        groups = [{"groupName": "worker", "replicas": 4, "minReplicas": 4, "template": workers}]
        spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
        asked = workload(kind, "ray.io/v1", spec)
    answer = Bed({"z": {"r1": [3], "r2": [2]}}, "zone", "rack").review(asked)
    assert len(answer.segments("rack", 2, "w-worker-")) == 2


def test_leaders_and_workers_of_two_parts_start_all_together() -> None:
    """Ten pods: each part has a leader and four workers."""
    parts = {
        f"{part}-{role}": (1, pods, template())
        for part in ("decode", "prefill")
        for role, pods in (("lead", 1), ("work", 4))
    }
    asked = job_set(parts, {"kai.scheduler/topology": TOPOLOGY})
    assert len(Bed({"z": {"r1": [4, 6]}}, "zone", "rack").review(asked).nodes) == 10
    assert Bed({"z": {"r1": [4, 5]}}, "zone", "rack").review(asked).verdict == "wait"


def test_three_of_four_replicas_start_where_there_is_no_room_for_the_fourth() -> None:
    """KAI counts subgroups. Here each replica is a gang, and no replica waits for another."""
    tree = {
        "z": {
            "r1": [8],
            "r2": [8],
            "r3": [
                8,
            ],
            "r4": [7],
        }
    }
    asked = leader_worker_set(4, 8, template(), required("rack"))
    answer = Bed(tree, "zone", "rack").review(asked)
    assert [gang["placed"] for gang in answer.group["gangs"]] == [True, True, True, False]
