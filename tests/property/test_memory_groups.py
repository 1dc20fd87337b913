"""Memory groups: pods of several containers with memory and huge pages over several NUMA nodes, on random machines.

The answers are those of the plain kubelet of tests/conformance/reference.py. On such machines and pods it agrees with
the kubelet's own code (tests/conformance/odd/kubelet_memory_groups.jsonl.gz).
"""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.memory_sequences import sequence
from tests.conformance.reference_machine import Machine, Published
from tests.property.predictions import prediction, refusal
from webhook.model.names import NUMA_ALLOCATION
from webhook.model.resources import format_amount

SEEDS = st.integers(0, 2**32)


def allocated(
    raw: Mapping[str, Any], before: Mapping[int, Mapping[str, Published]], machine: Machine
) -> dict[str, Any]:
    """The pod with the allocation that shows what it took."""
    shares = []
    for node, now in machine.published().items():
        taken = {name: before[node][name].available - amounts.available for name, amounts in now.items()}
        amounts = {name: format_amount(name, amount) for name, amount in taken.items() if amount > 0}
        if amounts:
            shares.append({"node": node, "resources": amounts})
    text = json.dumps({"node": "node", "numaNodeResources": shares})
    return {**raw, "metadata": {**raw["metadata"], "annotations": {NUMA_ALLOCATION: text}}}


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_while_no_pod_leaves_each_answer_is_the_kubelets(seed: int) -> None:
    case = sequence(Random(seed), leave=False)  # noqa: S311 - no secret
    machine = Machine(case["machine"])
    live: dict[str, Any] = {}
    for raw in case["pods"]:
        _, _, fit = prediction(case["machine"], machine, raw, live, told=True)
        refused = refusal(machine, raw)
        assert bool(fit.fits[0]) is (refused is None), refused
        if refused is None:
            live[raw["metadata"]["name"]] = raw


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_an_empty_machine_hides_nothing(seed: int) -> None:
    case = sequence(Random(seed))  # noqa: S311 - no secret
    raw = case["pods"][0]
    _, _, fit = prediction(case["machine"], Machine(case["machine"]), raw, {})
    assert bool(fit.fits[0]) is (refusal(Machine(case["machine"]), raw) is None)


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.booleans())
def test_whatever_pods_and_allocations_show_no_pod_that_a_kubelet_admits_is_refused(seed: int, told: bool) -> None:
    case = sequence(Random(seed))  # noqa: S311 - no secret
    machine = Machine(case["machine"])
    live: dict[str, Any] = {}
    for raw in case["pods"]:
        for gone in case["remove"].get(raw["metadata"]["name"], ()):
            if live.pop(gone, None) is not None:
                machine.remove(f"test/{gone}")
        _, _, fit = prediction(case["machine"], machine, raw, live, told=told)
        before = machine.published()
        if refusal(machine, raw) is None:
            assert fit.fits[0]
            live[raw["metadata"]["name"]] = allocated(raw, before, machine)
