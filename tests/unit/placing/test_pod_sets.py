"""A gang's members as sets, parts and segments: how many go together, and where each continues once it has begun."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.gangs import LEVELS, TOPOLOGY, racks, whole_nodes
from tests.builders.pods import gated
from tests.builders.workloads import of, owned
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember, wishes_of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import (
    JOB_COMPLETION_INDEX,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    LWS_GROUP_INDEX,
    LWS_WORKER_INDEX,
    POD_GROUP_NAME,
)
from webhook.placing.gang.gang_agreement import agree, minimum_of
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.pod_sets import Assembled, Assembly, ranks_of
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

DC = Topology("dc", TopologySource.KAI, (Level("example.com/row"), Level("example.com/rack")))
ROW = {KAI_TOPOLOGY: "dc", KAI_REQUIRED_PLACEMENT: "row"}
RACK = {KAI_TOPOLOGY: "dc", KAI_REQUIRED_PLACEMENT: "rack"}
CONTAINER = {"containers": [{"name": "main"}]}


def member(name: str, annotations: dict[str, str], owner_chain: OwnerChain | None = None, **more: Any) -> GatedPod:
    raw = gated(name=name, **more)
    raw["metadata"]["annotations"] |= annotations
    return GatedPod.from_object(raw, owner_chain)


def group(*members: GatedPod, minimum: int = 1) -> Gang:
    (gang,) = units_of(members)
    assert isinstance(gang, GatedGang)
    snapshot = cluster_snapshot().nodes
    assembled = Assembly(gang.members, DC, {}).run(minimum, snapshot, TopologyTrees().tree(DC, snapshot.node_arrays))
    assert isinstance(assembled, Assembled)
    return assembled.gang


def roles_of(master: dict[str, str] | None = None, /, **annotations: str) -> OwnerChain:
    worker = {"metadata": {"annotations": RACK}, "spec": CONTAINER}
    replicas = {
        "Master": {"replicas": 1, "template": {"metadata": {"annotations": master or {}}, "spec": CONTAINER}},
        "Worker": {"replicas": 3, "template": worker},
    }
    return of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **annotations))


def test_a_role_that_asks_for_a_level_itself_is_a_part_within_what_all_ask() -> None:
    owner_chain = roles_of(**ROW)
    master = member("w-master-0", {}, owner_chain)
    workers = [member(f"w-worker-{index}", RACK, owner_chain) for index in range(3)]
    whole = group(*workers, master, minimum=4)
    # levels of the tree: 0 is the cluster
    assert (whole.constraint.required, [podset.name for podset in whole.sets]) == (1, ["w-master-0"])
    (part,) = whole.subgroups
    assert part.constraint.required == 2
    assert [one.rank for one in part.sets[0].members] == [1, 2, 3]
    assert sum(podset.minimum for podset in whole.all_sets()) == 4


def test_what_all_members_ask_alike_bounds_them_together() -> None:
    owner_chain = roles_of()
    whole = group(*(member(f"w-worker-{index}", RACK, owner_chain) for index in range(3)))
    assert (whole.constraint.required, whole.subgroups) == (2, ())


def test_roles_whose_templates_ask_for_the_same_level_have_a_domain_each_as_review_says() -> None:
    owner_chain = roles_of(RACK)
    workers = [member(f"w-worker-{index}", RACK, owner_chain) for index in range(3)]
    whole = group(*workers, member("w-master-0", RACK, owner_chain), minimum=4)
    assert (whole.constraint.required, whole.sets) == (None, ())
    parts = [(part.constraint.required, [one.name for one in part.sets[0].members]) for part in whole.subgroups]
    assert parts == [(2, ["w-master-0"]), (2, ["w-worker-0", "w-worker-1", "w-worker-2"])]


def test_members_without_owners_that_ask_differently_are_bound_by_what_no_two_differ_in() -> None:
    named = {"pod-group-name": "g"}
    whole = group(member("a", {**named, **ROW}), member("b", {**named, **RACK}))
    assert whole.constraint.required is None
    assert sorted(part.constraint.required or 0 for part in whole.subgroups) == [1, 2]


def test_a_group_by_another_name_than_its_owners_waits_for_as_many_as_it_says() -> None:
    asked = {"pod-group-name": "g", "topology-webhook.dev/min-member": "9"}
    assert minimum_of(member("a", asked, roles_of(**ROW))) == 9
    assert minimum_of(member("a", {"topology-webhook.dev/min-member": "9"}, roles_of(**ROW))) == 4
    assert minimum_of(member("a", {}, roles_of(**ROW))) == 4


def test_a_members_segments_are_its_own_whoever_comes_first() -> None:
    named = {"pod-group-name": "g", KAI_TOPOLOGY: "dc", KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}
    others = [member(f"b{index}", {**named, KAI_SEGMENT_SIZE: "2"}) for index in range(4)]
    whole = group(member("a-0", {**named, KAI_SEGMENT_SIZE: "3"}), *others)
    sizes = {one.name: podset.segments.size for podset in whole.sets if podset.segments for one in podset.members}
    assert sizes == {"a-0": 3, "b0": 2, "b1": 2, "b2": 2, "b3": 2}


def ranked(name: str, rank: str, created: int = 0) -> GatedPod:
    raw = gated(name=name, second=created, group="g")
    raw["metadata"]["labels"] = {JOB_COMPLETION_INDEX: rank}
    return GatedPod.from_object(raw)


def test_a_rank_that_is_taken_is_no_others_and_one_beyond_any_cluster_is_none() -> None:
    pods = [
        ranked("first", "0"),
        ranked("forged", "0", created=9),
        ranked("vast", "9" * 18),
        ranked("longer", "9" * 10_000),
        ranked("running", "3"),
    ]
    ranks = ranks_of(pods, [AssignedMember("n0", 3)])
    assert {key.partition("/")[2]: rank for key, rank in ranks.items()} == {
        "first": 0,
        "forged": 1,
        "longer": 2,
        "running": 4,
        "vast": 5,
    }


TOPOLOGIES = {TOPOLOGY.name: TOPOLOGY}
IN_RACK = {KAI_TOPOLOGY: TOPOLOGY.name, KAI_SEGMENT_REQUIRED_PLACEMENT: LEVELS[1]}
PAIRS = {**IN_RACK, KAI_SEGMENT_SIZE: "2"}
NONE: Mapping[str, AssignedMember] = {}


def template(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "spec": CONTAINER}


def leader_worker_set(size: int, policy: str, **annotations: str) -> OwnerChain:
    """A LeaderWorkerSet as KAI-Scheduler documents it: the segments' size in its spec, their level on a template."""
    sub_groups = {"subGroupSize": 2, "subGroupPolicyType": policy}
    below = {"size": size, "workerTemplate": template(**IN_RACK), "subGroupPolicy": sub_groups}
    spec = {"replicas": 1, "leaderWorkerTemplate": below}
    return of(owned("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec, **annotations))


def worker_of_set(index: int, owner_chain: OwnerChain) -> GatedPod:
    raw = gated(name="w-0" if index == 0 else f"w-0-{index}", cpu="1")
    raw["metadata"]["annotations"] = dict(IN_RACK)
    raw["metadata"]["labels"] = {LWS_GROUP_INDEX: "0", LWS_WORKER_INDEX: str(index)}
    return GatedPod.from_object(raw, owner_chain)


def training() -> OwnerChain:
    """A master, and workers in segments of two."""
    replicas = {
        "Master": {"replicas": 1, "template": template(**{KAI_TOPOLOGY: TOPOLOGY.name})},
        "Worker": {"replicas": 4, "template": template(**PAIRS)},
    }
    return of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}))


def of_training(name: str, owner_chain: OwnerChain) -> GatedPod:
    raw = gated(name=f"w-{name}", cpu="1")
    raw["metadata"]["annotations"] = dict(PAIRS) if name.startswith("worker") else {KAI_TOPOLOGY: TOPOLOGY.name}
    return GatedPod.from_object(raw, owner_chain)


def rack_of_each(
    members: list[GatedPod], rooms: list[int], assigned_members: Mapping[str, AssignedMember] = NONE
) -> dict[str, str]:
    """Where members go in a zone of racks of one node each, rack-0 with so much room and so on."""
    assignments = racks(**{f"n{number}": f"zone-a/rack-{number}" for number in range(len(rooms))})
    snapshot = Snapshot(
        whole_nodes(
            places=assignments, free={f"n{number}": {"cpu": 1000 * room} for number, room in enumerate(rooms)}
        ).node_arrays()
    )
    (gang,) = units_of(members)
    assert isinstance(gang, GatedGang)
    agreement = agree(gang, assigned_members, TOPOLOGIES)
    assert not agreement.disagreeing
    tree = TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    minimum = max(1, min(agreement.minimum - len(assigned_members), len(members)))
    assembled = Assembly(agreement.gang.members, TOPOLOGY, assigned_members).run(minimum, snapshot, tree)
    assert isinstance(assembled, Assembled)
    placement = assign_gang(snapshot, tree, assembled.gang)
    return {pod.name: pod.domain[1][1] for pod in placement.pods()} if placement.assigned else {}


@pytest.mark.parametrize(
    ("size", "policy", "rooms", "together"),
    [
        # The leader beside two workers, two workers.
        (5, "LeaderWorker", [3, 2], [{0, 1, 2}, {3, 4}]),
        # The leader beside one worker, two workers.
        (4, "LeaderWorker", [2, 2], [{0, 1}, {2, 3}]),
        # The leader alone, two workers, two workers.
        (5, "LeaderExcluded", [2, 1, 2], [{0}, {1, 2}, {3, 4}]),
    ],
)
def test_the_segments_of_a_leader_worker_set_are_those_of_its_spec(
    size: int, policy: str, rooms: list[int], together: list[set[int]]
) -> None:
    owner_chain = leader_worker_set(size, policy)
    members = [worker_of_set(index, owner_chain) for index in range(size)]
    found = rack_of_each(members, rooms)
    parts: dict[str, set[int]] = {}
    for index, gated_pod in enumerate(members):
        parts.setdefault(found[gated_pod.pod.name], set()).add(index)
    assert sorted(parts.values(), key=min) == together
    assert rack_of_each(members, [size - 1, 1, 0]) == {} or policy == "LeaderExcluded"


def test_ranks_of_a_leader_worker_set_are_its_indexes() -> None:
    owner_chain = leader_worker_set(5, "LeaderWorker")
    memberships = [worker_of_set(index, owner_chain).membership for index in range(5)]
    assert [membership and membership.rank for membership in memberships] == [0, 1, 2, 3, 4]


def seat(node: str, gated_pod: GatedPod) -> AssignedMember:
    assert gated_pod.membership is not None
    return AssignedMember(
        node, gated_pod.membership.rank, wishes_of(gated_pod.pod.annotations), owner="u", assigned=True
    )


def test_a_worker_that_is_made_again_joins_its_own_segment() -> None:
    """Master and workers have ranks in one row: the segments of the workers begin with the first of these."""
    owner_chain = training()
    names = ["master-0", *(f"worker-{index}" for index in range(4))]
    of_job = [of_training(name, owner_chain) for name in names]
    # rack-0 ── master, worker 0, worker 1      rack-1 ── worker 2, worker 3
    for number in (2, 3, 1, 4):
        assert again(of_job, ["n0", "n0", "n0", "n1", "n1"], number, [1, 1, 1])
    set_chain = leader_worker_set(5, "LeaderWorker")
    of_set = [worker_of_set(index, set_chain) for index in range(5)]
    for number in range(5):
        assert again(of_set, ["n0", "n0", "n0", "n1", "n1"], number, [1, 1, 9])


def again(pods: list[GatedPod], nodes: list[str], number: int, rooms: list[int]) -> bool:
    """Whether the pod with this number comes back to its rack, while the others run on these nodes."""
    others = {f"default/{one.pod.name}": seat(node, one) for one, node in zip(pods, nodes, strict=True)}
    del others[f"default/{pods[number].pod.name}"]
    found = rack_of_each([pods[number]], rooms, others)
    return found == {pods[number].pod.name: nodes[number].replace("n", "rack-")}


def of_nested(index: int) -> GatedPod:
    """A bare pod of a gang with four pods a zone and two a rack."""
    raw = gated(name=f"w-{index}", cpu="1")
    layers = {KAI_SEGMENT_SIZE: "4,2", KAI_SEGMENT_REQUIRED_PLACEMENT: f"{LEVELS[0]},{LEVELS[1]}"}
    raw["metadata"]["annotations"] = {POD_GROUP_NAME: "g", KAI_TOPOLOGY: TOPOLOGY.name, **layers}
    return GatedPod.from_object(raw)


@pytest.mark.parametrize(
    ("assigned_nodes", "rooms", "found"),
    [
        # No member runs: pairs go to racks that hold them.
        ({}, [1, 2, 3], {"w-0": "rack-1", "w-1": "rack-1", "w-2": "rack-2", "w-3": "rack-2"}),
        # One of a pair is made again: it goes to the rack of the other one, or waits.
        ({0: "n0", 2: "n1", 3: "n1"}, [1, 4, 4], {"w-1": "rack-0"}),
        ({0: "n0", 2: "n1", 3: "n1"}, [0, 4, 4], {}),
        # The node of the other pair is gone, but its zone is recorded.
        ({0: "gone", 1: "gone"}, [1, 1, 2], {"w-2": "rack-2", "w-3": "rack-2"}),
    ],
)
def test_members_of_segments_in_segments_join_the_smallest_that_has_begun(
    assigned_nodes: dict[int, str], rooms: list[int], found: dict[str, str]
) -> None:
    record = json.dumps(dict(zip(LEVELS, ("zone-a", "rack-9"), strict=True)))
    others = {
        f"default/w-{index}": replace(seat(node, of_nested(index)), domain=record)
        for index, node in assigned_nodes.items()
    }
    members = [of_nested(index) for index in range(4) if index not in assigned_nodes]
    assert rack_of_each(members, rooms, others) == found


def of_roles_with_a_level_each() -> dict[str, GatedPod]:
    """A master and three workers; both templates ask for a rack, the workload for none."""
    asked = {KAI_TOPOLOGY: TOPOLOGY.name, KAI_REQUIRED_PLACEMENT: LEVELS[1]}
    counts = {"Master": 1, "Worker": 3}
    replicas = {role: {"replicas": count, "template": template(**asked)} for role, count in counts.items()}
    owner_chain = of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}))
    pods = {}
    for name in ("master-0", "worker-0", "worker-1", "worker-2"):
        raw = gated(name=f"w-{name}", cpu="1")
        raw["metadata"]["annotations"] = dict(asked)
        pods[name] = GatedPod.from_object(raw, owner_chain)
    return pods


def test_roles_whose_templates_ask_for_a_rack_may_have_one_each() -> None:
    racks_of = rack_of_each(list(of_roles_with_a_level_each().values()), [3, 1])
    assert racks_of == {"w-master-0": "rack-1", **{f"w-worker-{index}": "rack-0" for index in range(3)}}


def test_a_member_of_such_a_role_joins_the_others_of_its_role() -> None:
    pods = of_roles_with_a_level_each()
    others = {"default/w-master-0": seat("n0", pods["master-0"]), "default/w-worker-0": seat("n1", pods["worker-0"])}
    racks_of = rack_of_each([pods["worker-1"], pods["worker-2"]], [9, 2], others)
    assert racks_of == {"w-worker-1": "rack-1", "w-worker-2": "rack-1"}
    assert rack_of_each([pods["worker-1"], pods["worker-2"]], [9, 1], others) == {}
