"""Which pods are a gang."""

from typing import Any

from tests.builders.pods import created
from webhook.formats.kubernetes.membership import membership_of
from webhook.model.names import KAI_TOPOLOGY, POD_GROUP_NAME, RANK, STRATEGY


def member(name: str = "p-3", owner: str = "", **annotations: str) -> dict[str, Any]:
    owners = [{"kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    return created(name=name, numa=None, annotations=annotations, metadata={"ownerReferences": owners})


def group(raw: dict[str, Any]) -> str | None:
    membership = membership_of(raw)
    return None if membership is None else membership.group


def test_a_named_group_is_that_of_all_pods_of_its_namespace_with_the_name() -> None:
    one, other = member("a", "x", **{POD_GROUP_NAME: "g"}), member("b", "y", **{POD_GROUP_NAME: "g"})
    assert group(one) == group(other)
    other["metadata"]["namespace"] = "elsewhere"
    assert group(one) != group(other)


def test_pods_of_one_controller_that_ask_for_a_topology_are_a_group() -> None:
    asks = {KAI_TOPOLOGY: "racks"}
    assert group(member("a", "x", **asks)) == group(member("b", "x", **asks)) != group(member("a", "y", **asks))
    assert group(member("a", "x")) is None


def test_a_strategy_alone_makes_no_group() -> None:
    assert group(member("a", "x", **{STRATEGY: "Balanced"})) is None


def test_such_a_pod_without_a_controller_is_alone() -> None:
    asks = {KAI_TOPOLOGY: "racks"}
    assert group(member("a", **asks)) != group(member("b", **asks))


def test_a_rank_that_was_given_stays() -> None:
    memberships = [membership_of(member("p-3", **{POD_GROUP_NAME: "g", **more})) for more in ({}, {RANK: "7"})]
    assert [membership.rank for membership in memberships if membership] == [3, 7]


def test_people_are_told_a_name_that_can_be_printed_and_is_no_longer_than_an_objects() -> None:
    def told(name: str) -> str:
        membership = membership_of(member("a", **{POD_GROUP_NAME: name}))
        assert membership is not None
        assert membership.group.endswith(name)
        return membership.name

    assert told("a" * 253) == "a" * 253
    assert told("größe 1") == "größe 1"
    assert len(told("a" * 250_000)) < 100
    assert told("a\nb\x1b[31m\u202e") == r"'a\nb\x1b[31m\u202e'"
