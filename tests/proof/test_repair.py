"""The scenario `repair` is as described: static pods leave no NUMA node with room, and the other machines hold all."""

from __future__ import annotations

from tests.proof.repair import repair


def test_the_planted_machines_hold_no_large_pod_and_the_others_hold_all() -> None:
    scenario = repair(0)
    (large,) = (workload for workload in scenario.workloads if workload.name == "large")
    cpus = large.millicores // 1000
    free = {machine.name: machine.free_cpus for machine in scenario.machines}
    for planted in scenario.planted:
        numa = max(range(2), key=free[planted.machine].__getitem__)
        free[planted.machine][numa] -= planted.cpu
    planted_on = {planted.machine for planted in scenario.planted}
    assert all(amount < cpus for name in planted_on for amount in free[name])
    assert large.pods == sum(amount // cpus for name, amounts in free.items() for amount in amounts)
    assert all(planted.at < large.at for planted in scenario.planted)
