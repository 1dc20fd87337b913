"""Which pods behind the gate an autoscaler sees, when, and what they say."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.builders.topologies import topology
from tests.unit.controllers.autoscaling.asking import NODEPOOL, AskingLeader, filler, full, gang, pool_node
from tests.unit.controllers.leader import TERM
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.formats.autoscaling import scheduled_condition
from webhook.kube.events import EventRecorder
from webhook.kube.write import Outcome
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER
from webhook.placing.autoscaling import answers
from webhook.placing.pod import schedulability
from webhook.state.delegated_pods import is_unschedulable, last_failure
from webhook.steps import result_of

RACK = "example.com/rack"
BLUE = pool_node("n0"), full("n0")
ALONE = node(name="alone"), full("alone")  # in no group
OTHER_LABEL = pool_node("n0", label="node.cluster.x-k8s.io/pool"), full("n0")
OF_KARPENTER = pool_node("n1", "spot", label=NODEPOOL), full("n1")
CLUSTER_API = {"group_labels": ("node.cluster.x-k8s.io/pool",)}
KARPENTER = {"autoscaler": "Karpenter"}
NO_GROUP = "; cluster-autoscaler is not asked for a node: no node has the label of a node group"
OFF_N9 = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n9"]}]}]
OFF_BY_NAME = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": OFF_N9}}}
IN_A_RACK = gang(annotations={KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: RACK})
P = gated(name="p")
OFF_P = gated(name="p", affinity=OFF_BY_NAME)


@pytest.mark.parametrize(
    ("objects", "how", "marked", "says"),
    [
        pytest.param(objects, how, set(marked), says, id=name)
        for name, objects, how, marked, says in (
            ("too large for a NUMA node of every group", [*BLUE, gated(name="p", cpu=20)], {}, "",
             "not asked for a node: no node like those of a node group could take it even if it were empty"),
            ("a node outside of groups is no template", [*ALONE, P], {}, "", NO_GROUP),
            ("nor where the group has another policy", [*ALONE, BLUE[0], full("n0", policy="best-effort"), P], {}, "",
             ""),
            ("a label that is no group's", [*OTHER_LABEL, P], {}, "", NO_GROUP),
            ("a label that the settings name", [*OTHER_LABEL, P], CLUSTER_API, "p", ""),
            ("Karpenter adds no nodes of others", [*BLUE, P], KARPENTER, "", ""),
            ("Karpenter adds nodes of its pools", [*BLUE, *OF_KARPENTER, P], KARPENTER, "p",
             "Karpenter is asked for a node of node group spot"),
            ("Karpenter ignores pods that exclude names", [*BLUE, *OF_KARPENTER, OFF_P], KARPENTER, "",
             "Karpenter ignores pods that select nodes by name"),
            ("cluster-autoscaler does not", [*BLUE, *OF_KARPENTER, OFF_P], {}, "p", ""),
            ("requires a node by name", [*BLUE, gated(name="p", nodeSelector={"kubernetes.io/hostname": "n0"})], {}, "",
             "it requires nodes by name"),
            ("a gang with a member that no template takes", [*BLUE, *gang("a"), *gang("b", cpu=20)], {}, "",
             "cluster-autoscaler is not asked for nodes: pod b: no node like those"),
            ("a gang for one rack, of a group without racks", [topology(labels=[RACK]), *BLUE, *IN_A_RACK], {}, "",
             "none of their node groups is known to add nodes in a domain of example.com/rack"),
            ("a gang for one rack, of a group with one",
             [topology(labels=[RACK]), pool_node("n0", labels={RACK: "r0"}), full("n0"), *IN_A_RACK], {}, "ab",
             "assuming that they lie in the same domains of example.com/rack as its nodes"),
            ("a gang for which no node exists", [*BLUE, *gang(nodeSelector={"pool": "gpu"})], {}, "ab",
             "cluster-autoscaler is asked for nodes, as none exists that they could go to"),
        )
    ],
)  # fmt: skip
async def test_pods_are_marked_if_one_more_node_of_a_group_could_take_them_and_else_say_why_not(
    objects: list[dict[str, Any]], how: dict[str, Any], marked: set[str], says: str
) -> None:
    leader = AskingLeader(*objects, **how)
    await leader.settle()
    assert leader.marked() == marked
    assert says in leader.text("p" if "default/p" in leader.api.pods else "a")


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
    leader = AskingLeader(*BLUE, P)
    await leader.settle()
    for _ in range(40):
        await leader.after(1)
    assert leader.api.conditions == [("default/p", "False", "Unschedulable")]


async def test_a_pod_is_not_marked_before_it_has_lacked_room_for_a_moment() -> None:
    leader = AskingLeader(*BLUE, P)
    await leader.after(0)
    await leader.after(1)
    assert leader.marked() == set()


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
    leader = AskingLeader(*BLUE, P)
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
    leader = AskingLeader(*BLUE, P)
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
    leader = AskingLeader(*BLUE, P)
    await leader.api.nominate("default/p", "p", "n0")
    await leader.settle()
    assert leader.marked() == set()


async def test_a_whole_gang_is_marked_and_an_incomplete_one_is_not() -> None:
    leader = AskingLeader(*BLUE, *gang(), *gang(["alone"], group="other"))
    await leader.settle()
    assert leader.marked() == {"a", "b"}
    assert "cluster-autoscaler is asked for nodes of node group blue" in leader.text("a")
    assert leader.message("a").startswith(
        "topology-webhook: its gang does not fit now, and could on more nodes of node"
    )


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
    first = AskingLeader(*BLUE, P)
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
    first = AskingLeader(*BLUE, P)
    await first.settle()
    second = AskingLeader(pool_node("n0"), full("n0"), *first.api.pods.values(), autoscaler="None")
    await second.settle()
    await second.after(6)
    assert second.marked() == set()


async def test_a_write_that_fails_is_tried_again() -> None:
    leader = AskingLeader(*BLUE, P)
    leader.api.outcome = Outcome.UNKNOWN
    await leader.settle()
    leader.api.outcome = Outcome.WRITTEN
    await leader.after(1)
    assert leader.marked() == {"p"}


def test_a_node_without_exporter_is_reported_again_after_the_api_server_has_dropped_the_first_event() -> None:
    client: Any = None
    recorder = EventRecorder(client, "test")
    missing = MissingExporterReports(recorder, 300)
    with capture_logs() as lines:
        for minute in range(121):
            missing.tell(["n0"], 60.0 * minute)
    assert len(recorder._waiting) == len(lines) == 3, "at 0, 60 and 120 minutes"


def test_where_no_exporter_runs_each_sweep_reports_some_of_the_nodes() -> None:
    events: Any = EventRecorder(None, "test")  # type: ignore[arg-type] # nothing is written
    missing = MissingExporterReports(events, 300)
    names = {f"n{number}" for number in range(250)}
    with capture_logs() as lines:
        missing.tell(names, 0)
        assert len(lines) == 100
        for second in range(1, 5):
            missing.tell(names, second)
    assert {line["node"] for line in lines} == names
    assert len(lines) == 250
