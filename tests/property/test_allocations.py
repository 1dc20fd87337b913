"""Node agents obey allocations: once all events have arrived, no allocation names a NUMA node that the pod has not.

The machine is that of test_kubelet_admission. In addition:
1. The leader writes missing allocations, corrects wrong ones and removes uncertain ones.
2. Unmanaged pods come: without annotation and allocation, and their kubelet gives them CPUs of a NUMA node.
3. Assigned pods are bound while no replica reviews bindings.
4. Pods are deleted, and others are created under their names, before the replica has heard of it.
"""

from __future__ import annotations

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from tests.property.allocated_machine import Allocated, take, weights
from tests.property.kubelet_machine import STEPS


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
