"""Gangs of Kubernetes' own PodGroups: admitted by the webhook, placed by the leader; what the condition says."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.clusters import machine, put
from tests.builders.native_pod_groups import gated_in_group, in_group, native_pod_group
from tests.builders.pods import SINGLE, gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from webhook.admission.pod.mutation import mutate_pod
from webhook.controllers.native_group_conditions import NativeGroupConditions
from webhook.kube.write import Outcome, Write
from webhook.model.names import (
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_TOPOLOGY_SPEC,
    PLACEMENT,
    POD_GROUP_NAME,
    SCHEDULING_GROUP,
)
from webhook.state.rules import Rules

RACK = "example.com/rack"

# rack r1 ── n0 [16]  n1 [16]      [free cpus per NUMA node]
# rack r2 ── n2 [16]
RACKS = (
    *machine(name="n0", free=[16], labels={RACK: "r1"}),
    *machine(name="n1", free=[16], labels={RACK: "r1"}),
    *machine(name="n2", free=[16], labels={RACK: "r2"}),
    topology(labels=[RACK]),
)
NUMA = {NUMA_TOPOLOGY_SPEC: SINGLE}


def leader(*objects: Mapping[str, Any]) -> Leader:
    return Leader(*RACKS, *objects)


def cycle(it: Leader) -> None:
    asyncio.run(it.cycle())


def text_of(it: Leader, name: str) -> str:
    raw = it.api.pods[f"default/{name}"]
    return str(raw["metadata"]["annotations"].get(PLACEMENT, ""))


def why(it: Leader) -> set[str]:
    """What was found of the gangs. A second cycle sees those that the writes of the first one postponed."""
    reported: list[str] = []
    it.controller.gang_examined.subscribe(lambda gang, text: reported.append(text))
    for _ in range(2):
        it.controller._changed()
        cycle(it)
    return set(reported)


def test_a_pod_is_marked_and_gated_if_it_or_its_group_asks_for_something_or_the_group_is_unknown() -> None:
    it = leader(native_pod_group(name="racks", minimum=2, level=RACK), native_pod_group(name="free", minimum=2))
    for group, own, managed in (("racks", {}, True), ("unknown", {}, True), ("free", {}, False), ("free", NUMA, True)):
        decided = mutate_pod(in_group(group, annotations=own), it.cache.snapshot(), Rules())
        assert decided.gated is managed
        annotations = decided.mutated["metadata"].get("annotations") or {}
        assert annotations.get(SCHEDULING_GROUP) == (group if managed else None)
        # A later webhook changed the pod: the second pass comes to the same.
        assert mutate_pod(decided.mutated, it.cache.snapshot(), Rules()).mutated == decided.mutated


def test_where_groups_are_not_served_nothing_changes() -> None:
    it = leader()
    assert mutate_pod(in_group(), it.cache.snapshot(), Rules()).mutated == in_group()
    alone = mutate_pod(in_group(annotations=NUMA), it.cache.snapshot(), Rules()).mutated
    assert SCHEDULING_GROUP not in alone["metadata"]["annotations"]


def test_pods_of_other_schedulers_are_left_alone() -> None:
    it = leader(native_pod_group(minimum=2, level=RACK))
    raw = in_group(schedulerName="other")
    assert mutate_pod(raw, it.cache.snapshot(), Rules()).mutated == raw


def test_the_members_start_together_in_one_domain_once_min_count_are_there() -> None:
    it = leader(native_pod_group(minimum=2, level=RACK))
    it.api.has(gated_in_group(name="a", cpu=16, annotations=NUMA))
    assert why(it) == {"waiting: gang g: 1 of the 2 pods that must start together are there"}
    it.api.has(gated_in_group(name="b", cpu=16, annotations=NUMA))
    cycle(it)
    assert set(it.nodes().values()) == {"n0", "n1"}
    annotations = it.api.pods["default/a"]["metadata"]["annotations"]
    assert (annotations[KAI_TOPOLOGY], annotations[MIN_MEMBER]) == ("network", "2")


def test_pods_that_come_before_their_group_wait_for_it() -> None:
    it = leader()
    it.cache.native_groups.serve("v1alpha2")
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in ("a", "b")))
    (text,) = why(it)
    assert 'spec.schedulingGroup.podGroupName: There is no PodGroup "g"' in text
    assert it.waiting() == {"a", "b"}
    put(it.cache, native_pod_group(minimum=2, level=RACK))
    cycle(it)
    assert it.waiting() == set()


def test_pods_are_ungated_if_their_group_turns_out_to_request_nothing() -> None:
    it = leader(native_pod_group(minimum=2))
    it.api.has(gated_in_group(name="a"), gated_in_group(name="b", annotations=NUMA))
    cycle(it)
    assert it.waiting() == {"b"}  # it requests NUMA nodes, and its gang needs another one
    assert SCHEDULING_GROUP not in it.api.pods["default/a"]["metadata"]["annotations"]
    assert "nodeAffinity" not in str(it.api.pods["default/a"]["spec"])


def test_a_group_and_a_gang_of_the_same_name_are_two() -> None:
    it = leader(native_pod_group(minimum=2, level=RACK))
    it.api.has(gated_in_group(name="a"), gated(name="b", group="g", annotations={MIN_MEMBER: "2"}))
    cycle(it)
    assert it.waiting() == {"a", "b"}


def test_the_fault_of_one_group_is_its_own() -> None:
    it = leader(
        native_pod_group(name="huge", minimum=2**31 - 1, level=RACK),
        native_pod_group(name="odd", minimum=1, level="example.com/none"),
        native_pod_group(name="good", minimum=1, level=RACK),
    )
    it.api.has(*(gated_in_group(name, name=f"{name}-0") for name in ("huge", "odd", "good")))
    texts = why(it)
    assert it.waiting() == {"huge-0", "odd-0"}
    assert any("PodGroup huge: spec.schedulingPolicy.gang.minCount: 2147483647 is not a number" in one for one in texts)
    assert any('"example.com/none" is a level of no Topology' in one for one in texts)


def test_a_group_that_is_replaced_with_another_min_count_starts_by_that() -> None:
    it = leader(native_pod_group(minimum=3, level=RACK))
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in ("a", "b")))
    cycle(it)
    assert it.waiting() == {"a", "b"}
    put(it.cache, native_pod_group(minimum=2, level=RACK))
    cycle(it)
    assert it.waiting() == set()


def test_deleting_a_group_leaves_its_running_members_and_later_ones_wait() -> None:
    it = leader(native_pod_group(minimum=1, level=RACK))
    it.api.has(gated_in_group(name="a", cpu=16))
    cycle(it)
    assert it.waiting() == set()
    it.cache.native_groups.feed.delete("default/g")
    it.api.has(gated_in_group(name="b", cpu=16))
    (text,) = why(it)
    assert "There is no PodGroup" in text
    put(it.cache, native_pod_group(minimum=2, level=RACK))
    cycle(it)
    racks = {"n0": "r1", "n1": "r1", "n2": "r2"}
    assert len({racks[node] for node in it.nodes().values()}) == 1


def test_a_pod_that_names_another_gang_beside_its_group_waits_alone() -> None:
    it = leader(native_pod_group(minimum=1, level=RACK))
    it.api.has(gated_in_group(name="a", annotations={POD_GROUP_NAME: "other"}), gated_in_group(name="b"))
    cycle(it)
    assert it.waiting() == {"a"}


def test_the_groups_own_priority_decides_the_order() -> None:
    groups: dict[str, dict[str, Any]] = {"low": {}, "high": {"priority": 9}}
    it = leader(*(native_pod_group(name=name, minimum=2, level=RACK, **own) for name, own in groups.items()))
    for second, group in enumerate(groups):
        it.api.has(*(gated_in_group(group, name=f"{group}-{n}", cpu=16, second=second) for n in "ab"))
    cycle(it)
    assert it.waiting() == {"low-a", "low-b"}


def test_a_mark_without_the_field_is_no_membership() -> None:
    it = leader(native_pod_group(minimum=2, level=RACK))
    it.api.has(gated(name="a", annotations={SCHEDULING_GROUP: "g"}, numa=None))
    cycle(it)
    assert it.waiting() == set()


def test_pods_of_a_group_below_a_composite_one_are_the_schedulers_and_say_so() -> None:
    group = native_pod_group(minimum=2, level=RACK, parentCompositePodGroupName="all")
    it = leader(group)
    assert not mutate_pod(in_group("g"), it.cache.snapshot(), Rules()).gated
    it.api.has(gated_in_group(name="a"), gated_in_group(name="b", annotations=NUMA))
    cycle(it)
    assert (it.waiting(), it.nodes()) == (set(), {})
    assert text_of(it, "b").startswith(
        "ungated: PodGroup g is part of CompositePodGroup all, which only kube-scheduler"
    )
    assert "nodeAffinity" not in str(it.api.pods["default/b"]["spec"])


# Where kube-scheduler gates a group as a whole: it tries none of the pods while one of them is gated.


def served_as_a_whole(*, minimum: int | None, level: str = RACK) -> Leader:
    it = leader(native_pod_group(minimum=minimum, level=level, version="v1beta1"))
    it.cache.native_groups.serve("v1beta1")
    return it


def domain_of(it: Leader, name: str) -> dict[str, str]:
    """The single required term's node labels with one value."""
    affinity = it.api.pods[f"default/{name}"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return {one["key"]: one["values"][0] for one in term["matchExpressions"] if one["operator"] == "In"}


@pytest.mark.parametrize("minimum", [None, 2])
def test_members_without_room_are_released_into_the_domain_of_their_group(minimum: int | None) -> None:
    it = served_as_a_whole(minimum=minimum)
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in "abc"))
    cycle(it)
    assert it.nodes().keys() == {"a", "b"}
    cycle(it)
    assert it.waiting() == set()
    assert it.nodes().keys() == {"a", "b"}
    assert domain_of(it, "c") == {RACK: "r1"}
    text = text_of(it, "c")
    assert text.startswith("left to the scheduler within rack r1, which tries no pod of a PodGroup while one of them")
    assert "rack r1 holds 0 of 1 pod: cpu" in text


def test_a_member_that_is_larger_than_others_is_kept_off_their_nodes() -> None:
    """kube-scheduler may try it first, by the sums of nodes: it would keep several of them off a node."""
    it = served_as_a_whole(minimum=4)
    it.api.has(gated_in_group(name="large", cpu=16), *(gated_in_group(name=name, cpu=8) for name in "abcd"))
    for _ in range(2):
        cycle(it)
    assert it.waiting() == set()
    affinity = it.api.pods["default/large"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["values"] for one in term["matchExpressions"] if one["operator"] == "NotIn"] == [["n0", "n1"]]
    assert "off 2 nodes of" in text_of(it, "large")


def test_they_stay_gated_where_the_scheduler_queues_each_pod_by_itself() -> None:
    it = leader(native_pod_group(minimum=2, level=RACK))
    it.cache.native_groups.serve("v1alpha2")
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in "abc"))
    for _ in range(2):
        cycle(it)
    assert it.waiting() == {"c"}


def test_a_member_that_holds_up_no_other_stays_gated_until_another_one_is_ungated() -> None:
    it = served_as_a_whole(minimum=2)
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in "ab"))
    cycle(it)
    for name, node in it.nodes().items():
        raw = it.api.pods[f"default/{name}"]
        it.api.has({**raw, "spec": {**raw["spec"], "nodeName": node}})
    it.api.has(gated_in_group(name="c", cpu=16))
    cycle(it)
    assert it.waiting() == {"c"}
    it.api.delete("default/a")
    it.api.has(gated_in_group(name="b2", cpu=8))  # it is placed, and c waits for its end
    for _ in range(2):
        cycle(it)
    assert it.waiting() == set()
    assert "c" not in it.nodes()


def test_the_next_members_go_where_those_wait_that_were_released() -> None:
    it = served_as_a_whole(minimum=2)
    it.api.has(*(gated_in_group(name=name, cpu=16) for name in "abc"))
    for _ in range(2):
        cycle(it)
    for name in "ab":
        it.api.delete(f"default/{name}")
    it.api.has(gated_in_group(name="d", cpu=8))
    cycle(it)
    assert it.nodes()["d"] in {"n0", "n1"}  # though n2 alone is tighter


def test_a_member_with_a_fault_holds_up_no_other() -> None:
    it = served_as_a_whole(minimum=2)
    it.api.has(*(gated_in_group(name=name, cpu=8) for name in "ab"))
    it.api.has(gated_in_group(name="odd", annotations={MIN_MEMBER: "7"}))
    for _ in range(2):
        cycle(it)
    assert it.waiting() == set()
    assert "odd" not in it.nodes()
    assert set(domain_of(it, "odd")) == {RACK}
    assert "spec.schedulingPolicy.gang.minCount of PodGroup g" in text_of(it, "odd")


def test_a_pod_whose_own_terms_must_not_change_is_kept_in_the_domain_by_its_node_selector() -> None:
    it = served_as_a_whole(minimum=2)
    own = {"nodeSelectorTerms": [{"matchExpressions": [{"key": RACK, "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": own}}
    it.api.has(*(gated_in_group(name=name, cpu=16, affinity=affinity) for name in "abc"))
    for _ in range(2):
        cycle(it)
    spec = it.api.pods["default/c"]["spec"]
    assert (spec["nodeSelector"], spec["affinity"]) == ({RACK: "r1"}, affinity)


def test_members_wait_for_the_bindings_of_none() -> None:
    """Two kinds of pods on one node: in other gangs the second waits until the first is bound."""
    it = served_as_a_whole(minimum=4)
    for number in range(4):
        numa = NUMA if number % 2 else {}
        it.api.has(gated_in_group(name=f"p{number}", cpu=8, annotations=numa))
    started: list[object] = []
    start = it.controller._pending._assigning.start
    it.controller._pending._assigning.start = lambda *of: (started.append(of[-1]), start(*of))  # type: ignore[method-assign, func-returns-value, assignment]
    cycle(it)
    assert it.waiting() == set()
    assert started == [None] * 4


GROUP = native_pod_group(minimum=2, level=RACK)


class ConditionWriter:
    """A leader of the racks above, and the conditions that it writes; the API server shows them."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.leader = leader(*objects)
        self.cache = self.leader.cache
        self.written: list[dict[str, Any]] = []
        self.answer = True
        writes: Any = self
        self.conditions = NativeGroupConditions(self.cache, writes, lambda: self.leader.leads)
        self.leader.controller.gang_examined.subscribe(self.conditions.saw)

    async def set_condition(self, key: str, version: str, condition: dict[str, Any]) -> Write:
        assert (key, version) == ("default/g", "v1alpha2")
        if self.answer:
            self.written.append(condition)
            self.shows(condition)
        return Write(Outcome.WRITTEN if self.answer else Outcome.REFUSED)

    def shows(self, condition: Mapping[str, Any]) -> None:
        """The PodGroup has this condition, from any writer."""
        put(self.cache, {**GROUP, "status": {"conditions": [dict(condition)]}})

    def turn(self) -> list[tuple[str, str, str]]:
        """One cycle and one comparison, as if the last were long ago; returns what has been written so far."""
        self.leader.controller._changed()
        cycle(self.leader)
        self.conditions._not_before.clear()
        asyncio.run(self.conditions.sweep(0))
        return [(one["status"], one["reason"], one["message"]) for one in self.written]

    def bind(self, *names: str) -> None:
        for name in names:
            raw = self.leader.api.pods[f"default/{name}"]
            self.leader.api.has({**raw, "spec": {**raw["spec"], "nodeName": self.leader.nodes()[name]}})


WAITS = ("False", "Unschedulable", "gang g: 1 of the 2 pods that must start together are there")
PLACED = ("True", "Scheduled", "placed in r1: 2 pods on 2 nodes")


def members(*names: str) -> list[dict[str, Any]]:
    return [gated_in_group(name=name, cpu=16) for name in names]


def test_it_says_what_the_group_waits_for_and_then_where_it_is_placed() -> None:
    site = ConditionWriter(GROUP)
    assert site.turn() == []  # no pod names it
    site.leader.api.has(*members("a"))
    assert site.turn() == [WAITS]
    assert site.turn() == [WAITS]
    site.leader.api.has(*members("b"))
    assert site.turn() == [WAITS]  # the scheduler has not bound them yet
    site.bind("a")
    assert site.turn() == [WAITS]
    site.bind("b")
    assert site.turn() == [WAITS, PLACED]
    assert [one["type"] for one in site.written] == ["PodGroupScheduled"] * 2
    site.leader.api.has(*members("c"))
    (*_, last) = site.turn()
    assert last[:2] == ("True", "Scheduled")
    assert last[2].startswith("placed in r1: 2 pods on 2 nodes; others wait: gang g")


def test_it_names_the_fields_of_the_group_that_have_no_effect_here() -> None:
    site = ConditionWriter(native_pod_group(minimum=2, level=RACK, resourceClaims=[{"name": "c"}]))
    site.leader.api.has(*members("a"))
    ignored = "; spec.resourceClaims is allocated by the scheduler: these devices need not be near the CPUs of the pods"
    assert site.turn() == [(*WAITS[:2], f"{WAITS[2]}{ignored}")]


def test_what_the_scheduler_writes_is_not_written_over_and_what_was_scheduled_once_stays_so() -> None:
    def scheduled(message: str) -> dict[str, str]:
        return {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": message}

    site = ConditionWriter(GROUP)
    site.leader.api.has(*members("a", "b"))
    site.turn()
    site.bind("a", "b")
    assert site.turn() == [PLACED]
    site.shows(scheduled("3 of 3"))
    assert site.turn() == [PLACED]
    site.shows(scheduled(""))
    assert site.turn() == [PLACED, PLACED]
    site.leader.leads = False
    site.turn()
    site.leader.leads = True  # a new leader has not said anything
    site.shows(scheduled(PLACED[2]))
    assert site.turn() == [PLACED, PLACED]
    site = ConditionWriter(GROUP)
    site.shows(scheduled(""))
    site.leader.api.has(*members("a"))
    assert site.turn() == []


def test_a_refused_write_is_tried_again_later() -> None:
    site = ConditionWriter(GROUP)
    site.leader.api.has(*members("a"))
    site.answer = False
    assert site.turn() == []
    assert site.conditions._not_before.keys() == {"default/g"}
    site.answer = True
    assert site.turn() == [WAITS]


def test_the_fault_of_a_group_is_in_its_condition() -> None:
    site = ConditionWriter(native_pod_group(minimum=2, level="example.com/none"))
    site.leader.api.has(*members("a"))
    ((status, _, message),) = site.turn()
    assert status == "False"
    assert '"example.com/none" is a level of no Topology. Levels are: example.com/rack.' in message
