"""Whatever node agents and tenants say of where pods are, no NUMA node is given twice because of it.

The machine is that of test_allocations: one kubelet, its exporter, the guard, and the leader, in any order. In addition
an agent writes into running pods where they are, or a tenant where they are not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.property.allocated_machine import Allocated, take, weights
from tests.property.kubelet_machine import NODE, STEPS
from webhook.model.names import KAI_OBSERVED_PLACEMENT
from webhook.placing.node_holdings import Holdings
from webhook.state.assumed.observed_placement import NUMASource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Observed(Allocated):
    """A machine whose pods say where they are."""

    def __init__(self, seed: int, *, honest: bool) -> None:
        self.honest = honest
        super().__init__(seed)

    def observe(self) -> None:
        """An agent, or a tenant, writes the annotation of a running pod."""
        if self.given:
            name = self.random.choice(sorted(self.given))
            numa_id = self.given[name]
            if not self.honest and self.random.random() < 0.5:
                numa_id = self.random.randrange(len(self.free))
            zones = [{"zone": f"node-{numa_id}", "amount": {"cpu": str(self.cpus_of(name))}}]
            self.pods[name]["metadata"]["annotations"][KAI_OBSERVED_PLACEMENT] = json.dumps(zones)
            self.tell(name)

    def reserved(self) -> Mapping[int, int]:
        """The reserved CPUs by NUMA id, as a replica sees them that starts now."""
        self.restart()
        ledger = self.cache.snapshot().nodes.ledger
        sums = {} if ledger is None else ledger.sums(NODE).numa
        return {numa_id: amounts.get("cpu", 0) for numa_id, amounts in sums.items()}

    def reserved_blindly(self) -> Mapping[int, int]:
        """The same without what agents and tenants say."""
        said = {
            name: raw["metadata"]["annotations"].pop(KAI_OBSERVED_PLACEMENT, None) for name, raw in self.pods.items()
        }
        try:
            return self.reserved()
        finally:
            for name, text in said.items():
                if text is not None:
                    self.pods[name]["metadata"]["annotations"][KAI_OBSERVED_PLACEMENT] = text


def steps(machine: Observed) -> dict[Callable[[], None], int]:
    odd = {machine.recreate: 2, machine.bind_unmanaged: 1, machine.bind_unallocated: 2}
    return weights(machine) | odd | {machine.observe: 6}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lies_make_no_allocation_wrong_and_give_no_numa_node_twice(seed: int) -> None:
    machine = Observed(seed, honest=False)
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), steps(machine))
        machine.tell_all()
        assert machine.wrong() == {}
        assert machine.overcommitted() == []


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_despite_lies_no_pod_that_was_let_through_is_rejected(seed: int) -> None:
    machine = Observed(seed, honest=False)
    for _ in range(4):
        take(machine, machine.random.randrange(STEPS), weights(machine) | {machine.observe: 6})
        machine.tell_all()
        assert machine.rejected == []


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_that_is_said_takes_away_from_what_is_reserved(seed: int) -> None:
    machine = Observed(seed, honest=False)
    take(machine, machine.random.randrange(2 * STEPS), steps(machine))
    blindly, seen = machine.reserved_blindly(), machine.reserved()
    event(f"more is reserved: {blindly != seen}")
    assert all(seen.get(numa_id, 0) >= cpus for numa_id, cpus in blindly.items())


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_pod_is_where_an_honest_agent_saw_it(seed: int) -> None:
    machine = Observed(seed, honest=True)
    take(machine, machine.random.randrange(2 * STEPS), steps(machine))
    machine.scan()
    machine.tell_all()
    found = machine.cache.numa_nodes(NODE)
    held = {pod.key: set(pod.numa) for pod in Holdings(machine.cache).on(NODE).pods}
    for name, numa_id in machine.given.items():
        one = found[f"default/{name}"]
        event(str(one.source))
        if one.source is NUMASource.OBSERVED:
            assert one.numa.keys() == held[f"default/{name}"] == {numa_id}
