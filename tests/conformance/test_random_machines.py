"""What the recorder plays follows from its seed, and covers what a kubelet can be set to."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.cluster.kubelets import cpu_list
from tests.conformance.random_machines import POLICIES, Play, plays

NEW, OLD = (1, 36), (1, 30)


def many(version: tuple[int, int]) -> list[Play]:
    return list(chain.from_iterable(plays(seed, 8, 12, version) for seed in range(25)))


def test_a_seed_repeats_and_a_machine_is_the_same_beside_any_others() -> None:
    assert plays(7, 6, 10, NEW) == plays(7, 6, 10, NEW)
    assert plays(7, 6, 10, NEW)[:2] == plays(7, 2, 10, NEW)
    assert plays(7, 6, 10, NEW) != plays(8, 6, 10, NEW)


def test_four_machines_have_all_policies() -> None:
    assert {play.machine.policy for play in plays(3, 4, 1, NEW)} == set(POLICIES)


def test_all_that_decides_an_admission_is_played() -> None:
    machines = [play.machine for play in many(NEW)]
    assert {machine.scope for machine in machines} == {"container", "pod"}
    assert {(machine.cpu_manager, machine.memory_manager) for machine in machines} == {
        (cpu, memory) for cpu in ("none", "static") for memory in ("None", "Static")
    }
    assert set(chain.from_iterable(machine.cpu_options for machine in machines)) == {
        "full-pcpus-only", "distribute-cpus-across-numa", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache",
    }  # fmt: skip
    assert set(chain.from_iterable(machine.options for machine in machines)) == {
        "prefer-closest-numa-nodes", "max-allowable-numa-nodes",
    }  # fmt: skip
    assert {1, 2, 8, 10} <= {machine.numa_nodes for machine in machines}
    assert {machine.threads_per_core for machine in machines} == {1, 2}
    assert {size for machine in machines for size in machine.hugepages} == {2, 1024}
    for trait in ("devices", "devices_anywhere", "hugepages", "l3_cpus"):
        assert {bool(getattr(machine, trait)) for machine in machines} == {True, False}


def test_all_that_happens_on_machines_is_played() -> None:
    steps = [step for play in many(NEW) for step in play.steps]
    assert {step.restart for step in steps} == {"", "SIGKILL", "SIGTERM"}
    assert {bool(step.remove) for step in steps} == {True, False}
    specs = [step.pod["spec"] for step in steps]
    assert {"resources" in spec for spec in specs} == {True, False}
    inits = [init for spec in specs for init in spec.get("initContainers", ())]
    assert {init.get("restartPolicy") for init in inits} == {None, "Always"}
    # The runtime ends containers of such names at once.
    assert all(init["name"].startswith("init") != ("restartPolicy" in init) for init in inits)


def test_an_old_kubelet_is_asked_for_nothing_that_it_does_not_know() -> None:
    drawn = many(OLD)
    assert max(play.machine.numa_nodes for play in drawn) == 8
    assert set(chain.from_iterable(play.machine.cpu_options for play in drawn)) == {"full-pcpus-only"}
    assert set(chain.from_iterable(play.machine.options for play in drawn)) == {"prefer-closest-numa-nodes"}
    assert not any("resources" in step.pod["spec"] for play in drawn for step in play.steps)


@pytest.mark.parametrize("play", many(NEW)[:40])
def test_a_kubelet_starts_with_what_is_drawn(play: Play) -> None:
    machine = play.machine
    assert machine.cpu_manager == "none" or cpu_list(machine.reserved_cpus)
    assert machine.numa_nodes <= int(machine.options.get("max-allowable-numa-nodes", 8))
    assert not {"distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"} <= machine.cpu_options.keys()
    assert machine.cpus % machine.threads_per_core == 0
    assert machine.l3_cpus == 0 or machine.l3_cpus % machine.threads_per_core == 0
