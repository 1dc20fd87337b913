"""In whatever order events arrive, a kubelet admits every pod that the guard allows.

The machine has NUMA nodes of CPUs and policy single-numa-node. Its kubelet gives each pod the first NUMA node with
room when it arrives, and frees the resources of ended pods at once. The service learns of this late:
1. Pods come, some are assigned, and they are bound in any order. The guard's answer is written at once or never.
2. Events of pods arrive in order, but late. So do the NRTs, in their own order.
3. An NRT shows what was allocated when its exporter looked.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.kubelet_machine import STEPS, Machine, weights_of


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), zones=st.sampled_from([2, 4]), fingerprint=st.booleans())
def test_no_pod_that_was_let_through_is_rejected(seed: int, zones: int, fingerprint: bool) -> None:
    machine = Machine(Random(seed), zones, fingerprint=fingerprint)  # noqa: S311 - no secret
    weights = weights_of(machine)
    for _ in range(STEPS):
        (step,) = machine.random.choices(list(weights), list(weights.values()))
        step()
        assert machine.rejected == []
