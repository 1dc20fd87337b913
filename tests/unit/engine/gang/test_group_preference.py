"""Preferred nodes and racks decide between places with equally few domains and nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.builders.gangs import GPU, LEVELS, RACK, ZONE, group, podset
from tests.builders.records import GI, node, pod, state
from tests.unit.engine.gang.assignments import assigned, nodes_of, values_of
from webhook.engine.gang import mean_preference
from webhook.engine.gang.gang_spec import Constraint, Gang, PodSet, Segments
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Taint
from webhook.formats.kubernetes.pod import Pod
from webhook.model.limits import MAX_REQUIREMENTS
from webhook.model.options import GangStrategy

SPREAD = GangStrategy.SPREAD


def racks_of(rooms: Mapping[str, Sequence[int]], **labels: str) -> ClusterState:
    """`{"zone-a/rack-1": [4, 4]}`: nodes rack-1.0 and rack-1.1 with 4 free GPUs each.

    labels: of a node or of all nodes of a rack, `disk=ssd`; `soft` is a soft taint.
    """
    nodes = []
    for path, free in rooms.items():
        zone, _, rack = path.partition("/")
        for number, gpus in enumerate(free):
            name = f"{rack}.{number}"
            own = labels.get(name.replace("-", "_").replace(".", "_"), labels.get(rack.replace("-", "_"), ""))
            key, _, value = own.partition("=")
            soft = [Taint("soft", "", "PreferNoSchedule")] if own == "soft" else []
            there = {**dict(zip(LEVELS, (zone, rack), strict=True)), **({key: value} if value else {})}
            amounts = {"cpu": 10**6, "memory": 1000 * GI, "pods": 110, GPU: gpus}
            nodes.append(node(name=name, allocatable=amounts, labels=there, taints=soft))
    return state(*nodes)


def preferring(value: str | None = "ssd", weight: int = 1, gpus: int = 1, **spec: Any) -> Pod:
    """A pod that prefers nodes with disk=value."""
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}
    terms = [{"weight": weight, "preference": term}] if value else []
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod({"cpu": "1", "memory": "1Gi", GPU: str(gpus)}, spec={"affinity": affinity, **spec})


def counts(cluster: ClusterState, asked: Gang, strategy: GangStrategy = GangStrategy.BIN_PACK) -> dict[str, int]:
    """Node -> pods on it."""
    found = nodes_of(assigned(cluster, asked, strategy))
    return {name: len(found[name]) for name in sorted(found)}


def workers(count: int, constraint: Constraint | None = None, of: Pod | None = None, **more: Any) -> Gang:
    return group(
        podset(name="w", of=of or preferring(), count=count, **more), constraint=constraint or Constraint(RACK)
    )


# zone-a ─┬─ rack-1 ── [4 4]        [free GPUs]
#         ├─ rack-2 ── [4 4]   ssd
#         └─ rack-3 ── [4 4]
EQUAL = {"zone-a/rack-1": [4, 4], "zone-a/rack-2": [4, 4], "zone-a/rack-3": [4, 4]}


@pytest.mark.parametrize("strategy", GangStrategy)
def test_of_equal_racks_the_preferred_one_is_taken(strategy: GangStrategy) -> None:
    cluster = racks_of(EQUAL, rack_2="disk=ssd")
    assert values_of(assigned(cluster, workers(8), strategy)) == ["zone-a", "rack-2"]
    assert values_of(assigned(cluster, workers(8, of=preferring(None)), strategy)) == ["zone-a", "rack-1"]


@pytest.mark.parametrize("strategy", GangStrategy)
def test_of_equal_racks_one_without_soft_taints_is_taken_unless_they_are_tolerated(strategy: GangStrategy) -> None:
    cluster = racks_of(EQUAL, rack_1="soft", rack_2="soft")
    assert values_of(assigned(cluster, workers(8, of=preferring(None)), strategy)) == ["zone-a", "rack-3"]
    tolerant = preferring(None, tolerations=[{"key": "soft", "operator": "Exists"}])
    assert values_of(assigned(cluster, workers(8, of=tolerant), strategy)) == ["zone-a", "rack-1"]


# zone-a ─┬─ rack-1 ── [4 4]
#         └─ rack-2 ── [3 3 3]   ssd
def test_neither_racks_nor_nodes_are_spent_on_a_preference() -> None:
    cluster = racks_of({"zone-a/rack-1": [4, 4], "zone-a/rack-2": [3, 3, 3]}, rack_2="disk=ssd")
    assert counts(cluster, workers(8)) == {"rack-1.0": 4, "rack-1.1": 4}
    assert counts(cluster, workers(9, Constraint(ZONE))) == {"rack-2.0": 3, "rack-2.1": 3, "rack-2.2": 3}
    assert counts(cluster, workers(10, Constraint(ZONE))) == {"rack-1.0": 4, "rack-1.1": 4, "rack-2.0": 2}


# zone-a ─┬─ rack-1 ── [4]
#         └─ rack-2 ── [8]   ssd
def test_a_preferred_rack_goes_before_a_tighter_one() -> None:
    cluster = racks_of({"zone-a/rack-1": [4], "zone-a/rack-2": [8]}, rack_2="disk=ssd")
    assert values_of(assigned(cluster, workers(4))) == ["zone-a", "rack-2"]
    assert values_of(assigned(cluster, workers(4, of=preferring(None)))) == ["zone-a", "rack-1"]


# zone-a ─┬─ rack-1 ── [4 4 4 4]   its second and fourth are ssd
#         └─ rack-2 ── [4 4 4]     its first is ssd
MIXED = {"zone-a/rack-1": [4, 4, 4, 4], "zone-a/rack-2": [4, 4, 4]}
SSDS = {"rack_1_1": "disk=ssd", "rack_1_3": "disk=ssd", "rack_2_0": "disk=ssd"}


def test_a_rack_counts_for_the_nodes_that_the_group_would_get_there() -> None:
    cluster = racks_of(MIXED, **SSDS)
    # One node is enough: both racks have a preferred one, and rack-2 is tighter.
    assert counts(cluster, workers(4)) == {"rack-2.0": 4}
    assert counts(cluster, workers(8)) == {"rack-1.1": 4, "rack-1.3": 4}
    assert counts(cluster, workers(9)) == {"rack-1.0": 1, "rack-1.1": 4, "rack-1.3": 4}


@pytest.mark.parametrize("constraint", [Constraint(), Constraint(ZONE), Constraint(None, RACK), Constraint(ZONE, RACK)])
def test_so_it_is_at_every_level(constraint: Constraint) -> None:
    cluster = racks_of(MIXED, **SSDS)
    assert counts(cluster, workers(8, constraint)) == {"rack-1.1": 4, "rack-1.3": 4}
    equal = racks_of(
        {path.replace("zone-a/rack-3", "zone-b/rack-3"): free for path, free in EQUAL.items()}, rack_3="disk=ssd"
    )
    assert counts(equal, workers(8, constraint)) == {"rack-3.0": 4, "rack-3.1": 4}


# zone-a ── rack-1 ── [10 8 8 3]   the second and the third are ssd
def test_the_largest_node_stays_out_where_as_few_preferred_ones_are_enough() -> None:
    cluster = racks_of({"zone-a/rack-1": [10, 8, 8, 3]}, rack_1_1="disk=ssd", rack_1_2="disk=ssd")
    assert counts(cluster, workers(16)) == {"rack-1.1": 8, "rack-1.2": 8}
    assert counts(cluster, workers(8)) == {"rack-1.1": 8}
    assert counts(cluster, workers(3)) == {"rack-1.1": 3}
    assert counts(cluster, workers(17)) == {"rack-1.0": 10, "rack-1.1": 7}
    assert counts(cluster, workers(3, of=preferring(None))) == {"rack-1.3": 3}


# zone-a ── 40 racks [2]   every tenth is ssd
def test_of_many_sets_of_racks_a_preferred_one_is_found() -> None:
    rooms = {f"zone-a/rack-{number:02}": [2] for number in range(40)}
    cluster = racks_of(rooms, **{f"rack_{number:02}": "disk=ssd" for number in range(9, 40, 10)})
    for constraint in (Constraint(), Constraint(ZONE), Constraint(None, RACK)):
        assert counts(cluster, workers(8, constraint)) == {f"rack-{number:02}.0": 2 for number in range(9, 40, 10)}


# 600 racks of one node [2]   rack-500 is ssd
def test_of_many_racks_the_preferred_one_is_found() -> None:
    cluster = racks_of({f"zone-a/rack-{number}": [2] for number in range(600)}, rack_500="disk=ssd")
    assert counts(cluster, workers(2)) == {"rack-500.0": 2}


# zone-a ─┬─ rack-1 ── [4 4]
#         └─ rack-2 ── [4 4]   ssd
def test_running_members_go_before_preferences() -> None:
    cluster = racks_of({"zone-a/rack-1": [4, 4], "zone-a/rack-2": [4, 4]}, rack_2="disk=ssd")
    for constraint in (Constraint(RACK), Constraint(None, RACK), Constraint(ZONE)):
        answer = assigned(cluster, workers(2, constraint, running=[(0, "rack-1.0")]))
        assert set(nodes_of(answer)) == {"rack-1.0"}


@pytest.mark.parametrize("constraint", [Constraint(), Constraint(ZONE), Constraint(None, RACK)])
def test_segments_go_to_preferred_racks_among_equals(constraint: Constraint) -> None:
    cluster = racks_of(EQUAL, rack_2="disk=ssd", rack_3="disk=ssd")
    asked = workers(16, constraint, segments=Segments(8, Constraint(RACK)))
    assert counts(cluster, asked) == {"rack-2.0": 4, "rack-2.1": 4, "rack-3.0": 4, "rack-3.1": 4}


# zone-a ─┬─ rack-1 ── [9]
#         ├─ rack-2 ── [8]
#         └─ rack-3 ── [8]   ssd
def test_the_last_smaller_segment_gets_no_rack_of_its_own_for_a_preference() -> None:
    cluster = racks_of({"zone-a/rack-1": [9], "zone-a/rack-2": [8], "zone-a/rack-3": [8]}, rack_3="disk=ssd")
    asked = workers(9, Constraint(ZONE), segments=Segments(8, Constraint(RACK)))
    assert counts(cluster, asked) == {"rack-1.0": 9}
    asked = workers(17, Constraint(ZONE), segments=Segments(8, Constraint(RACK)))
    assert counts(cluster, asked) == {"rack-1.0": 9, "rack-3.0": 8}


def test_an_elastic_group_goes_to_the_preferred_of_the_racks_that_hold_most() -> None:
    cluster = racks_of(EQUAL, rack_2="disk=ssd")
    assert values_of(assigned(cluster, workers(12, minimum=4))) == ["zone-a", "rack-2"]


# zone-a ─┬─ rack-1 ── [4 4]        hdd
#         └─ rack-2 ── [4 4]   ssd
def roles(**of: tuple[Pod, int]) -> tuple[PodSet, ...]:
    return tuple(podset(name=name, of=each, count=count) for name, (each, count) in of.items())


@pytest.mark.parametrize("gpus", [1, 2])
def test_what_most_pods_prefer_counts_most(gpus: int) -> None:
    cluster = racks_of({"zone-a/rack-1": [4, 4], "zone-a/rack-2": [4, 4]}, rack_1="disk=hdd", rack_2="disk=ssd")
    # With 2 GPUs the leader is of another kind than its workers.
    asked = group(
        *roles(leader=(preferring("hdd", gpus=gpus), 1), worker=(preferring("ssd"), 5)), constraint=Constraint(RACK)
    )
    assert values_of(assigned(cluster, asked)) == ["zone-a", "rack-2"]
    asked = group(
        *roles(leader=(preferring("hdd", gpus=gpus), 1), worker=(preferring(None), 5)), constraint=Constraint(RACK)
    )
    assert values_of(assigned(cluster, asked)) == ["zone-a", "rack-1"]


# zone-a ── rack-1 ── [4 4 4]   the last is ssd
def test_each_kind_of_a_group_gets_its_own_preferred_nodes() -> None:
    cluster = racks_of({"zone-a/rack-1": [4, 4, 4]}, rack_1_2="disk=ssd")
    asked = group(
        *roles(leader=(preferring("ssd", gpus=4), 1), worker=(preferring("hdd"), 8)), constraint=Constraint(RACK)
    )
    assert nodes_of(assigned(cluster, asked))["rack-1.2"] == ["leader-0"]


def test_members_of_one_set_that_differ_in_what_they_prefer_count_by_their_number() -> None:
    cluster = racks_of({"zone-a/rack-1": [4, 4], "zone-a/rack-2": [4, 4]}, rack_1="disk=hdd", rack_2="disk=ssd")
    for hdd, rack in ((3, "rack-2"), (5, "rack-1")):
        several = (preferring("hdd"), hdd), (preferring("ssd"), 4)
        asked = group(podset(name="w", of=preferring("hdd"), count=8, preferring=several), constraint=Constraint(RACK))
        assert values_of(assigned(cluster, asked)) == ["zone-a", rack]


def wish(number: int, value: str, requirements: int) -> Pod:
    """A pod of one GPU with its own preference."""
    there = {"key": "disk", "operator": "In", "values": [value]}
    other = {"key": f"k{number}", "operator": "DoesNotExist"}
    terms = [{"weight": 100, "preference": {"matchExpressions": [there, other]}} for _ in range(requirements // 2)]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod({"cpu": "1", "memory": "1Gi", GPU: "1"}, spec={"affinity": affinity})


def test_what_a_group_prefers_is_read_up_to_a_bound() -> None:
    # Each of these has its own wish of 256 requirements; the workers' counts first.
    cluster = racks_of({"zone-a/rack-1": [40], "zone-a/rack-2": [40]}, rack_1="disk=hdd", rack_2="disk=ssd")
    leaders = [podset(name=f"leader-{number}", of=wish(number, "hdd", 256), count=1) for number in range(20)]
    workers_ = podset(name="worker", of=wish(99, "ssd", 256), count=12)
    # 12 workers, and 3 of the 20 leaders.
    assert values_of(assigned(cluster, group(*leaders, workers_, constraint=Constraint(RACK)))) == ["zone-a", "rack-2"]


def test_a_pod_with_as_many_requirements_as_one_may_have_is_read() -> None:
    cluster = racks_of(EQUAL, rack_2="disk=ssd")
    assert values_of(assigned(cluster, workers(8, of=wish(0, "ssd", MAX_REQUIREMENTS)))) == ["zone-a", "rack-2"]


def test_beyond_the_bound_few_preferences_are_compared_with_those_that_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Pod] = []
    same = mean_preference._prefer_the_same

    def counted(one: Pod, other: Pod) -> bool:
        compared.append(one)
        return same(one, other)

    monkeypatch.setattr(mean_preference, "_prefer_the_same", counted)
    cluster = racks_of({"zone-a/rack-1": [500]})
    several = tuple((wish(number, "ssd", 2), 1) for number in range(500))
    assigned(cluster, group(podset(name="w", of=several[0][0], count=500, preferring=several)))
    assert 0 < len(compared) < 2 * 64 * 64
