"""An allocation is wrong if it names other NUMA nodes than those of what the kubelet gave the pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kubelets import even_machine
from tests.proof.allocations import choices
from tests.proof.measure import measure
from tests.proof.observe import History
from tests.proof.scenario import ProofScenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def allocation(*numa_ids: int) -> str:
    return json.dumps(
        {"node": "n", "numaNodeResources": [{"node": numa, "resources": {"cpu": "2"}} for numa in numa_ids]}
    )


def admitted(pod: str, *containers: Mapping[str, Any]) -> dict[str, Any]:
    """An event of the kubelets' journal."""
    return {"event": "admitted", "node": "n", "pod": f"default/{pod}", "uid": pod, "containers": containers}


def cpus(numa: int) -> dict[str, Any]:
    memory = [{"numaAffinity": [numa], "type": "memory", "size": 1}]
    return {"name": "c", "affinity": [numa], "cpusPerNuma": {str(numa): 2}, "memory": memory}


def bound(pod: str, *allocations: str) -> History:
    """A pod that had these allocations since it was bound, one after the other."""
    return History(pod, "w", 0.0, asks=True, allocations=[(float(at), text) for at, text in enumerate(allocations)])


def wrong(admissions: Sequence[Mapping[str, Any]], *pods: History) -> list[str]:
    return [choice.pod for choice in choices(admissions, {pod.name: pod for pod in pods}) if choice.wrong]


def test_a_wrong_allocation_is_counted_and_a_right_one_is_not() -> None:
    admissions = [admitted("right", cpus(0)), admitted("wrong", cpus(0))]
    pods = [bound("right", allocation(0)), bound("wrong", allocation(1))]
    found = choices(admissions, {pod.name: pod for pod in pods})
    row = measure(ProofScenario("s", [even_machine("n")], [], 1.0, 0.5), [], found, webhook=True, refused_binds=0)
    assert (row.hints, row.wrong_hints) == (2, 1)
    assert wrong(admissions, *pods) == ["wrong"]


@pytest.mark.parametrize("named", [(0,), (0, 1, 2), (1, 2)])
def test_an_allocation_that_names_too_few_too_many_or_other_numa_nodes_is_wrong(named: tuple[int, ...]) -> None:
    admissions = [admitted("p", cpus(0), cpus(1))]
    assert wrong(admissions, bound("p", allocation(*named))) == ["p"]
    assert wrong(admissions, bound("p", allocation(0, 1))) == []


def test_memory_and_devices_are_on_numa_nodes_as_well() -> None:
    memory = {"name": "c", "memory": [{"numaAffinity": [0, 1], "type": "memory", "size": 1}]}
    assert wrong([admitted("p", memory)], bound("p", allocation(0))) == ["p"]
    device = {"name": "c", "devices": {"example.com/gpu": {"1": 1}, "example.com/nic": {"none": 1}}}
    assert wrong([admitted("p", device)], bound("p", allocation(0))) == ["p"]
    assert wrong([admitted("p", device)], bound("p", allocation(1))) == []


def test_the_last_allocation_counts() -> None:
    admissions = [admitted("p", cpus(0))]
    assert wrong(admissions, bound("p", allocation(1), allocation(0))) == []
    assert wrong(admissions, bound("p", allocation(0), allocation(1))) == ["p"]


def test_no_allocation_misleads_nobody() -> None:
    admissions = [admitted("p", cpus(0))]
    assert wrong(admissions, bound("p", "")) == []
    assert wrong(admissions, bound("p", allocation(1), "")) == []
    (choice,) = choices(admissions, {"p": bound("p", allocation(1), "")})
    assert (choice.allocation, choice.first_allocation) == (None, frozenset({1}))


def test_a_pod_whose_kubelet_gave_it_nothing_of_a_numa_node_is_not_compared() -> None:
    assert choices([admitted("p", {"name": "c", "affinity": None})], {"p": bound("p", allocation(1))}) == []


def test_koordlet_puts_a_pod_where_its_allocation_says() -> None:
    admissions = [admitted("p", cpus(0))]
    assert choices(admissions, {"p": bound("p", allocation(1))}, "koordlet") == []
    assert [choice.wrong for choice in choices(admissions, {"p": bound("p", allocation(1))}, "nfd")] == [True]
