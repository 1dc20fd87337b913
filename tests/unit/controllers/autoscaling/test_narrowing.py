"""When pods are kept off nodes that they fit in sum alone, and that nothing is lost of what their users wrote."""

from typing import Any

import pytest

from tests.builders.nodes import nrt
from tests.builders.pods import gated
from tests.unit.controllers.autoscaling.asking import NODEPOOL, AskingLeader, filler, full, pool_node
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.model.names import MANAGED_FIELDS
from webhook.placing.autoscaling.blind_nodes import excluded_names

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
OTHER_POOL = {"key": "pool", "operator": "NotIn", "values": ["slow"]}


def requiring(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def excluded(leader: AskingLeader, name: str = "p") -> set[str]:
    """The nodes that the pod can no longer go to."""
    affinity = leader.api.pods[f"default/{name}"]["spec"].get("affinity")
    if affinity is None:
        return set()
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return excluded_names(required["nodeSelectorTerms"])


async def asked(*objects: dict[str, Any], **how: Any) -> AskingLeader:
    """A leader that has asked for a pod, at second 3. Pods are narrowed 60 s later, nodes complete after 30 s."""
    leader = AskingLeader(*objects, **{"narrow_after": 60.0, "new_node_seconds": 30.0, **how})
    await leader.settle()
    return leader


async def test_a_pod_for_which_no_node_was_added_is_kept_off_the_nodes_that_it_fits_in_sum_and_stays_gated() -> None:
    # n0 [0 0] is free in sum; n1 is full.
    leader = await asked(pool_node("n0"), full("n0"), pool_node("n1"), full("n1"), filler("n1"), gated(name="p"))
    assert "cluster-autoscaler may add none until it is kept off them, after 60 s" in leader.text("p")
    await leader.after(55)
    assert excluded(leader) == set()
    await leader.api.annotate("default/p", "example.com/any", "change")
    await leader.after(10)
    assert (excluded(leader), leader.marked(), leader.waiting()) == ({"n0"}, {"p"}, {"p"})
    (note,) = {event.note for event in leader.api.events if event.reason == "KeptOffNodes"}
    assert note.startswith("it can no longer go to n0: it fits there in total, but on no NUMA node")
    await leader.after(100)
    assert "it is permanently kept off nodes that have enough free only in total" in leader.text("p")
    assert leader.api.patched.count("default/p") == 1


@pytest.mark.parametrize(
    ("affinity", "owners"),
    [(requiring(OTHER_POOL), [OWNER]), (None, [OWNER]), (None, [])],
    ids=["terms of its own", "none", "none and no controller"],
)
async def test_it_is_placed_on_the_node_that_is_added_and_what_was_added_to_it_can_be_told_from_its_users(
    affinity: Any, owners: list[Any]
) -> None:
    own = {"affinity": affinity} if affinity else {}
    leader = await asked(pool_node("n0"), full("n0"), gated(name="p", metadata={"ownerReferences": owners}, **own))
    await leader.after(65)
    assert excluded(leader) == {"n0"}
    await leader.after(0)  # what was added to it excludes no node that may come
    assert leader.marked() == {"p"}
    leader.has(pool_node("n1", age=-60), nrt(node="n1", free=[16, 16]))
    await leader.after(1)
    assert leader.nodes() == {"p": "n1"}
    placed = leader.api.pods["default/p"]
    record = ManagedFields.parse(placed["metadata"]["annotations"][MANAGED_FIELDS])
    spec = without_ours(placed, record)["spec"]
    assert (spec.get("affinity"), "nodeSelector" in spec) == (affinity, False)


async def test_a_node_that_is_added_means_that_the_autoscaler_is_at_work() -> None:
    leader = await asked(pool_node("n0"), full("n0"), gated(name="p"))
    leader.has(pool_node("n1", age=-40), full("n1"), filler("n1"))
    await leader.after(65)
    assert excluded(leader) == set()
    await leader.after(40)
    assert excluded(leader) == {"n0"}


@pytest.mark.parametrize("how", [{"narrow_after": 0.0}, {"autoscaler": "Karpenter", "narrow_after": 0.0}])
async def test_it_can_be_switched_off_and_karpenter_would_ignore_such_a_pod(how: dict[str, Any]) -> None:
    nodes = pool_node("n0"), full("n0"), pool_node("k0", label=NODEPOOL), full("k0")
    leader = await asked(*nodes, gated(name="p"), **how)
    await leader.after(1_000)
    assert (excluded(leader), leader.marked()) == (set(), {"p"})
    assert "nodes that cannot align it have enough free in total, so" in leader.text("p")


@pytest.mark.parametrize(
    ("objects", "how", "off"),
    [
        ([pool_node("n0"), full("n0"), gated(name="p")], {"new_node_seconds": 4_000.0}, set()),
        ([pool_node("n0"), full("n0"), filler("n0"), pool_node("mute"), gated(name="p")], {}, {"mute"}),
        ([*(one for n in range(3) for one in (pool_node(f"n{n}"), full(f"n{n}"))), gated(name="p")], {}, set()),
    ],
    ids=["not a node that is not complete yet", "a node whose exporter is missing", "not more than the setting allows"],
)
async def test_which_nodes_are_excluded(objects: list[dict[str, Any]], how: dict[str, Any], off: set[str]) -> None:
    leader = await asked(*objects, **how)
    await leader.after(65)
    assert excluded(leader) == off


async def test_the_terms_of_a_pod_that_its_user_may_apply_again_are_not_changed() -> None:
    leader = await asked(pool_node("n0"), full("n0"), gated(name="p", affinity=requiring(OTHER_POOL)))
    await leader.after(65)
    assert leader.api.pods["default/p"]["spec"]["affinity"] == requiring(OTHER_POOL)
