"""What a kubelet gave to unallocated pods, if everything since the last NRT is known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.builders.records import cpus, node, resident, state, topology
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.engine.snapshot.single_node import node_alone
from webhook.formats.kubernetes.pod import ContainerKind
from webhook.formats.kubernetes.pod_resources import Container
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.unallocated import Replayed, Unallocated, WhyUnknown
from webhook.state.kubelet_predictions import replay


def bound(name: str, cpu: int, at: int, numa: int | None = None, policy: NUMAPolicy | None = None) -> ResidentPod:
    """A pod that was bound at a second, with a hint or without, and started."""
    amounts = {"cpu": 1000 * cpu}
    record = resident(
        name=name, node="n", requests=amounts, numa=None if numa is None else {numa: amounts}, policy=policy
    )
    containers = (Container("main", ContainerKind.APP, amounts, amounts),)
    return replace(record, containers=containers, bound_at=at, unallocated=numa is None)


def on(cpu: int, *numa: int) -> NumaAmounts:
    return {numa_id: {"cpu": 1000 * cpu} for numa_id in numa}


def known(cpu: int, numa: int) -> Replayed:
    return Replayed(on(cpu, numa))


def anywhere(cpu: int, why_unknown: WhyUnknown) -> Replayed:
    return Replayed(on(cpu, 0, 1), why_unknown)


# n ── NUMA 0 [16]  NUMA 1 [16]      [cpus, all of them free]
EMPTY = topology(node="n", free=cpus(16, 16))


def replayed(
    *admissions: ResidentPod,
    nrt: NodeTopology = EMPTY,
    before: Sequence[ResidentPod] = (),
    why_unknown: WhyUnknown | None = None,
    given: Mapping[str, NumaAmounts] | None = None,
) -> dict[str, Replayed]:
    """Pod name -> replay result, for each unallocated pod."""
    node_arrays = state(node(name="n"), nrt, *before, *admissions).node_arrays()
    alone = node_alone(node_arrays, "n", before)
    assert alone is not None
    asked = {pod.key for pod in admissions if pod.unallocated}
    found = replay(alone, Unallocated(admissions, asked, before, why_unknown, given=given or {}))
    return {key.removeprefix("default/"): one for key, one in found.items()}


def test_each_gets_the_first_numa_node_with_room_in_the_order_of_binding() -> None:
    found = replayed(bound("a", 9, at=1), bound("b", 9, at=2), bound("c", 7, at=3))
    assert found == {"a": known(9, 0), "b": known(9, 1), "c": known(7, 0)}


def test_what_the_nrt_has_counted_is_taken() -> None:
    nrt = topology(node="n", free=cpus(7, 16))
    assert replayed(bound("b", 9, at=2), nrt=nrt, before=[bound("a", 9, at=1, numa=0)]) == {"b": known(9, 1)}


def test_where_there_is_a_doubt_each_may_be_anywhere() -> None:
    found = replayed(bound("a", 9, at=1), bound("b", 4, at=2), why_unknown=WhyUnknown.ENDED)
    assert found == {"a": anywhere(9, WhyUnknown.ENDED), "b": anywhere(4, WhyUnknown.ENDED)}


def test_one_that_has_not_started_and_all_after_it_are_in_doubt() -> None:
    pods = bound("a", 9, at=1), replace(bound("b", 9, at=2), started=False), bound("c", 4, at=3)
    found = replayed(*pods)
    assert found == {
        "a": known(9, 0),
        "b": anywhere(9, WhyUnknown.NOT_STARTED),
        "c": anywhere(4, WhyUnknown.NOT_STARTED),
    }


def test_one_that_started_without_room_and_all_after_it_are_in_doubt() -> None:
    found = replayed(bound("a", 9, at=1), bound("b", 9, at=2), bound("c", 9, at=3), bound("d", 1, at=4))
    assert {name: one.why_unknown for name, one in found.items()} == {
        **dict.fromkeys("ab"),
        **dict.fromkeys("cd", WhyUnknown.DIFFERS),
    }


def test_where_a_hint_is_not_what_comes_out_those_after_it_are_in_doubt() -> None:
    # b must be on NUMA 1. Whoever says that it is on NUMA 0 may know of somebody who has left.
    found = replayed(bound("a", 9, at=1), bound("b", 9, at=2, numa=0), bound("c", 7, at=3))
    assert found == {"a": known(9, 0), "c": anywhere(7, WhyUnknown.DIFFERS)}


def test_a_hint_that_is_what_comes_out_counts() -> None:
    found = replayed(bound("a", 9, at=1), bound("b", 9, at=2, numa=1), bound("c", 7, at=3))
    assert found == {"a": known(9, 0), "c": known(7, 0)}


def test_too_many_are_not_admitted_once_more() -> None:
    found = replayed(*[bound(f"p{number}", 1, at=number) for number in range(17)])
    assert found == dict.fromkeys(found, anywhere(1, WhyUnknown.TOO_MANY))


def test_a_pod_without_exclusive_resources_holds_nothing_of_a_numa_node() -> None:
    shared = replace(bound("a", 2, at=1), containers=(), exclusive_resources=False)
    assert replayed(shared) == {"a": Replayed({})}
    assert replayed(shared, why_unknown=WhyUnknown.ENDED) == {"a": Replayed({}, WhyUnknown.ENDED)}


# Their kubelet's part is koordlet's, which does as it is told.
TOTALS = topology(node="n", free=cpus(16, 16), publisher=Publisher.TOTAL, policy=NUMAPolicy.NONE)


@pytest.mark.parametrize("policy", [NUMAPolicy.SINGLE_NUMA_NODE, None])
def test_where_the_numa_nodes_are_ours_to_choose_each_is_given_some(policy: NUMAPolicy | None) -> None:
    hinted = bound("b", 9, at=2, numa=0)
    found = replayed(bound("a", 9, 1, policy=policy), bound("c", 9, 1, policy=policy), nrt=TOTALS, before=[hinted])
    if policy is None:
        assert found == {"a": Replayed({}), "c": Replayed({})}
    else:
        assert found == {"a": known(9, 1), "c": Replayed({}, WhyUnknown.NO_ROOM)}


def test_who_was_given_a_numa_node_keeps_it_for_its_hint_may_be_on_its_way() -> None:
    single = NUMAPolicy.SINGLE_NUMA_NODE
    pods = bound("a", 9, 1, policy=single), bound("b", 9, 2, policy=single)
    assert replayed(*pods, nrt=TOTALS, given={"default/b": on(9, 0)}) == {"a": known(9, 1), "b": known(9, 0)}
