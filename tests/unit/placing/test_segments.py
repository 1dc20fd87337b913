"""Which segment a member is in, as its workload says, and where that goes on when the group has begun."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.gangs import LEVELS, TOPOLOGY, racks, whole_nodes
from tests.builders.pods import gated
from tests.builders.workloads import of, owned
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember, wishes_of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.model.names import (
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    LWS_GROUP_INDEX,
    LWS_WORKER_INDEX,
    POD_GROUP_NAME,
)
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.pod_sets import Assembled, Assembly
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

CONTAINER = {"containers": [{"name": "main"}]}
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
    pods = {name: of_training(name, owner_chain) for name in names}
    # rack-0 ── master, worker 0, worker 1      rack-1 ── worker 2, worker 3
    racks_of = {"master-0": "n0", "worker-0": "n0", "worker-1": "n0", "worker-2": "n1", "worker-3": "n1"}
    for anew, at in (("worker-1", "rack-0"), ("worker-2", "rack-1"), ("worker-0", "rack-0"), ("worker-3", "rack-1")):
        others = {f"default/w-{name}": seat(racks_of[name], pods[name]) for name in names if name != anew}
        assert rack_of_each([pods[anew]], [1, 1, 1], others) == {f"w-{anew}": at}


def test_and_so_does_a_leader_or_worker_of_a_set() -> None:
    owner_chain = leader_worker_set(5, "LeaderWorker")
    pods = [worker_of_set(index, owner_chain) for index in range(5)]
    nodes = ["n0", "n0", "n0", "n1", "n1"]
    for anew in range(5):
        others = {
            f"default/{pods[index].pod.name}": seat(nodes[index], pods[index]) for index in range(5) if index != anew
        }
        found = rack_of_each([pods[anew]], [1, 1, 9], others)
        assert found == {pods[anew].pod.name: nodes[anew].replace("n", "rack-")}


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
