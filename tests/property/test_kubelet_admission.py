"""In whatever order events arrive, a kubelet admits every pod that the guard allows, and hints never conflict.

The machine has NUMA nodes of CPUs and policy single-numa-node. Its kubelet gives each pod the first NUMA node with
room when it arrives, and frees the resources of ended pods at once. The service learns of this late:
1. Pods come, some are assigned, and they are bound in any order. The guard's answer is written at once or never.
2. Events of pods arrive in order, but late. So do the NRTs, in their own order.
3. An NRT shows what was allocated when its exporter looked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.kubelet_machine import STEPS, Machine, weights_of

if TYPE_CHECKING:
    from random import Random


@settings(max_examples=25, deadline=None)
@given(random=st.randoms(), zones=st.sampled_from([2, 4]), fingerprint=st.booleans())
def test_no_pod_that_was_let_through_is_rejected(random: Random, zones: int, fingerprint: bool) -> None:
    machine = Machine(random, zones, fingerprint=fingerprint)
    weights = weights_of(machine)
    for _ in range(STEPS):
        (step,) = random.choices(list(weights), list(weights.values()))
        step()
        assert machine.rejected == []


@settings(max_examples=25, deadline=None)
@given(random=st.randoms(), zones=st.sampled_from([2, 4]), fingerprint=st.booleans())
def test_no_hints_clash_at_any_moment_though_placed_pods_are_bound_unhinted(
    random: Random, zones: int, fingerprint: bool
) -> None:
    machine = Machine(random, zones, fingerprint=fingerprint)
    weights = weights_of(machine) | {machine.bind_unhinted: 2}
    for _ in range(STEPS):
        (step,) = random.choices(list(weights), list(weights.values()))
        step()
        assert machine.overcommitted() == []
