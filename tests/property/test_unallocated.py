"""Pods that are bound while no replica answers, among others: every backfilled allocation is correct.

The machine is that of test_kubelet_admission, with some pods bound without an allocation:
1. While a replica is killed. The other replicas get these events like all others.
2. While all replicas are down. A replica that starts then knows the existing objects, and no pod that came and went.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from tests.property.kubelet_machine import CPUS, STEPS, Machine, weights_of
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Outage(Machine):
    """A machine on which some pods are bound without an allocation."""

    def __init__(self, seed: int) -> None:
        self.unallocated: set[str] = set()
        self.allocation_backfilled: set[str] = set()
        self.scanned: set[str] = set()
        super().__init__(random.Random(seed), zones=2 + seed % 3, fingerprint=seed % 4 > 0)  # noqa: S311 - no secret

    def bind_without_leave(self) -> None:
        """The scheduler and the API server bind a pod that is neither gated nor assigned."""
        taken = sum(self.cpus_of(name) for name in self.given)
        for name, raw in self.pods.items():
            waits = not raw["spec"].keys() & {"nodeName", "schedulingGates"} and self.allocation_of(name) is None
            if waits and taken + self.cpus_of(name) <= CPUS * len(self.free):
                self.unallocated.add(name)
                self.is_written_bound(name)
                return

    def allocation_late(self) -> None:
        """The leader backfills allocations. It waits for late statuses; here they come in order."""
        now, self.now = self.now, self.now + 10
        allocation_backfills = list(self.cache.allocation_backfills())
        self.now = now
        for late in allocation_backfills:
            name = late.pod.partition("/")[2]
            if late.allocation is not None and self.allocation_of(name) is None:
                self.pods[name]["metadata"]["annotations"][NUMA_ALLOCATION] = late.allocation.to_json()
                self.tell(name)
                self.allocation_backfilled.add(name)

    def scan(self) -> None:
        super().scan()
        self.scanned = set(self.given)

    def end_of_what_was_scanned(self) -> None:
        """A pod ends that the last scan had counted."""
        before = self.given
        self.given = {name: zone for name, zone in before.items() if name in self.scanned}
        rest = {name: zone for name, zone in before.items() if name not in self.scanned}
        self.end()
        self.given |= rest

    def known(self) -> tuple[object, object]:
        """What the replica knows of pods without an allocation, and what it considers free."""
        late = sorted(self.cache.allocation_backfills(), key=lambda late: late.pod)
        snapshot = self.cache.snapshot().nodes
        return late, snapshot.free(snapshot.node_arrays.resources.find("cpu")).tolist()

    def allocation_of(self, name: str) -> NUMAAllocation | None:
        text = self.pods[name]["metadata"]["annotations"].get(NUMA_ALLOCATION)
        return None if text is None else NUMAAllocation.parse(text)

    def wrongly_allocated(self) -> list[str]:
        """The pods whose backfilled allocation is not the kubelet's choice."""
        allocations = {
            name: self.allocation_of(name) for name in sorted(self.allocation_backfilled & self.given.keys())
        }
        return [
            name
            for name, allocation in allocations.items()
            if allocation and [zone for zone, _ in allocation.numa_nodes] != [self.given[name]]
        ]

    def take(self, steps: int, weights: Mapping[Callable[[], None], int]) -> None:
        for step in self.random.choices(list(weights), list(weights.values()), k=steps):
            step()
            assert self.wrongly_allocated() == []


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=1819)  # one ended that had no allocation itself
@example(seed=100029)  # one had an allocation and came elsewhere, and ended then
@example(seed=100031)
@example(seed=100106)
@example(seed=100163)
def test_an_allocation_backfill_says_what_the_kubelet_gave(seed: int) -> None:
    machine = Outage(seed)
    weights = weights_of(machine) | {machine.bind_without_leave: 2, machine.allocation_late: 4}
    machine.take(STEPS * 2, weights if seed % 5 else weights | {machine.restart: 1})
    event(f"{min(len(machine.allocation_backfilled), 3)} allocation backfills")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=370)  # bound within one second, and listed in one order or the other
@example(
    seed=203997
)  # one came elsewhere than its allocation says, was counted there, and left room for others on their way
@example(seed=200303)  # one was placed before the outage, bound in it, and came elsewhere than its allocation says
@example(seed=429)  # one that had ended was elsewhere than its allocation said, among others without one
def test_who_starts_after_an_outage_lets_no_pod_through_that_is_rejected_and_allocations_nobody_wrongly(
    seed: int,
) -> None:
    machine = Outage(seed)
    weights = weights_of(machine)
    machine.take(STEPS, weights)
    machine.hear_all()
    # Pods that came and went since the last scan nobody knows of.
    down = {machine.create: 3, machine.bind_without_leave: 3, machine.bind_unallocated: 1, machine.admit: 6}
    machine.take(STEPS // 3, down | {machine.end_of_what_was_scanned: 1, machine.scan: 1, machine.pass_time: 2})
    while machine.allowed:  # a new leader binds nothing before what the last one answered must be written
        machine.write()
    machine.restart(backwards=True)
    known = machine.known()
    machine.restart()
    assert machine.known() == known
    bound_before = set(machine.bound)
    machine.take(STEPS, weights | {machine.allocation_late: 4})
    assert set(machine.rejected) <= machine.unallocated | bound_before
    event(f"{min(len(machine.allocation_backfilled), 3)} allocation backfills")
