"""Devices are compared with the CPUs of the pod that they are reserved for."""

from __future__ import annotations

from typing import Any

from tests.builders.devices import DRIVER, claim
from tests.cluster.claim_journal import ClaimJournal, left_over
from tests.cluster.kubelets import even_machine
from tests.proof.dra import alignments

# n0 ── NUMA 0 [gpu-0 gpu-1] ── NUMA 1 [gpu-2]
MACHINES = [even_machine("n0", slices={DRIVER: (2, 1)})]


def admitted(uid: str, *cpus: dict[str, int]) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "cpusPerNuma": each} for number, each in enumerate(cpus)]
    return {"node": "n0", "pod": f"default/{uid}", "uid": uid, "containers": containers}


def devices(*names: str) -> set[tuple[str, str, str]]:
    return {(DRIVER, "n0", name) for name in names}


def test_a_pod_is_apart_if_a_device_is_on_a_numa_node_without_its_cpus() -> None:
    owned = {
        "near": devices("gpu-0", "gpu-1"),
        "far": devices("gpu-2"),
        "torn": devices("gpu-1", "gpu-2"),
        "wide": devices("gpu-0"),
    }
    admissions = [
        admitted("near", {"0": 4}),
        admitted("far", {"0": 4}),
        admitted("torn", {"0": 4}),
        admitted("wide", {"0": 4}, {"1": 4}),
    ]
    found = {each.pod.removeprefix("default/"): each.apart for each in alignments(owned, admissions, MACHINES)}
    assert found == {"near": False, "far": True, "torn": True, "wide": False}


def test_pods_without_devices_or_exclusive_cpus_are_not_compared() -> None:
    admissions = [admitted("none", {"0": 4}), admitted("shared", {}), admitted("empty")]
    assert alignments({"shared": devices("gpu-2"), "empty": devices("gpu-2")}, admissions, MACHINES) == []


def with_devices(name: str, *names: str, pod: str = "p") -> dict[str, Any]:
    return claim(name, devices=names, node="n0", reserved_for=[pod])


def test_a_device_that_two_claims_have_at_once_is_noted_and_one_that_changes_hands_is_not() -> None:
    journal = ClaimJournal()
    journal.take_list([with_devices("a", "gpu-0"), with_devices("b", "gpu-1", pod="q")])
    journal.take("MODIFIED", claim("a"))
    journal.take("MODIFIED", with_devices("b", "gpu-0", pod="q"))
    assert journal.twice == {}
    journal.take("MODIFIED", with_devices("a", "gpu-0"))
    assert journal.twice == {(DRIVER, "n0", "gpu-0"): {"default/a", "default/b"}}
    journal.take("DELETED", with_devices("b", "gpu-0", pod="q"))
    journal.take("ADDED", with_devices("c", "gpu-2"))
    assert journal.devices() == {"uid-p": devices("gpu-0", "gpu-2"), "uid-q": devices("gpu-0")}


def test_a_device_that_a_claim_loses_and_gets_others_for_was_not_given_twice() -> None:
    journal = ClaimJournal()
    journal.take_list([with_devices("a", "gpu-0"), with_devices("b", "gpu-0", pod="q")])
    assert journal.twice != {}
    journal.take_list([with_devices("a", "gpu-0"), with_devices("b", "gpu-0", pod="q")])  # the watch broke off
    journal.take("MODIFIED", claim("b"))
    assert journal.twice != {}
    journal.take("MODIFIED", with_devices("b", "gpu-1", pod="q"))
    assert journal.twice == {}


def test_a_claim_is_left_over_if_it_has_devices_and_no_pod() -> None:
    pods = [{"metadata": {"uid": "uid-p"}}]
    claims = [with_devices("a", "gpu-0"), with_devices("b", "gpu-1", pod="gone"), claim("c")]
    assert left_over(claims, pods) == ["default/b"]
