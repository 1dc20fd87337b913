"""Allocations whose signature is not valid any more: the key was lost while placed pods were not bound yet."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import GATES, created, gated
from tests.unit.controllers.leader import Leader
from webhook.admission.binding.decision import Given, Refusal, guard
from webhook.controllers.unbindable_pods import UnbindablePods
from webhook.formats.koordinator.numa_allocation import AllocationKey, NUMAAllocation
from webhook.model.names import HOSTNAME_LABEL, NUMA_ALLOCATION, NUMA_SIGNATURE, RESOURCE_STATUS
from webhook.placing.pod.binding_pod import BindingPod, assigned_node
from webhook.state.pod_info import believed
from webhook.state.rules import Rules

ALLOCATION = json.dumps({"node": "n0", "numaNodeResources": [{"node": 0, "resources": {"cpu": "8"}}]})
# n0, n1 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]
MACHINES = [*machine(name="n0", free=(8, 8)), *machine(name="n1", free=(8, 8))]


def named(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def held_to(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def placed(name: str = "p", allocation: str = ALLOCATION, numa: str | None = "{}", **spec: Any) -> dict[str, Any]:
    """A pod that was placed on n0 under another key."""
    annotations = {NUMA_ALLOCATION: allocation, NUMA_SIGNATURE: "of another key"}
    return created(name=name, numa=numa, annotations=annotations, **{"affinity": held_to(named("n0")), **spec})


def read(raw: dict[str, Any]) -> NUMAAllocation | None:
    return assigned_node(believed(raw, Rules(), AllocationKey.create()))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": {}, "nodeSelector": {HOSTNAME_LABEL: "n0"}},
        {"affinity": held_to({"matchExpressions": [{"key": "gpu", "operator": "Exists"}], **named("n0")}, named("n0"))},
    ],
    ids=["by name", "by hostname", "in each of its terms"],
)
def test_the_allocation_of_a_pod_that_is_pinned_to_its_node_still_names_the_node_and_no_numa_nodes(
    spec: dict[str, Any],
) -> None:
    raw = placed(**spec)
    before = json.loads(json.dumps(raw))
    assert read(raw) == NUMAAllocation.without_numa_nodes("n0")
    assert raw == before


@pytest.mark.parametrize(
    "raw",
    [
        placed(schedulingGates=GATES),
        placed(schedulingGates=[{"name": "example.com/hold"}]),
        placed(affinity={}),
        placed(affinity=held_to()),
        placed(affinity=held_to(named("n1"))),
        placed(affinity=held_to(named("n0"), named("n1"))),
        placed(affinity={}, nodeSelector={HOSTNAME_LABEL: "n1"}),
        placed(numa=None),
        placed(schedulerName="another"),
        placed(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "never"}}]),
        placed(allocation="no hint"),
    ],
    ids=[
        "our gate",
        "another gate",
        "not pinned",
        "no term",
        "to another node",
        "or to another node",
        "another hostname",
        "unmanaged",
        "of another scheduler",
        "the scheduler may wait for its volume",
        "unreadable",
    ],
)
def test_any_other_allocation_without_a_valid_signature_counts_for_nothing(raw: dict[str, Any]) -> None:
    assert read(raw) is None


def test_a_pod_whose_reservation_was_released_gets_none_with_the_next_key() -> None:
    released = NUMAAllocation.without_reservation("n0")
    assert read(placed(allocation=released.to_json())) == released


async def test_the_leader_with_a_new_key_does_not_give_the_room_of_placed_pods_again() -> None:
    before = Leader(*MACHINES)
    before.api.has(*(gated(name=f"old-{number}") for number in range(2)))
    await before.cycle()
    assert len(before.nodes()) == 2
    after = Leader(*MACHINES)  # with a key of its own
    after.api.has(*before.api.pods.values(), *(gated(name=f"new-{number}") for number in range(2)))
    await after.cycle()
    assert Counter(after.nodes().values()) == {"n0": 2, "n1": 2}
    assert after.waiting() == set()


async def test_its_room_is_given_to_others_once_the_scheduler_cannot_bind_it() -> None:
    leader = Leader(*machine(name="n0", free=(8, 8)))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "never there"}
    leader.api.has({**placed(cpu=16), "status": {"conditions": [condition]}}, gated(name="other"))
    await leader.cycle()
    assert leader.waiting() == {"other"}
    api: Any = leader.api
    unbindable = UnbindablePods(leader.cache, leader.api, api, Rules(), lambda: True, 1)
    await unbindable.sweep(0)
    await unbindable.sweep(9)
    await leader.cycle()
    assert leader.waiting() == set()


@pytest.mark.parametrize("free", [(8, 8), (0, 8)])
def test_the_guard_gives_it_what_is_free_and_replaces_its_old_allocation(free: tuple[int, int]) -> None:
    cache = cluster_cache(*machine(name="n0", free=free))
    put(cache, placed())
    raw = cache.waiting_pod("default/p", "p")
    assert raw is not None
    pod = BindingPod.from_object(raw, Rules())
    given = guard(pod, "n0", cache.kubelet_admission("n0", "default/p"), Rules())
    assert isinstance(given, Given)
    assert [numa_id for numa_id, _ in given.numa_nodes] == [free.index(8)]
    assert given.as_assumed() is None  # a leader that may not know all reservations refuses
    assert {NUMA_ALLOCATION, RESOURCE_STATUS} <= given.annotations.keys()


def test_two_of_them_do_not_wait_for_each_other_and_another_pod_waits_for_both() -> None:
    cache = cluster_cache(*machine(name="n0", free=(8, 8)))
    put(cache, placed("a"), placed("b"), created(name="other"))

    def verdict(name: str) -> object:
        raw, admission = cache.waiting_pod(f"default/{name}", name), cache.kubelet_admission("n0", f"default/{name}")
        assert raw is not None
        return guard(BindingPod.from_object(raw, Rules()), "n0", admission, Rules())

    assert isinstance(verdict("a"), Given)
    assert isinstance(verdict("b"), Given)
    refusal = verdict("other")
    assert isinstance(refusal, Refusal)
    assert refusal.after == {"default/a", "default/b"}
