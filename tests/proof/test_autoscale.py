"""The scenario `autoscale` is as described. It builds and runs the Cluster Autoscaler, so no test runs it."""

from __future__ import annotations

from tests.proof.autoscale import autoscale


def test_ten_machines_hold_all_pods_and_sums_take_too_many_large_ones() -> None:
    scenario = autoscale(0)
    assert scenario.group is not None
    machine = scenario.group.sample
    large, small = scenario.workloads
    cpus = [workload.millicores // 1000 for workload in (large, small)]
    # one of both fills a NUMA node
    assert sum(cpus) == machine.free_cpus[0]
    assert large.pods == small.pods == 10 * machine.numa_nodes
    by_sums, aligned = sum(machine.free_cpus) // cpus[0], sum(free // cpus[0] for free in machine.free_cpus)
    assert (by_sums, aligned) == (3, 2)
    assert scenario.group.minimum < 10 < scenario.group.maximum
    assert scenario.millicores == scenario.group.minimum * 32_000
