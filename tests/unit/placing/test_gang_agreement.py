"""Members that ask for different things: the group's own keep theirs, and the odd one waits and says why."""

from typing import Any

import pytest

from tests.builders.pods import gated
from tests.builders.workloads import job, of, owned
from webhook.formats.kubernetes.membership import AssignedMember, wishes_of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import (
    KAI_BATCH_MIN_MEMBER,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    POD_GROUP_NAME,
    STRATEGY,
)
from webhook.placing.gang.gang_agreement import Agreement, agree
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

RACKS = Topology("racks", TopologySource.KAI, (Level("example.com/row"), Level("example.com/rack")))
TOPOLOGIES = {name: Topology(name, TopologySource.KAI, RACKS.levels) for name in ("racks", "others")}
FOUR = {MIN_MEMBER: "4"}
RACK = {KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: "rack"}
OWNED = [{"apiVersion": "v1", "kind": "Thing", "name": "thing", "uid": "uid-thing", "controller": True}]


def member(
    name: str,
    annotations: dict[str, str],
    created: int = 5,
    owner_chain: OwnerChain | None = None,
    group: str = "g",
    **spec: Any,
) -> GatedPod:
    raw = gated(name=name, second=created, group=group, **spec)
    raw["metadata"]["annotations"] |= annotations
    if owner_chain is not None:
        raw["metadata"]["ownerReferences"] = OWNED
    return GatedPod.from_object(raw, owner_chain)


def four(annotations: dict[str, str]) -> list[GatedPod]:
    return [member(f"m{index}", annotations) for index in range(4)]


def agreed(*members: GatedPod, assigned_members: dict[str, AssignedMember] | None = None) -> Agreement:
    (gang,) = units_of(sorted(members, key=lambda gated: gated.order))
    assert isinstance(gang, GatedGang)
    return agree(gang, assigned_members or {}, TOPOLOGIES)


def names(agreement: Agreement) -> set[str]:
    return {gated.pod.name for gated in agreement.gang.members}


def disagreeing(agreement: Agreement) -> str:
    """Why the one odd member waits."""
    (why,) = agreement.disagreeing.values()
    return why.text


OTHERS = {"m0", "m1", "m2", "m3"}


@pytest.mark.parametrize("created", [0, 9], ids=["oldest", "youngest"])
@pytest.mark.parametrize("priority", [0, 1_000_000], ids=["of their priority", "of high priority"])
def test_one_pod_with_another_minimum_blocks_nobody_and_says_why_it_waits(created: int, priority: int) -> None:
    hostile = member("odd", {MIN_MEMBER: "100000"}, created, priority=priority)
    agreement = agreed(hostile, *four(FOUR))
    assert (names(agreement), agreement.minimum) == (OTHERS, 4)
    assert disagreeing(agreement) == (
        'waiting: gang g: metadata.annotations[topology-webhook.dev/min-member] is "100000" and that of the other '
        'members is "4"; 5 pods are there'
    )


def test_nor_does_it_where_the_others_ask_for_no_minimum() -> None:
    agreement = agreed(member("odd", {KAI_BATCH_MIN_MEMBER: "100000"}, 0), *four({}))
    assert (names(agreement), agreement.minimum) == (OTHERS, 1)
    assert 'batch-min-member] is "100000" and that of the other members is not set' in disagreeing(agreement)


def test_nor_when_the_others_have_their_places() -> None:
    assigned_members = {
        f"default/m{index}": AssignedMember("n0", index, wishes_of(FOUR), assigned=True) for index in range(4)
    }
    agreement = agreed(member("odd", {MIN_MEMBER: "100000"}), assigned_members=assigned_members)
    assert (names(agreement), len(agreement.disagreeing)) == (set(), 1)


def test_one_that_says_fewer_has_not_begun_the_group_of_the_others() -> None:
    """It went first, alone, as it asked: the four start together all the same, and wherever they fit."""
    assigned_members = {"default/odd": AssignedMember("n0", 0, wishes_of({MIN_MEMBER: "1"}), assigned=True)}
    agreement = agreed(*four(FOUR), assigned_members=assigned_members)
    assert (names(agreement), agreement.minimum, agreement.assigned_members) == (OTHERS, 4, {})


def test_a_group_that_has_begun_grows_by_members_that_say_more_when_as_many_are_there() -> None:
    assigned_members = {
        f"default/m{index}": AssignedMember("n0", index, wishes_of(FOUR), assigned=True) for index in range(4)
    }
    new = [member(name, {MIN_MEMBER: "6"}) for name in ("n4", "n5")]
    assert names(agreed(*new, assigned_members=assigned_members)) == {"n4", "n5"}
    assert names(agreed(new[0], assigned_members=assigned_members)) == set()


def test_of_minimums_that_as_many_say_the_oldest_members_holds() -> None:
    first, second = member("b", {MIN_MEMBER: "2"}, 1), member("a", {MIN_MEMBER: "3"}, 2)
    agreement = agreed(second, first)
    assert (names(agreement), agreement.minimum) == ({"b"}, 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({MIN_MEMBER: "many"}, 'min-member]: "many" is not a number of pods'),
        ({KAI_TOPOLOGY: "nowhere"}, 'topology]: There is no topology "nowhere"'),
        ({KAI_REQUIRED_PLACEMENT: "shelf"}, '"shelf" is no level of topology racks'),
        ({KAI_SEGMENT_SIZE: "0", KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}, '"0" is not a size'),
        ({STRATEGY: "Even"}, 'strategy]: "Even" is not a strategy'),
        ({KAI_TOPOLOGY: "others"}, 'topology] is "others" and that of the other members is "racks"'),
    ],
)
def test_what_cannot_be_met_is_the_odd_ones_alone(asked: dict[str, str], said: str) -> None:
    hostile = member("odd", {**FOUR, **RACK, **asked}, 0, priority=1000)
    agreement = agreed(hostile, *four({**FOUR, **RACK}))
    assert (names(agreement), agreement.minimum) == (OTHERS, 4)
    assert said in disagreeing(agreement)


def test_where_all_are_faulty_all_wait() -> None:
    agreement = agreed(*four({MIN_MEMBER: "many"}))
    assert (names(agreement), len(agreement.disagreeing)) == (set(), 4)


def workers(owner_chain: OwnerChain, **annotations: str) -> list[GatedPod]:
    return [member(f"m{index}", annotations, owner_chain=owner_chain, group="") for index in range(4)]


def test_a_pod_that_names_itself_into_the_group_of_others_owners_is_none_of_them() -> None:
    owner_chain = of(job(**RACK))
    own = workers(owner_chain)
    group = own[0].pod.annotations[POD_GROUP_NAME]
    intruders = [
        member("bare", {**RACK, **FOUR}, 0, group=group, priority=1000),
        member("owned", RACK, 0, owner_chain=of(owned("Thing", "example.com/v1", {}, **RACK)), group=group),
    ]
    agreement = agreed(*own, *intruders)
    assert (names(agreement), agreement.minimum) == (OTHERS, 4)
    assert (
        "names the gang of the pods of Job w, and this pod is not one of them"
        in agreement.disagreeing["default/bare"].text
    )
    assert agreement.disagreeing.keys() == {"default/bare", "default/owned"}


def test_nor_does_a_pod_that_runs_hold_it_to_its_domain_by_naming_it() -> None:
    own = workers(of(job(**RACK)))
    seats = {
        "default/intruder": AssignedMember("n9", 0, wishes_of(RACK)),
        "default/ours": AssignedMember("n0", 1, wishes_of(RACK), assigned=True),
        "default/of-the-same-owner": AssignedMember("n1", 2, owner="uid-thing"),
    }
    assert agreed(*own, assigned_members=seats).assigned_members.keys() == {"default/ours", "default/of-the-same-owner"}


UID = "01234567-89ab-cdef-0123-456789abcdef"


def test_nor_can_one_go_before_they_are_there_or_join_when_all_of_them_run() -> None:
    seats = {"default/m0": AssignedMember("n0", 0, wishes_of(RACK), owner=UID, assigned=True)}
    for assigned_members in ({}, seats):
        alone = agreed(member("bare", RACK, group=f"pg-w-{UID}"), assigned_members=assigned_members)
        assert "names the gang of the pods of other owners, and this pod is not one of them" in disagreeing(alone)
    assert agreed(member("bare", RACK, group="chosen"), assigned_members=seats).disagreeing == {}


def test_a_pod_may_name_the_group_of_its_own_owner_though_nobody_may_read_that() -> None:
    raw = gated(name="p", group=f"pg-w-{UID}")
    raw["metadata"]["ownerReferences"] = [{**OWNED[0], "uid": UID}]
    assert agreed(GatedPod.from_object(raw)).disagreeing == {}


def test_of_a_workload_the_top_owners_minimum_holds_whatever_stands_on_a_pod() -> None:
    replicas = {"parallelism": 4, "completions": 4, "template": {"spec": {"containers": [{"name": "main"}]}}}
    owner_chain = of(owned("Job", "batch/v1", replicas, **{**RACK, MIN_MEMBER: "3"}))
    members = [*workers(owner_chain)[:3], member("edited", {MIN_MEMBER: "100000"}, 0, owner_chain, group="")]
    agreement = agreed(*members)
    assert (agreement.minimum, agreement.disagreeing) == (3, {})


def test_of_a_kind_that_is_not_known_the_one_that_was_edited_waits() -> None:
    owner_chain = of(owned("Thing", "example.com/v1", {}, **{**RACK, **FOUR}))
    agreement = agreed(*workers(owner_chain), member("edited", {MIN_MEMBER: "100000"}, 0, owner_chain, group=""))
    assert (names(agreement), agreement.minimum) == (OTHERS, 4)
    assert "100000" in disagreeing(agreement)
