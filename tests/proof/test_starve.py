"""The scenario `starve` is as described: the stream fills the machines, and each gang fits one empty rack."""

from __future__ import annotations

import pytest

from tests.proof.starve import starve


@pytest.mark.parametrize("seed", range(5))
def test_the_stream_requests_all_places_and_a_gang_all_numa_nodes_of_a_rack(seed: int) -> None:
    scenario = starve(seed)
    assert scenario == starve(seed)
    small = [one for one in scenario.workloads if not one.one_rack]
    gangs = [one for one in scenario.workloads if one.one_rack]
    # two pods of 7 CPUs fit a NUMA node of 16
    places = 2 * sum(machine.numa_nodes for machine in scenario.machines)
    asked = sum(one.run_seconds or 0 for one in small) / scenario.seconds
    assert asked == pytest.approx(places, rel=0.2)
    racks = len(set(scenario.racks.values()))
    numa_nodes = sum(machine.numa_nodes for machine in scenario.machines) // racks
    # one pod of 10 CPUs fits, and none beside a pod of 7
    assert [one.pods for one in gangs] == [numa_nodes, numa_nodes]
    assert {one.millicores for one in gangs} == {10_000}
    assert {one.millicores for one in small} == {7_000}
