"""Whatever comes in whatever order, a kubelet admits every pod that the guard lets through, and hints never clash.

The machine has NUMA nodes of CPUs and policy single-numa-node: its kubelet gives each pod, as it arrives, the first
NUMA node with room, and what ended pods held at once. What is known of it comes late:
1. Pods come, are placed (some of them) and bound, in any order. The guard's answer is written at once or never.
2. What happens to pods is told in its order, but late; and so are the NRTs, in their own.
3. An NRT shows what the kubelet had given out when its exporter looked.
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
