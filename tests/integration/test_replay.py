"""For recorded sequences the simulated kubelet gives the answers of the kubelet's own managers."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.nodes import node
from tests.builders.pods import created
from tests.cluster.replay import differences, replay
from webhook.engine.decide import decide
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import NO_INTENT
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.pod import Pod
from webhook.model.resident import ResidentPod

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU = "example.com/gpu"
TESTS = Path(__file__).parents[1]
RECORDINGS = TESTS / "conformance" / "golden" / "kubelet_admission.jsonl.gz"
MEMORY_GROUPS = TESTS / "conformance" / "odd" / "kubelet_memory_groups.jsonl.gz"
REAL_RECORDINGS = TESTS / "conformance" / "recorded" / "real_kubelet.jsonl.gz"
"""Of kubelets themselves (1.36), on described machines. What devices a pod gets over several NUMA nodes is random."""


def test_every_recorded_admission_comes_out_again(programs: Mapping[str, Path]) -> None:
    found = replay(programs["kubelets"], RECORDINGS)
    assert found.differences == []
    assert (found.sequences, found.pods) == (3000, 21551)


def test_every_admission_of_a_real_kubelet_comes_out_again(programs: Mapping[str, Path]) -> None:
    found = replay(programs["kubelets"], REAL_RECORDINGS)
    assert found.differences == []
    assert (found.sequences, found.pods) == (22, 403)


def test_every_admission_to_memory_groups_comes_out_again(programs: Mapping[str, Path]) -> None:
    found = replay(programs["kubelets"], MEMORY_GROUPS)
    assert found.differences == []
    assert (found.sequences, found.pods) == (400, 1519)


@pytest.mark.parametrize(
    ("recorded", "replayed", "places"),
    [
        ({"admit": True}, {"admit": False}, ["s admit"]),
        ({"pods": [{"pod": "p0"}]}, {"pods": []}, ["s pods"]),
        ({"cpusPerNuma": {"0": 2}}, {}, ["s cpusPerNuma"]),
        ({"affinity": None}, {"affinity": [0]}, ["s affinity"]),
        ({"affinity": [0, 1]}, {"affinity": [1, 0]}, ["s affinity 0", "s affinity 1"]),
        ({"reason": "TopologyAffinityError"}, {"admit": False}, ["s reason"]),
        ({"zones": [{"resources": [{"name": "cpu", "available": "1"}]}]},) * 2 + ([],),
        (
            {"attributes": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]},
            {"attributes": [{"name": "b", "value": "2"}, {"name": "a", "value": "3"}]},
            ["s attributes a value"],
        ),
        ({"devices": {"gpu": {"0": 1}}}, {"devices": {"gpu": {"1": 1}}}, ["s gpu 0"]),
    ],
)
def test_a_difference_is_found_and_placed(recorded: Any, replayed: Any, places: list[str]) -> None:
    assert [difference.partition(":")[0] for difference in differences("s", recorded, replayed)] == places


def test_what_the_kubelet_decides_at_random_is_not_compared() -> None:
    assert list(differences("s", {"devices": {"gpu": None}}, {"devices": {"gpu": {"0": 2}}})) == []
    assert list(differences("s", {"admit": False}, {"admit": False, "message": "varies"})) == []


def guaranteed(name: str, cpu: int, memory_gib: int) -> dict[str, Any]:
    return created(name=name, numa=None, cpu=cpu, memory=f"{memory_gib}Gi")


# What cannot be known from a NodeResourceTopology: of two machines [16 16] cpus, [64 64] GiB, policy restricted,
#
#     one   [0 12] cpus free, [0 48] GiB free, held by two pods, each on its own NUMA node
#     other [0 12] cpus free, [0 48] GiB free, held by one pod on both
#
# only one takes a pod of 6 CPUs: while a pod has its memory on both NUMA nodes, no other gets memory on one of them.
def test_machines_with_the_same_topology_may_answer_differently(programs: Mapping[str, Path]) -> None:
    numa = {"cpus": 16, "memory": "64Gi"}
    machine = {"policy": "restricted", "scope": "container", "numa": [numa, numa], "distances": [[10, 20], [20, 10]]}
    machine |= {"cpuPolicy": "static", "memoryPolicy": "Static"}
    one = [guaranteed("a", 16, 64), guaranteed("b", 4, 16)]
    other = [guaranteed("ab", 20, 80)]
    answers = [_verdicts(programs, machine, [*held, guaranteed("next", 6, 6)])[-1] for held in (one, other)]
    assert NodeTopology.from_object(answers[0]["nrtBefore"]) == NodeTopology.from_object(answers[1]["nrtBefore"])
    assert [answer["admit"] for answer in answers] == [True, False]
    assert answers[1]["reason"] == "TopologyAffinityError"


# n0 [16 16] cpus, single-numa-node. A kubelet takes the first NUMA node with room: 9 7 | 9 7 fits, but 7 7 | 9 leaves
# no room for the other 9: who places several pods must know the order in which they arrive.
@pytest.mark.parametrize(("cpus", "admitted"), [((9, 7, 9, 7), [True] * 4), ((7, 7, 9, 9), [True, True, True, False])])
def test_the_order_of_arrival_decides_whether_all_are_admitted(
    programs: Mapping[str, Path], cpus: tuple[int, ...], admitted: list[bool]
) -> None:
    numa = {"cpus": 16, "memory": "64Gi"}
    machine = {"policy": "single-numa-node", "scope": "container", "numa": [numa, numa]}
    machine |= {"cpuPolicy": "static", "memoryPolicy": "Static"}
    pods = [guaranteed(f"p{number}", cpu, 1) for number, cpu in enumerate(cpus)]
    assert [answer["admit"] for answer in _verdicts(programs, machine, pods)] == admitted


# A machine of two NUMA nodes with 8 CPUs and 16 GiB each, and of each kind of manager and policy; GPUs near the first
# NUMA node, near both, or nowhere. Pods come until it is full: none that its kubelet admits is predicted to fail,
# and under single-numa-node, which hides no state from it, none that it rejects to be admitted.
@pytest.mark.parametrize("gpus", [(), (2, 0), (2, 2)])
@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_combination_of_managers_is_predicted_from_its_topology(
    programs: Mapping[str, Path], policy: str, scope: str, gpus: tuple[int, ...]
) -> None:
    numa = {"cpus": 8, "memory": "16Gi"}
    near = {f"{zone}-{number}": [zone] for zone, count in enumerate(gpus) for number in range(count)}
    for cpu_policy, memory_policy in product(("none", "static"), ("None", "Static")):
        machine: dict[str, Any] = {"policy": policy, "scope": scope, "numa": [numa, numa]}
        machine |= {
            "distances": [[10, 20], [20, 10]],
            "cpuPolicy": cpu_policy,
            "memoryPolicy": memory_policy,
            "devices": {GPU: near} if near else {},
        }
        random = Random(f"{policy} {scope} {gpus} {cpu_policy} {memory_policy}")  # noqa: S311 - to be repeatable
        pods = []
        for number in range(12):
            devices = {GPU: random.choice((1, 1, 2))} if near and random.random() < 0.4 else {}
            raw = created(
                name=f"p{number}", numa=None, cpu=random.choice((1, 2, 3, 5)), memory=random.choice(("1Gi", "9Gi")),
                devices=devices,
            )  # fmt: skip
            pods.append(raw)
        running: list[dict[str, Any]] = []
        for raw, answer in zip(pods, _verdicts(programs, machine, pods), strict=True):
            state = ClusterState()
            for other in running:
                state.upsert_pod(ResidentPod.from_object(other))
            state.upsert_node(Node.from_object(node(name="n", cpus=64, devices={GPU: len(near)})))
            state.upsert_topology(NodeTopology.from_object({**answer["nrtBefore"], "metadata": {"name": "n"}}))
            decision = decide(Snapshot(state.node_arrays()), Pod.from_object(raw), NO_INTENT)
            where = f"cpu {cpu_policy}, memory {memory_policy}, {raw['metadata']['name']}: {answer}"
            assert decision.fits[0] or not answer["admit"], where
            assert answer["admit"] or not decision.fits[0] or policy != "single-numa-node", where
            if answer["admit"]:
                running.append({**raw, "spec": {**raw["spec"], "nodeName": "n"}})


def _verdicts(
    programs: Mapping[str, Path], machine: dict[str, Any], pods: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    text = json.dumps({"machine": machine, "pods": pods})
    run = subprocess.run([programs["kubelets"], "replay"], input=text, stdout=subprocess.PIPE, text=True, check=True)
    answers: list[dict[str, Any]] = json.loads(run.stdout)["pods"]
    return answers
