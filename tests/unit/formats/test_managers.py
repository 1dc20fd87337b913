"""Which of a kubelet's managers are on, by what its NodeResourceTopology lists."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.koordlet import koordlet_nrt
from tests.builders.nodes import nrt, resource, zone
from webhook.formats.managers import Evidence, ManagerPolicy
from webhook.formats.nrt import NodeTopology

GPU = "example.com/gpu"
STATIC, OFF, UNKNOWN = ManagerPolicy.STATIC, ManagerPolicy.NONE, ManagerPolicy.UNKNOWN

CPUS = resource(name="cpu", capacity=16)
RESERVED = resource(name="cpu", capacity=16, allocatable=0)
"""What NFD and resource-topology-exporter list where no CPU can be allocated."""
MEMORY = resource(name="memory", capacity="64Gi")
PAGES = resource(name="hugepages-2Mi", capacity="1Gi")
GPUS = resource(name=GPU, capacity=2)


def topology(*zones: Sequence[dict[str, Any]]) -> NodeTopology:
    listed = [zone(numa_id=numa_id, resources=resources) for numa_id, resources in enumerate(zones)]
    return NodeTopology.from_object(nrt(node="n", zones=listed))


@pytest.mark.parametrize(
    ("zones", "cpu", "memory"),
    [
        # Default settings; the same with GPUs near one NUMA node, near both.
        (([RESERVED], [RESERVED]), (OFF, Evidence.NOTHING_ALLOCATABLE), (OFF, Evidence.NOT_LISTED)),
        (([GPUS], [RESERVED]), (OFF, Evidence.NOTHING_ALLOCATABLE), (OFF, Evidence.NOT_LISTED)),
        (([GPUS], [GPUS]), (OFF, Evidence.NOT_LISTED), (OFF, Evidence.NOT_LISTED)),
        # Each manager alone; then both, with all CPUs of one NUMA node reserved.
        (([CPUS], [CPUS]), (STATIC, Evidence.ALLOCATABLE), (OFF, Evidence.NOT_LISTED)),
        (([MEMORY], [MEMORY]), (OFF, Evidence.NOT_LISTED), (STATIC, Evidence.ALLOCATABLE)),
        (([PAGES], [RESERVED]), (OFF, Evidence.NOTHING_ALLOCATABLE), (STATIC, Evidence.ALLOCATABLE)),
        (([RESERVED], [CPUS, MEMORY]), (STATIC, Evidence.ALLOCATABLE), (STATIC, Evidence.ALLOCATABLE)),
        (([], []), (UNKNOWN, Evidence.NOTHING), (UNKNOWN, Evidence.NOTHING)),
    ],
)
def test_a_manager_is_on_if_something_of_it_can_be_allocated(
    zones: Sequence[Sequence[dict[str, Any]]],
    cpu: tuple[ManagerPolicy, Evidence],
    memory: tuple[ManagerPolicy, Evidence],
) -> None:
    managers = topology(*zones).managers
    assert (managers.cpu.policy, managers.cpu.evidence) == cpu
    assert (managers.memory.policy, managers.memory.evidence) == memory


def test_a_numa_node_has_what_managers_allocate_and_shows_the_rest_as_capacity() -> None:
    zones = topology([GPUS], [RESERVED]).zones
    assert [sorted(zone.resources) for zone in zones] == [[GPU], []]
    assert [dict(zone.unmanaged) for zone in zones] == [{}, {"cpu": 16_000}]


def test_cpus_that_are_all_in_use_are_still_managed() -> None:
    full = resource(name="cpu", capacity=16, available=0)
    assert topology([full], [full]).managers.cpu.policy is STATIC
    without_allocatable = {"name": "cpu", "capacity": "16", "available": "0"}
    assert topology([without_allocatable]).managers.cpu.policy is STATIC


def test_koordlet_reports_the_cpu_manager_and_places_cpus_itself() -> None:
    found = NodeTopology.from_object(koordlet_nrt(node="n"))
    assert (found.managers.cpu.policy, found.managers.cpu.evidence) == (STATIC, Evidence.KOORDLET)
    assert found.managers.memory.policy is UNKNOWN
    assert all("cpu" in zone.resources for zone in found.zones)


def test_an_object_without_its_zones_keeps_the_managers() -> None:
    known = topology([GPUS], [RESERVED])
    raw = {**nrt(node="n"), "zones": []}
    again = NodeTopology.from_object(raw, known)
    assert (again.zones, again.managers) == (known.zones, known.managers)


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        (([RESERVED], [RESERVED]), "none (its NUMA nodes list 32 cpu, nothing of it as allocatable)"),
        (([CPUS], [CPUS]), "static (its NUMA nodes list 32 cpu as allocatable)"),
        (([GPUS], [GPUS]), "none (no NUMA node lists cpu)"),
        (([], []), "unknown (no NUMA node lists anything)"),
    ],
)
def test_the_evidence_is_a_sentence(zones: Sequence[Sequence[dict[str, Any]]], text: str) -> None:
    assert topology(*zones).managers.cpu.sentence() == text
