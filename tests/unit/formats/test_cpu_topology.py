"""What koordlet publishes of single CPUs."""

import json
from typing import Any

import pytest

from tests.builders.koordlet import cpu_annotations
from webhook.formats.koordinator.cpu_topology import FreeCores, NodeCPUs, free_cores, read_cpu_list
from webhook.model.names import KOORDLET_CPU_ALLOCS, KOORDLET_CPU_TOPOLOGY, KOORDLET_KUBELET_CPU_POLICY


def read(annotations: dict[str, Any]) -> tuple[NodeCPUs | None, list[str]]:
    problems: list[str] = []
    return NodeCPUs.read(annotations, problems), problems


def known(**fields: Any) -> NodeCPUs:
    found, problems = read(cpu_annotations(**fields))
    assert found is not None
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("3", {3}),
        ("0-2,5", {0, 1, 2, 5}),
        ("5,0-1\n", {0, 1, 5}),
        ("2-1", set()),
        ("-1", None),
        ("1-", None),
        ("a", None),
        ("0-99999", None),
        ("1.5", None),
        (7, None),
    ],
)
def test_a_list_of_cpus_is_read_as_linux_writes_it(text: object, cpus: set[int] | None) -> None:
    assert read_cpu_list(text) == cpus


def test_threads_per_core_are_the_cpus_by_the_cores_of_all_sockets() -> None:
    assert known(zones=2, cores=4, threads=2).topology.threads == 2
    assert known(zones=4, cores=3, threads=1).topology.threads == 1


# NUMA 0: cores 0-1 2-3, NUMA 1: cores 4-5 6-7
def test_cores_are_whole_until_one_of_their_cpus_is_taken() -> None:
    topology = known(zones=2, cores=2).topology
    assert free_cores(topology, frozenset()) == {0: FreeCores(2, 2), 1: FreeCores(2, 2)}
    assert free_cores(topology, frozenset({1, 4, 5})) == {0: FreeCores(1, 2), 1: FreeCores(1, 1)}


def test_reserved_are_the_kubelets_the_nodes_and_the_system_pods_cpus() -> None:
    assert known(kubelet_reserved="0", node_reserved="2-3", system={"cpuset": "5"}).reserved == {0, 2, 3, 5}
    assert known(system={"cpuset": "5", "cpusetExclusive": False}).reserved == frozenset()


def test_only_what_the_kubelet_gave_counts_as_given() -> None:
    annotations = cpu_annotations(given=[("team/a", "0-1")])
    entries = [*json.loads(annotations[KOORDLET_CPU_ALLOCS]), {"namespace": "team", "name": "b", "cpuset": "2"}]
    found, _ = read({**annotations, KOORDLET_CPU_ALLOCS: json.dumps(entries)})
    assert found is not None
    assert found.given == (("team/a", frozenset({0, 1})),)


def test_a_kubelet_gives_whole_cores_only_by_its_static_policy() -> None:
    assert known(full_cores_only=True).full_cores_only
    assert not known().full_cores_only
    other = json.dumps({"policy": "none", "options": {"full-pcpus-only": "true"}})
    found, _ = read({**cpu_annotations(), KOORDLET_KUBELET_CPU_POLICY: other})
    assert found is not None
    assert not found.full_cores_only


@pytest.mark.parametrize("text", [None, "{}", "null", '{"detail": null}', '{"detail": []}'])
def test_without_cpus_nothing_is_known(text: str | None) -> None:
    assert read({} if text is None else {KOORDLET_CPU_TOPOLOGY: text}) == (None, [])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"detail": 3}',
        '{"detail": [{"id": 0}]}',
        '{"detail": [{"id": true, "core": 0, "socket": 0, "node": 0}]}',
        '{"detail": [{"id": 9999, "core": 0, "socket": 0, "node": 0}]}',
        "[" * 100_000,
    ],
)
def test_an_unreadable_topology_is_named(text: str) -> None:
    found, problems = read({KOORDLET_CPU_TOPOLOGY: text})
    assert found is None
    assert len(problems) == 1
    assert len(problems[0]) < 300


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"reservedCPUs": "x"}', '{"reservedCPUs": 3}', "[" * 100_000])
def test_other_unreadable_annotations_are_named_and_left_out(text: str) -> None:
    found, problems = read({**cpu_annotations(kubelet_reserved="0"), KOORDLET_KUBELET_CPU_POLICY: text})
    assert found is not None
    assert found.reserved == frozenset()
    assert len(problems) == 1


def test_equal_machines_share_one_topology() -> None:
    assert known().topology is known().topology
    assert known() == known()
