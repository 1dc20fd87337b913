"""A group's members as sets and parts, and how many of them go together."""

from typing import Any

from tests.builders.clusters import cluster_snapshot
from tests.builders.pods import gated
from tests.builders.workloads import of, owned
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import (
    JOB_COMPLETION_INDEX,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)
from webhook.placing.gang.gang_agreement import minimum_of
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.pod_sets import Assembled, Assembly, ranks_of
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

TOPOLOGY = Topology("dc", TopologySource.KAI, (Level("example.com/row"), Level("example.com/rack")))
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
    assembled = Assembly(gang.members, TOPOLOGY, {}).run(
        minimum, snapshot, TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    )
    assert isinstance(assembled, Assembled)
    return assembled.gang


def training(master: dict[str, str] | None = None, /, **annotations: str) -> OwnerChain:
    worker = {"metadata": {"annotations": RACK}, "spec": CONTAINER}
    replicas = {
        "Master": {"replicas": 1, "template": {"metadata": {"annotations": master or {}}, "spec": CONTAINER}},
        "Worker": {"replicas": 3, "template": worker},
    }
    return of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **annotations))


def test_a_role_that_asks_for_a_level_itself_is_a_part_within_what_all_ask() -> None:
    owner_chain = training(**ROW)
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
    owner_chain = training()
    whole = group(*(member(f"w-worker-{index}", RACK, owner_chain) for index in range(3)))
    assert (whole.constraint.required, whole.subgroups) == (2, ())


def test_roles_whose_templates_ask_for_the_same_level_have_a_domain_each_as_review_says() -> None:
    owner_chain = training(RACK)
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
    assert minimum_of(member("a", asked, training(**ROW))) == 9
    assert minimum_of(member("a", {"topology-webhook.dev/min-member": "9"}, training(**ROW))) == 4
    assert minimum_of(member("a", {}, training(**ROW))) == 4


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
