"""Pods without their workload's object: their gangs, ranks and minimum."""

from typing import Any

import pytest

from tests.builders.pods import plain
from webhook.formats.workload.plain_pods import PodsTogether, workloads_of_pods
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME


def member(name: str, *, group: str = "", owner: str = "", **how: Any) -> dict[str, Any]:
    """A pod with a gang's name, or with an owner of an unknown kind."""
    owners = [{"kind": "Workflow", "name": owner, "uid": owner, "controller": True}] if owner else []
    annotations = {POD_GROUP_NAME: group} if group else {}
    return plain(name=name, **{"annotations": annotations, "metadata": {"ownerReferences": owners}, **how})


def seen(found: PodsTogether) -> tuple[str, list[tuple[tuple[str, ...], int]]]:
    (gang,) = found.workload.gangs
    return found.workload.name, [(tuple(pod_set.pods), pod_set.minimum) for pod_set in gang.all_pod_sets()]


def test_a_group_by_hand_starts_whole_in_order_of_rank() -> None:
    found = workloads_of_pods([member(f"w-{rank}", group="train") for rank in (10, 9, 0)])
    assert list(map(seen, found)) == [("train", [(("w-0", "w-9", "w-10"), 3)])]


def test_pods_that_differ_are_roles() -> None:
    found = workloads_of_pods([member("a-0", group="g", cpu=16), member("b-1", group="g"), member("b-2", group="g")])
    assert list(map(seen, found)) == [("g", [(("a-0",), 1), (("b-1", "b-2"), 2)])]


def test_pods_of_an_owner_of_any_kind_start_one_by_one_unless_they_say_otherwise() -> None:
    pods = [member(name, owner="flow") for name in "xy"]
    assert list(map(seen, workloads_of_pods(pods))) == [("flow", [(("x", "y"), 1)])]
    pods = [member(name, owner="flow", annotations={MIN_MEMBER: "2"}) for name in "xy"]
    assert list(map(seen, workloads_of_pods(pods))) == [("flow", [(("x", "y"), 2)])]


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_other_pods_are_alone(names: list[str]) -> None:
    assert [seen(found) for found in workloads_of_pods(map(member, names))] == [
        (name, [((name,), 1)]) for name in names
    ]


def test_pods_that_run_are_told_apart_but_keep_their_rank() -> None:
    (found,) = workloads_of_pods([member("w-0", group="g", nodeName="n7"), member("w-1", group="g")])
    assert seen(found) == ("g", [(("w-0", "w-1"), 2)])
    assert found.running == {"w-0": "n7"}
