"""Which pods behind the gate an autoscaler sees, when, and what they say."""

from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.builders.topologies import topology
from tests.unit.controllers.autoscaling.asking import NODEPOOL, AskingLeader, filler, full, pool_node
from tests.unit.controllers.site import TERM
from webhook.formats.autoscaling import scheduled_condition
from webhook.kube.write import Outcome
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER
from webhook.placing.autoscaling import answers
from webhook.placing.pod import schedulability
from webhook.state.delegated_pods import is_unschedulable, last_failure
from webhook.steps import result_of

RACK = "example.com/rack"


def member(name: str, group: str = "g", minimum: int = 2, **annotations: str) -> dict[str, Any]:
    return gated(name=name, group=group, annotations={MIN_MEMBER: str(minimum), **annotations})


def in_a_rack(name: str) -> dict[str, Any]:
    return gated(
        name=name,
        group="g",
        annotations={MIN_MEMBER: "2", KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: RACK},
    )


async def test_a_pod_that_an_empty_node_of_a_group_could_take_is_marked_and_stays_behind_the_gate() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), filler("n0"), gated(name="p"))
    await leader.settle()
    assert leader.marked() == leader.waiting() == {"p"}
    assert leader.message("p") == (
        "topology-webhook: it fits on no node now, and could on one more of node group blue: "
        "SingleNUMANode, 8 cpu, 1Gi memory"
    )
    condition = scheduled_condition(leader.api.pods["default/p"])
    assert condition["lastTransitionTime"] == "2030-01-01T00:00:00Z"
    assert leader.text("p").endswith("; cluster-autoscaler is asked for a node of node group blue")


async def test_nothing_is_written_again_while_nothing_changes() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await leader.settle()
    for _ in range(40):
        await leader.after(1)
    assert leader.api.conditions == [("default/p", "False", "Unschedulable")]


async def test_a_pod_is_not_marked_before_it_has_lacked_room_for_a_moment() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await leader.after(0)
    await leader.after(1)
    assert leader.marked() == set()


async def test_a_pod_that_is_too_large_for_a_numa_node_of_every_group_is_not_marked_and_says_so() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p", cpu=20))
    await leader.settle()
    assert leader.marked() == set()
    assert leader.text("p").endswith(
        "; cluster-autoscaler is not asked for a node: "
        "no node like those of a node group could take it even if it were empty"
    )


async def test_a_node_outside_of_groups_is_no_template() -> None:
    # alone [16 16] is in no group; n0 [16 16] of group blue has another policy.
    leader = AskingLeader(
        node(name="alone"), full("alone"), pool_node("n0"), full("n0", policy="best-effort"), gated(name="p")
    )
    await leader.settle()
    assert leader.marked() == set()
    leader = AskingLeader(node(name="alone"), full("alone"), gated(name="p"))
    await leader.settle()
    assert leader.text("p").endswith(
        "; cluster-autoscaler is not asked for a node: no node has the label of a node group"
    )


async def test_a_node_that_went_since_the_sweep_began_is_no_template() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), pool_node("n1"), full("n1"), gated(name="p"))
    await leader.settle()
    leader.answers.refresh(100.0)
    for name in ("n0", "n1"):
        leader.cache.nodes.delete(name)
    put(leader.cache, node(name="other"))
    (unit,) = leader.controller.planner.lacking_room.units()
    found = result_of(leader.answers.find(unit, 100.0))
    assert not found.is_asked
    assert "no node has the label of a node group" in found.text


async def test_a_group_of_another_label_counts_if_the_settings_name_it() -> None:
    objects = pool_node("n0", label="node.cluster.x-k8s.io/pool"), full("n0"), gated(name="p")
    leader = AskingLeader(*objects)
    await leader.settle()
    assert leader.marked() == set()
    leader = AskingLeader(*objects, group_labels=("node.cluster.x-k8s.io/pool",))
    await leader.settle()
    assert leader.marked() == {"p"}


async def test_karpenter_is_asked_for_nodes_of_its_own_pools_alone() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"), autoscaler="Karpenter")
    await leader.settle()
    assert leader.marked() == set()
    leader.has(pool_node("n1", "spot", label=NODEPOOL), full("n1"))
    await leader.settle()
    assert leader.marked() == {"p"}
    assert "Karpenter is asked for a node of node group spot" in leader.text("p")


async def test_karpenter_is_not_asked_for_a_pod_that_excludes_nodes_by_name() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n9"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    objects = (
        pool_node("n0"),
        pool_node("n1", label=NODEPOOL),
        full("n0"),
        full("n1"),
        gated(name="p", affinity=affinity),
    )
    leader = AskingLeader(*objects, autoscaler="Karpenter")
    await leader.settle()
    assert "Karpenter ignores pods that select nodes by name" in leader.text("p")
    leader = AskingLeader(*objects)
    await leader.settle()
    assert leader.marked() == {"p"}


async def test_a_pod_that_requires_a_node_by_name_is_not_marked() -> None:
    selector = {"kubernetes.io/hostname": "n0"}
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p", nodeSelector=selector))
    await leader.settle()
    assert leader.marked() == set()
    assert "it requires nodes by name" in leader.text("p")


async def test_the_newest_complete_node_speaks_for_its_group_so_that_a_changed_group_adds_no_nodes_in_vain() -> None:
    leader = AskingLeader(pool_node("old"), full("old"), gated(name="p"))
    await leader.settle()
    assert leader.marked() == {"p"}
    # The next node of the group turns out to have another policy. It is too young to be complete at first.
    leader.has(pool_node("new", age=10), full("new", policy="best-effort"))
    await leader.after(1)
    assert leader.marked() == {"p"}
    await leader.after(400)
    await leader.after(6)
    assert leader.marked() == set()


async def test_a_new_node_without_numa_nodes_leaves_the_mark_so_that_autoscalers_count_the_pod_there() -> None:
    leader = AskingLeader(pool_node("old"), full("old"), filler("old"), gated(name="p"))
    await leader.settle()
    leader.has(pool_node("new", age=10))
    await leader.after(1)
    asked = "; cluster-autoscaler is asked for a node of node group blue"
    new = "; node new is new: its exporter has not published its NUMA nodes yet"
    assert leader.text("p").endswith(asked + new)
    for _ in range(40):
        await leader.after(10)
    late = "; node new is without NUMA nodes more than 300 s after its creation: look at its exporter"
    assert leader.text("p").endswith(asked + late)
    assert leader.marked() == {"p"}
    assert len(leader.api.conditions) == 1
    assert leader.api.told().count(("default/new", "ExporterMissing")) == 1
    leader.has(nrt(node="new", free=[16, 16]))
    await leader.after(1)
    assert leader.nodes() == {"p": "new"}


async def test_the_mark_is_removed_when_the_pod_no_longer_waits_for_room() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await leader.settle()
    # A member joins a gang that is incomplete: it no longer lacks room, but members.
    raw = leader.api.pods["default/p"]
    annotations = {**raw["metadata"]["annotations"], "pod-group-name": "g", MIN_MEMBER: "2"}
    leader.api.has({**raw, "metadata": {**raw["metadata"], "annotations": annotations}})
    await leader.after(1)
    assert leader.marked() == {"p"}  # for a moment
    await leader.after(6)
    assert leader.marked() == set()
    assert leader.message("p") == "Scheduling is blocked due to non-empty scheduling gates"


async def test_a_placed_pod_keeps_its_mark_for_a_moment_and_nobody_takes_it_for_the_schedulers_word() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await leader.settle()
    leader.has(nrt(node="n0", free=[16, 0]))
    await leader.after(1)
    assert (leader.waiting(), leader.marked()) == (set(), {"p"})
    raw = leader.api.pods["default/p"]
    assert (is_unschedulable(raw), last_failure(raw)) == (False, None)
    await leader.after(1)
    await leader.after(6)
    assert leader.marked() == set()


async def test_a_pod_for_which_the_scheduler_nominated_a_node_is_not_marked() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await leader.api.nominate("default/p", "p", "n0")
    await leader.settle()
    assert leader.marked() == set()


async def test_a_whole_gang_is_marked_and_an_incomplete_one_is_not() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), member("a"), member("b"), member("alone", group="other"))
    await leader.settle()
    assert leader.marked() == {"a", "b"}
    assert "cluster-autoscaler is asked for nodes of node group blue" in leader.text("a")
    assert leader.message("a").startswith(
        "topology-webhook: its gang does not fit now, and could on more nodes of node group"
    )


async def test_a_gang_with_a_member_that_no_template_takes_is_not_marked() -> None:
    large = gated(name="b", group="g", cpu=20, annotations={MIN_MEMBER: "2"})
    leader = AskingLeader(pool_node("n0"), full("n0"), member("a"), large)
    await leader.settle()
    assert leader.marked() == set()
    assert "cluster-autoscaler is not asked for nodes: pod b: no node like those" in leader.text("a")


async def test_a_gang_that_needs_one_rack_is_marked_if_the_group_has_nodes_in_racks_and_says_what_is_assumed() -> None:
    gang = in_a_rack("a"), in_a_rack("b")
    rack = topology(labels=[RACK])
    leader = AskingLeader(rack, pool_node("n0"), full("n0"), *gang)
    await leader.settle()
    assert leader.marked() == set()
    assert "none of their node groups is known to add nodes in a domain of example.com/rack" in leader.text("a")
    leader = AskingLeader(rack, pool_node("n0", labels={RACK: "r0"}), full("n0"), *gang)
    await leader.settle()
    assert leader.marked() == {"a", "b"}
    assert "assuming that they lie in the same domains of example.com/rack as its nodes" in leader.text("a")


async def test_a_gang_for_which_no_node_exists_is_marked_as_a_single_pod_would_be_ungated() -> None:
    pool = {"pool": "gpu"}
    gang = [gated(name=name, group="g", annotations={MIN_MEMBER: "2"}, nodeSelector=pool) for name in ("a", "b")]
    leader = AskingLeader(pool_node("n0"), full("n0"), *gang)
    await leader.settle()
    assert leader.marked() == {"a", "b"}
    assert "cluster-autoscaler is asked for nodes, as none exists that they could go to" in leader.text("a")


async def test_a_thousand_pods_cost_a_bounded_number_of_writes_a_second_and_each_namespace_has_its_turn() -> None:
    crowd = [gated(name=f"p{number}", namespace="crowd") for number in range(200)]
    leader = AskingLeader(pool_node("n0"), full("n0"), *crowd, gated(name="p"))
    await leader.after(0)
    await leader.after(3)
    assert len(leader.api.conditions) == 50
    assert "p" in leader.marked()


async def test_equal_pods_cost_one_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    look_ahead = schedulability.look_ahead

    def counted(*given: Any) -> Any:
        calls.append(given)
        return look_ahead(*given)

    monkeypatch.setattr(answers, "look_ahead", counted)
    leader = AskingLeader(pool_node("n0"), full("n0"), *(gated(name=f"p{number}") for number in range(30)))
    await leader.settle()
    assert (len(leader.marked()), len(calls)) == (30, 1)


async def test_the_next_leader_knows_what_is_marked_and_nothing_is_written_by_one_that_does_not_lead() -> None:
    first = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await first.settle()
    second = AskingLeader(pool_node("n0"), full("n0"), *first.api.pods.values())
    second.leads = False
    second.controller.stopped()
    await second.settle()
    assert second.api.conditions == []
    second.leads = True
    second.controller.started(TERM)
    await second.settle()
    assert (second.marked(), second.api.conditions) == ({"p"}, [])


async def test_marks_that_are_left_over_are_removed_where_no_autoscaler_is_named() -> None:
    first = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    await first.settle()
    second = AskingLeader(pool_node("n0"), full("n0"), *first.api.pods.values(), autoscaler="None")
    await second.settle()
    await second.after(6)
    assert second.marked() == set()


async def test_a_write_that_fails_is_tried_again() -> None:
    leader = AskingLeader(pool_node("n0"), full("n0"), gated(name="p"))
    leader.api.outcome = Outcome.UNKNOWN
    await leader.settle()
    leader.api.outcome = Outcome.WRITTEN
    await leader.after(1)
    assert leader.marked() == {"p"}
