"""Node agents obey allocations: once all events have arrived, no allocation names a NUMA node that the pod has not.

The machine is that of test_kubelet_admission. In addition:
1. The leader writes missing allocations, corrects wrong ones and removes uncertain ones.
2. Unmanaged pods come: without annotation and allocation, and their kubelet gives them CPUs of a NUMA node.
3. Assigned pods are bound while no replica reviews bindings.
4. Pods are deleted, and others are created under their names, before the replica has heard of it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from jsonpatch import apply_patch

from tests.property.kubelet_machine import CPUS, STEPS, Machine, weights_of
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.resident import TERMINAL_PHASES
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC
from webhook.placing.pod.controller_patches import correcting

if TYPE_CHECKING:
    from collections.abc import Callable


class Allocated(Machine):
    """A machine whose pods' allocations are corrected."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - no secret
        super().__init__(draw, zones=draw.choice((2, 4)), fingerprint=draw.random() < 0.8)

    def bind_unmanaged(self) -> None:
        """An unmanaged pod comes and is bound."""
        if sum(map(self.cpus_of, self.given)) + 10 <= CPUS * len(self.free):
            self.is_written_bound(self.new_pod()["metadata"]["name"])

    def correct_allocations(self) -> None:
        """The leader corrects allocations."""
        for change in self.cache.allocation_changes():
            name = change.pod.partition("/")[2]
            raw = self.pods[name]
            is_it = (raw["metadata"]["uid"], raw["spec"].get("nodeName")) == (change.uid, change.node)
            if is_it and raw["status"]["phase"] not in TERMINAL_PHASES:
                self.pods[name] = apply_patch(raw, list(correcting(raw, change.node, change.allocation)))
                self.cache.allocation_written(change)
                self.tell(name)

    def tell_all(self) -> None:
        """Deliver all events, and write what follows from them."""
        self.hear_all()
        self.correct_allocations()
        self.hear_all()

    def allocated(self) -> dict[str, int | None]:
        """The NUMA node in the allocation of each of our live pods; None: no allocation."""
        found: dict[str, int | None] = {}
        for name in self.given:
            annotations = self.pods[name]["metadata"]["annotations"]
            if NUMA_TOPOLOGY_SPEC in annotations:
                allocation = (
                    NUMAAllocation.parse(annotations[NUMA_ALLOCATION]) if NUMA_ALLOCATION in annotations else None
                )
                found[name] = allocation.numa_nodes[0][0] if allocation is not None and allocation.certain else None
        return found

    def wrong(self) -> dict[str, tuple[int, int]]:
        """The wrong allocations, and what the kubelet gave."""
        return {
            name: (allocation, self.given[name])
            for name, allocation in self.allocated().items()
            if allocation is not None and allocation != self.given[name]
        }


def weights(machine: Allocated) -> dict[Callable[[], None], int]:
    return weights_of(machine) | {machine.correct_allocations: 4, machine.end: 3}


def take(machine: Allocated, steps: int, weights: dict[Callable[[], None], int]) -> None:
    for step in machine.random.choices(list(weights), list(weights.values()), k=steps):
        step()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=15)  # a pod was shown as it was before its binding, after the guard's answer to that
@example(seed=114)
def test_no_allocation_is_wrong_once_all_is_told(seed: int) -> None:
    machine = Allocated(seed)
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), weights(machine))
        machine.tell_all()
        assert machine.wrong() == {}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nor_where_unmanaged_pods_come(seed: int) -> None:
    machine = Allocated(seed)
    for _ in range(3):
        take(machine, machine.random.randrange(STEPS), weights(machine) | {machine.bind_unmanaged: 1})
        machine.tell_all()
        assert machine.wrong() == {}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=1394)  # an assigned pod was bound without a review while the binding of another one was on its way
@example(seed=1450)
@example(seed=200201)  # a pod that may be anywhere was narrowed down to where another one had left room
def test_nor_where_assigned_pods_are_bound_without_a_review(seed: int) -> None:
    machine = Allocated(seed)
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), weights(machine) | {machine.bind_unallocated: 2})
        machine.tell_all()
        assert machine.wrong() == {}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nor_where_pods_are_recreated_under_their_names(seed: int) -> None:
    machine = Allocated(seed)
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), weights(machine) | {machine.recreate: 4})
        machine.tell_all()
        assert machine.wrong() == {}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=300320)  # the NRT still named a pod that had been recreated on the same node
def test_nor_where_some_pods_are_recreated_others_unmanaged_and_others_bound_without_a_review(seed: int) -> None:
    machine = Allocated(seed)
    odd = {machine.recreate: 4, machine.bind_unmanaged: 1, machine.bind_unallocated: 2}
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), weights(machine) | odd)
        machine.tell_all()
        assert machine.wrong() == {}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=79)
@example(seed=80)
def test_a_replica_that_starts_keeps_no_wrong_allocation_of_a_pod_that_was_bound_without_a_review(seed: int) -> None:
    machine = Allocated(seed)
    take(machine, STEPS, weights(machine))
    machine.tell_all()
    reviewed = set(machine.bound)
    outage = {machine.create: 1, machine.bind_unallocated: 3, machine.bind_unmanaged: 1, machine.admit: 4}
    take(machine, STEPS // 3, outage | {machine.end: 2, machine.scan: 1, machine.pass_time: 1})
    machine.restart()
    machine.tell_all()
    assert not machine.wrong().keys() - reviewed


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_next_scan_says_of_most_pods_in_doubt_where_they_are(seed: int) -> None:
    machine = Allocated(seed)
    machine.fingerprint = True
    take(machine, 2 * STEPS, weights(machine))
    machine.tell_all()
    doubted = [name for name, allocation in machine.allocated().items() if allocation is None]
    machine.now += 1
    machine.scan()
    machine.tell_all()
    assert machine.wrong() == {}
    allocated = machine.allocated()
    found = sum(allocated[name] is not None for name in doubted)
    event(f"{found} of {len(doubted)} found, of {len(allocated)}")
