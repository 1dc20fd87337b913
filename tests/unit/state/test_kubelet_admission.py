"""A pod gets an allocation at its binding only if, by all that is known, its kubelet cannot choose other NUMA nodes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_state
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.unit.admission.kubelet_admissions import kubelet_admission_at
from webhook.admission.binding.decision import Given, guard, into_binding
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.patches.json_patch import apply
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC, PLACEMENT, RESOURCE_STATUS
from webhook.model.options import Options
from webhook.placing.pod.binding_pod import BindingPod
from webhook.state.assumed.free_bounds import NO_LEEWAY, Leeway
from webhook.state.kubelet_admission import CERTAIN, AllocationCertainty
from webhook.state.rules import Rules

GI = 2**30
RULES = Rules()


def on(numa_id: int, cpu: int) -> NumaAmounts:
    return {numa_id: {"cpu": 1000 * cpu}}


def given(
    raw: dict[str, Any],
    free: tuple[int, ...],
    leeway: Leeway = NO_LEEWAY,
    policy: str = "single-numa-node",
    rules: Rules = RULES,
) -> Given:
    """What the pod is given on a node with so many CPUs free on each NUMA node."""
    state = cluster_state(node(name="n3", cpus=16 * len(free)), nrt(node="n3", free=free, policy=policy))
    kubelet_admission = kubelet_admission_at(state.node_arrays(), Ledger(), "n3", "default/p")
    assert kubelet_admission is not None
    verdict = guard(BindingPod.from_object(raw, rules), "n3", replace(kubelet_admission, leeway=leeway), rules)
    assert isinstance(verdict, Given), verdict
    return verdict


def assigned(numa_id: int) -> dict[str, Any]:
    zones = [{"node": numa_id, "resources": {"cpu": "8", "memory": "1Gi"}}]
    text = f"placed on n3, NUMA {numa_id}\nSingleNUMANode: 1 of 1 node fits"
    return pod(
        metadata={
            "annotations": {
                NUMA_TOPOLOGY_SPEC: SINGLE,
                NUMA_ALLOCATION: json.dumps({"node": "n3", "numaNodeResources": zones}),
                RESOURCE_STATUS: json.dumps({"numaNodeResources": zones}),
                PLACEMENT: text,
            }
        }
    )


@pytest.mark.parametrize(
    ("leeway", "alternatives"),
    [
        (Leeway(maybe_free=[on(0, 4)]), {0}),
        (Leeway(maybe_free=[on(0, 3)]), None),
        (Leeway(maybe_free=[on(2, 8)]), None),
        (Leeway(maybe_taken=[on(1, 1)]), {2}),
        (Leeway(maybe_taken=[on(2, 8)]), None),
        (Leeway(maybe_free=[on(0, 4)], maybe_taken=[on(1, 1)]), {0, 2}),
    ],
)
def test_it_is_certain_if_the_choice_is_the_same_with_the_most_and_the_least_that_may_be_free(
    leeway: Leeway, alternatives: set[int] | None
) -> None:
    found = given(pod(), (4, 8, 8), leeway).allocation_certainty
    assert found == (
        CERTAIN if alternatives is None else AllocationCertainty(sure=False, alternatives=frozenset(alternatives))
    )


def test_what_is_kept_for_a_pod_that_may_be_elsewhere_may_be_free() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/other", "n3", {**on(0, 8), **on(1, 8)}, {"cpu": 8000}))
    state = cluster_state(node(name="n3", cpus=48), nrt(node="n3", free=(8, 8, 8)))
    kubelet_admission = kubelet_admission_at(state.node_arrays(), ledger, "n3", "default/p")
    assert kubelet_admission is not None
    kubelet_admission = replace(kubelet_admission, leeway=Leeway(kept=[{**on(0, 8), **on(1, 8)}]))
    verdict = guard(BindingPod.from_object(pod(), RULES), "n3", kubelet_admission, RULES)
    assert isinstance(verdict, Given)
    assert [numa_id for numa_id, _ in verdict.numa_nodes] == [2]
    assert verdict.allocation_certainty == AllocationCertainty(sure=False, alternatives=frozenset({0, 1}))


def test_of_a_pod_over_several_numa_nodes_any_other_is_possible() -> None:
    wide = pod(numa='{"numaTopologyPolicy": "Restricted"}')
    amounts = {"cpu": "21", "memory": "80Gi"}
    wide["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    leeway = Leeway(maybe_free=[on(0, 12)])
    found = given(wide, (4, 16, 16), leeway, "restricted")
    assert [numa_id for numa_id, _ in found.numa_nodes] == [1, 2]
    assert found.allocation_certainty == AllocationCertainty(sure=False, alternatives=frozenset({0}))


def test_the_plugins_rules_replay_nothing_where_a_kubelet_does_otherwise() -> None:
    # The plugin takes the first container for NUMA 0 as well, the kubelet knows that 4 free cpus do not suffice.
    rules = replace(RULES, engine=Options(fidelity="Plugin"))
    assert given(pod(cpu="4"), (4, 8), rules=rules).allocation_certainty == CERTAIN
    best_effort = pod(cpu="8", numa='{"numaTopologyPolicy": "BestEffort"}')
    assert given(best_effort, (4, 8), policy="best-effort", rules=rules).annotations.get(NUMA_ALLOCATION) is None


def test_a_pod_that_is_not_certain_is_bound_without_an_allocation() -> None:
    assert given(pod(), (4, 8)).allocation_certainty == CERTAIN
    found = given(pod(), (4, 8), Leeway(maybe_free=[on(0, 4)]))
    assert found.numa_nodes == ((1, {"cpu": 8000, "memory": GI}),)
    assert found.annotations == {}
    assert found.message == "bound to n3, NUMA nodes not certain yet"


def test_an_allocation_from_before_is_written_over() -> None:
    raw = assigned(1)
    found = given(raw, (4, 8), Leeway(maybe_free=[on(0, 4)]))
    bound = apply(raw, map(dict, into_binding({"metadata": raw["metadata"]}, found)))
    annotations = bound["metadata"]["annotations"]
    assert json.loads(annotations[NUMA_ALLOCATION]) == {"node": "n3", "certain": False}
    assert json.loads(annotations[RESOURCE_STATUS]) == {"numaNodeResources": []}
    assert annotations[PLACEMENT].splitlines()[0] == "placed on n3, NUMA nodes not certain yet"
    resident = ResidentPod.from_object(bound | {"spec": {**bound["spec"], "nodeName": "n3"}})
    assert resident.allocation is None


def test_what_people_read_names_the_numa_nodes_of_the_binding() -> None:
    assert given(assigned(1), (4, 8)).annotations.keys() == {NUMA_ALLOCATION, RESOURCE_STATUS}
    assert given(assigned(1), (8, 8)).annotations[PLACEMENT].splitlines()[0] == "placed on n3, NUMA 0"


def test_what_was_assumed_is_not_certain_if_the_kubelet_will_choose_otherwise() -> None:
    assumed = given(assigned(1), (8, 8)).as_assumed()
    assert assumed is not None
    assert dict(assumed.numa_nodes).keys() == {1}
    assert assumed.allocation_certainty == AllocationCertainty(sure=False, alternatives=frozenset({0}))
    same = given(assigned(1), (4, 8)).as_assumed()
    assert same is not None
    assert same.allocation_certainty == CERTAIN


def test_a_blank_allocation_is_read_back() -> None:
    blank = NUMAAllocation.without_numa_nodes("n1")
    assert blank.to_json() == '{"node":"n1","certain":false}'
    assert NUMAAllocation.parse(blank.to_json()) == blank


ONE, OTHER = {0: {"cpu": 3000}}, {1: {"cpu": 5000}}


def reserved() -> NodeSums:
    sums = NodeSums()
    for place in (ONE, OTHER):
        sums.add(place, {"cpu": 8000}, None, 1)
    sums.ended = {0: {"cpu": 1000}}
    return sums


def test_what_may_be_free_is_free_at_most_and_what_may_be_taken_is_taken_at_least() -> None:
    assert not NO_LEEWAY
    assert all(Leeway(**{name: [ONE]}) for name in ("kept", "maybe_free", "maybe_taken"))
    leeway = Leeway(kept=[OTHER], maybe_free=[ONE], maybe_taken=[ONE])
    most, least = leeway.at_most(reserved()), leeway.at_least(reserved())
    assert (most.numa, most.ended) == (ONE, {0: {"cpu": 4000}})
    assert most.requests == reserved().requests
    assert (least.numa, least.ended) == ({0: {"cpu": 6000}, **OTHER}, {0: {"cpu": 1000}})
