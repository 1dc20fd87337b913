"""Scenarios are as described for every seed: reproducible, free in sum, within the machines."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.proof.real import REAL_SCENARIOS
from tests.proof.scenarios import GPU, SCENARIOS
from tests.proof.workload import Burst, ControllerKind
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.pod_resources import QoS

SEEDS = range(5)
EVERY = {**SCENARIOS, **{f"real {name}": scenario for name, scenario in REAL_SCENARIOS.items()}}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_the_same_scenario_every_time(name: str, seed: int) -> None:
    assert EVERY[name](seed) == EVERY[name](seed)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", SEEDS)
def test_names_differ_and_everything_comes_within_the_run(name: str, seed: int) -> None:
    scenario = EVERY[name](seed)
    assert scenario.name == name.removeprefix("real ")
    assert len({workload.name for workload in scenario.workloads}) == len(scenario.workloads)
    assert len({machine.name for machine in scenario.machines}) == len(scenario.machines)
    assert all(0 <= workload.at < scenario.seconds for workload in scenario.workloads)
    assert 0 < scenario.steady_from < scenario.seconds


@pytest.mark.parametrize("name", [name for name in EVERY if not name.endswith(("churn", "dra"))])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_asked_for_fits_in_sum(name: str, seed: int) -> None:
    scenario = EVERY[name](seed)
    assert sum(workload.pods * workload.millicores for workload in scenario.workloads) < 0.95 * scenario.millicores


@pytest.mark.parametrize("name", ["churn", "real churn"])
@pytest.mark.parametrize("seed", SEEDS)
def test_churn_asks_for_nine_tenths_of_the_cpus_on_average(seed: int, name: str) -> None:
    scenario = EVERY[name](seed)
    asked = sum(workload.millicores * (workload.run_seconds or 0) for workload in scenario.workloads)
    assert asked / scenario.seconds / scenario.millicores == pytest.approx(0.9, abs=0.12)


@pytest.mark.parametrize("seed", SEEDS)
def test_dra_asks_for_four_fifths_of_the_cpus_on_average_and_has_gpus_for_them(seed: int) -> None:
    scenario = EVERY["real dra"](seed)
    asked = [(workload, (workload.run_seconds or 0) / scenario.seconds) for workload in scenario.workloads]
    assert sum(workload.millicores * share for workload, share in asked) / scenario.millicores == pytest.approx(
        0.8,
        abs=0.2,  # three standard deviations of some 150 arrivals
    )
    gpus = sum(sum(pieces) for machine in scenario.machines for pieces in machine.slices.values())
    assert 0.5 < sum(workload.gpus * share for workload, share in asked) / gpus < 0.9


def test_a_burst_is_500_pods_at_once() -> None:
    scenario = SCENARIOS["burst"](0)
    assert sum(workload.pods for workload in scenario.workloads) == 500
    assert {workload.at for workload in scenario.workloads} == {0.0}
    assert scenario.lag == 10.0


@pytest.mark.parametrize("name", ["replicaset", "real replicaset"])
def test_replicas_fit_in_sum_but_not_all_in_numa_nodes(name: str) -> None:
    scenario = EVERY[name](0)
    machine, large = scenario.machines[0], scenario.workloads[0]
    cpus = large.millicores // 1000
    by_sum = len(scenario.machines) * (sum(machine.free_cpus) // cpus)
    by_numa_node = len(scenario.machines) * sum(free // cpus for free in machine.free_cpus)
    assert by_numa_node < large.pods < by_sum


@pytest.mark.parametrize("name", ["gangs", "real gangs"])
def test_groups_stand_in_racks_that_have_room_for_them(name: str) -> None:
    scenario = EVERY[name](0)
    # 4 slots of 7 CPUs on each machine
    slots = {rack: 4 * machines for rack, machines in Counter(scenario.racks.values()).items()}
    for workload in scenario.workloads:
        if not workload.one_rack:
            (rack,) = workload.node_selector.values()
            slots[rack] -= workload.pods
    groups = [workload.pods for workload in scenario.workloads if workload.one_rack]
    assert len(groups) == sum(free // groups[0] for free in slots.values())


def test_a_workloads_pods_are_guaranteed_and_annotated() -> None:
    workload = Burst("w", 2, [{"cpu": "3", "memory": "1Gi", GPU: "1"}], policy="Restricted", one_rack=True)
    template = workload.body()["spec"]["template"]
    pod = Pod.from_object(template)
    assert pod.qos is QoS.GUARANTEED
    assert pod.requests[GPU] == 1
    assert json.loads(pod.annotations["scheduling.koordinator.sh/numa-topology-spec"]) == {
        "numaTopologyPolicy": "Restricted"
    }
    assert pod.annotations["kai.scheduler/topology-required-placement"] == "example.com/rack"


def test_pods_that_are_none_of_the_webhooks_business_are_neither_guaranteed_nor_annotated() -> None:
    workload = Burst("w", 1, [{"cpu": "500m", "memory": "1Gi", GPU: "1"}], kind=ControllerKind.JOB, policy=None)
    pod = Pod.from_object(workload.body()["spec"]["template"])
    assert pod.qos is QoS.BURSTABLE
    assert not pod.annotations
    assert pod.requests[GPU] == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_real_kubelets_are_few_and_have_the_cpus_that_a_static_manager_demands(seed: int) -> None:
    scenarios = [scenario(seed) for scenario in REAL_SCENARIOS.values()]
    assert all(6 <= len(scenario.machines) <= 12 for scenario in scenarios)
    static = [each for scenario in scenarios for each in scenario.machines if each.cpu_manager == "static"]
    assert {machine.reserved_cpus for machine in static} == {"0"}


def test_both_exporters_run_and_each_in_one_scenario_with_its_default_period() -> None:
    exporters = [exporter for scenario in REAL_SCENARIOS.values() if (exporter := scenario(0).exporter)]
    assert Counter(exporter.name for exporter in exporters) == {"rte": 4, "nfd": 3}
    assert sorted(exporter.name for exporter in exporters if exporter.seconds == 60) == ["nfd", "rte"]
