"""Scenarios beside another project's component: no NUMA node is left over, and each pod has one owner."""

from __future__ import annotations

import pytest

from tests.cluster.gated import GATE
from tests.neighbours.beside import BESIDE
from tests.neighbours.untouched import touched_by, touched_by_us
from tests.proof.__main__ import parser
from tests.proof.beside import BESIDE_SCENARIOS, PREFIX

KUEUES = BESIDE["kueue"]


@pytest.mark.parametrize("name", BESIDE_SCENARIOS)
def test_pods_of_both_fill_all_numa_nodes_one_each(name: str) -> None:
    scenario = BESIDE_SCENARIOS[name](0)
    assert scenario.name == name == f"{PREFIX}{scenario.beside}"
    assert sum(workload.pods for workload in scenario.workloads) == sum(each.numa_nodes for each in scenario.machines)
    assert all(2 * workload.millicores > 16_000 for workload in scenario.workloads)
    assert parser().parse_args(["--scenario", name]).scenario == [name]


@pytest.mark.parametrize("name", BESIDE_SCENARIOS)
def test_only_pods_of_another_scheduler_lack_annotations(name: str) -> None:
    for workload in BESIDE_SCENARIOS[name](0).workloads:
        template = workload.body()["spec"]["template"]
        assert bool(template["metadata"]["annotations"]) is ("schedulerName" not in template["spec"])


@pytest.mark.parametrize(
    ("metadata", "spec", "found"),
    [
        ({}, {}, []),
        ({"annotations": {"example.com/a": "b"}}, {"schedulingGates": [{"name": "example.com/gate"}]}, []),
        ({"annotations": {"topology-webhook.dev/numa": "{}"}}, {}, ["topology-webhook.dev/numa"]),
        ({"labels": {"topology-webhook.dev/rank": "0"}}, {}, ["topology-webhook.dev/rank"]),
        ({}, {"schedulingGates": [{"name": GATE}]}, [GATE]),
        ({}, {"affinity": {"nodeAffinity": {}}}, ["nodeAffinity"]),
        ({"managedFields": [{"manager": "topology-webhook"}, {"manager": "kubelets"}]}, {}, ["topology-webhook"]),
    ],
)
def test_each_trace_of_the_service_is_found(
    metadata: dict[str, object], spec: dict[str, object], found: list[str]
) -> None:
    assert touched_by_us({"metadata": metadata, "spec": spec}) == found


@pytest.mark.parametrize(
    ("metadata", "spec", "found"),
    [
        ({"annotations": {"topology-webhook.dev/numa": "{}"}}, {"schedulingGates": [{"name": GATE}]}, []),
        ({"labels": {"kueue.x-k8s.io/managed": "true"}}, {}, ["kueue.x-k8s.io/managed"]),
        ({}, {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, ["kueue.x-k8s.io/admission"]),
        ({"managedFields": [{"manager": "kueue"}]}, {}, ["kueue"]),
    ],
)
def test_each_trace_of_the_other_is_found(
    metadata: dict[str, object], spec: dict[str, object], found: list[str]
) -> None:
    assert touched_by({"metadata": metadata, "spec": spec}, KUEUES.keys, KUEUES.programs) == found
