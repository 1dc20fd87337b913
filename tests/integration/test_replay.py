"""For recorded sequences the simulated kubelet gives the answers of the kubelet's own managers."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.nodes import node
from tests.builders.pods import created
from tests.builders.pods import guaranteed as container
from tests.cluster.replay import answers, differences, replay
from webhook.engine.decide import decide
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU = "example.com/gpu"
GIB = 2**30
TWO_OF_EIGHT: Mapping[str, Any] = {
    "numa": [{"cpus": 8, "memory": "16Gi"}, {"cpus": 8, "memory": "16Gi"}],
    "distances": [[10, 20], [20, 10]],
}
STATIC: Mapping[str, Any] = {
    **TWO_OF_EIGHT,
    "policy": "single-numa-node",
    "scope": "container",
    "cpuPolicy": "static",
    "memoryPolicy": "Static",
}
TESTS = Path(__file__).parents[1]
RECORDINGS = TESTS / "conformance" / "golden" / "kubelet_admission.jsonl.gz"
MEMORY_GROUPS = TESTS / "conformance" / "odd" / "kubelet_memory_groups.jsonl.gz"
NEXT_VERSION = TESTS / "conformance" / "golden" / "kubelet_admission_1_37.jsonl.gz"
NEXT_VERSION_RESTARTS = TESTS / "conformance" / "kubelet_1_37" / "restarts.jsonl.gz"
"""What the code of 1.37 answered; the simulated kubelet has that of 1.36."""
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


# docs/compatibility.md: 1.37 takes the QoS class from the containers if `spec.resources` is there and names nothing.
def test_kubelets_of_1_36_and_1_37_admit_alike_unless_pod_level_resources_are_empty(
    programs: Mapping[str, Path], tmp_path: Path
) -> None:
    lines = gzip.decompress(NEXT_VERSION.read_bytes()).splitlines()
    empty = [line for line in lines if any(pod["spec"].get("resources") == {} for pod in json.loads(line)["pods"])]
    same, other = tmp_path / "same.jsonl", tmp_path / "other.jsonl"
    same.write_bytes(b"".join(line + b"\n" for line in lines if line not in empty))
    other.write_bytes(b"".join(line + b"\n" for line in empty))
    found = replay(programs["kubelets"], same)
    assert found.differences == []
    assert (found.sequences, found.pods) == (71, 502)
    differ = replay(programs["kubelets"], other).differences
    assert any('qos: recorded "Guaranteed", replayed "BestEffort"' in difference for difference in differ)


# Likewise: a kubelet of 1.36 with full-pcpus-only counts free cores for pods that have theirs when it starts again.
def test_kubelets_of_1_36_and_1_37_start_again_alike_unless_cores_are_counted_twice(
    programs: Mapping[str, Path],
) -> None:
    text = gzip.decompress(NEXT_VERSION_RESTARTS.read_bytes())
    found: Counter[tuple[str | None, str | None]] = Counter()
    for line, older in zip(text.splitlines(), answers(programs["kubelets"], text), strict=True):
        case = json.loads(line)
        lost = [{pod["pod"]: pod.get("lost") for pod in each["pods"]} for each in (older, case["expect"])]
        changed = [(lost[0][pod], lost[1][pod]) for pod in lost[0] if lost[0][pod] != lost[1][pod]]
        found.update(changed)
        if not changed:
            assert list(differences(case["id"], case["expect"], older)) == []
    # With 1.37 one of these pods is rejected all the same: its init container got its memory again.
    assert found == {("SMTAlignmentError", None): 14, ("SMTAlignmentError", "UnexpectedAdmissionError"): 1}


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


# A machine of two NUMA nodes with 8 CPUs and 16 GiB each, one CPU of them the system's, and of each kind of manager,
# policy and exporter; GPUs near the first NUMA node, near both, or nowhere (koordlet's NodeResourceTopology has none).
# Pods come until it is full: none that its kubelet admits is predicted to fail, and under single-numa-node, which hides
# no state from it, none that it rejects to be admitted.
@pytest.mark.parametrize(
    ("publisher", "gpus"), [*product(("rte", "nfd"), ((), (2, 0), (2, 2))), ("koordlet", ())], ids=str
)
@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_combination_of_managers_is_predicted_from_its_topology(
    programs: Mapping[str, Path], policy: str, scope: str, publisher: str, gpus: tuple[int, ...]
) -> None:
    near = {f"{zone}-{number}": [zone] for zone, count in enumerate(gpus) for number in range(count)}
    sequences: list[dict[str, Any]] = []
    for cpu_policy, memory_policy in product(("none", "static"), ("None", "Static")):
        machine: dict[str, Any] = {**TWO_OF_EIGHT, "policy": policy, "scope": scope, "reservedCPUs": "0"}
        machine |= {"cpuPolicy": cpu_policy, "memoryPolicy": memory_policy, "devices": {GPU: near} if near else {}}
        random = Random(f"{policy} {scope} {gpus} {cpu_policy} {memory_policy}")  # noqa: S311 - to be repeatable
        pods = []
        for number in range(12):
            devices = {GPU: random.choice((1, 1, 2))} if near and random.random() < 0.4 else {}
            raw = created(
                name=f"p{number}", numa=None, cpu=random.choice((1, 2, 3, 5)), memory=random.choice(("1Gi", "9Gi")),
                devices=devices,
            )  # fmt: skip
            pods.append(raw)
        sequences.append({"publisher": publisher, "machine": machine, "pods": pods})
    for sequence, replayed in zip(sequences, _replayed(programs, sequences), strict=True):
        managers = (sequence["machine"]["cpuPolicy"], sequence["machine"]["memoryPolicy"])
        # Beside koordlet the service keeps Koordinator's rules: all CPUs and memory have a NUMA node.
        is_its_kubelet = publisher != "koordlet" or managers == ("static", "Static")
        running: list[dict[str, Any]] = []
        for raw, answer in zip(sequence["pods"], replayed, strict=True):
            fits = _fits(raw, answer["nrtBefore"], running, gpus=len(near))
            where = f"managers {managers}, {raw['metadata']['name']}: {answer}"
            assert fits or not answer["admit"] or not is_its_kubelet, where
            assert answer["admit"] or not fits or policy != "single-numa-node", where
            if answer["admit"]:
                allocation = {NUMA_ALLOCATION: _allocation(answer)} if publisher == "koordlet" else {}
                metadata = {**raw["metadata"], "annotations": allocation}
                running.append({**raw, "metadata": metadata, "spec": {**raw["spec"], "nodeName": "n"}})


def _fits(raw: dict[str, Any], topology: dict[str, Any], running: list[dict[str, Any]], *, gpus: int) -> bool:
    """Whether the pod is predicted to be admitted on the node `n`."""
    state = ClusterState()
    for other in running:
        state.upsert_pod(ResidentPod.from_object(other))
    state.upsert_node(Node.from_object(node(name="n", cpus=64, devices={GPU: gpus})))
    topology = {**topology, "metadata": {**topology.get("metadata", {}), "name": "n"}}
    state.upsert_topology(NodeTopology.from_object(topology))
    return bool(decide(Snapshot(state.node_arrays()), Pod.from_object(raw), NO_INTENT).fits[0])


def _allocation(answer: dict[str, Any]) -> str:
    """What a pod of one container got; memory over several NUMA nodes counts in the first."""
    (given,) = answer["containers"]
    amounts: dict[int, dict[str, str]] = {}
    for numa, cpus in given.get("cpusPerNuma", {}).items():
        amounts.setdefault(int(numa), {})["cpu"] = str(cpus)
    for block in given.get("memory", ()):
        amounts.setdefault(block["numaAffinity"][0], {})[block["type"]] = str(block["size"])
    entries = [{"node": numa, "resources": each} for numa, each in sorted(amounts.items())]
    return json.dumps({"node": "n", "numaNodeResources": entries})


# m [8 8] cpus, [16 16] GiB. Exporters list what active pods hold; a kubelet's checkpoints keep what ended until the
# next pod comes, for they are cleaned when allocations for it are asked for.
@pytest.mark.parametrize("publisher", ["rte", "nfd"])
def test_what_ended_is_free_in_the_topology_at_once_and_in_the_kubelets_state_with_the_next_pod(
    programs: Mapping[str, Path], publisher: str
) -> None:
    pods = [guaranteed(name, 4, 4) for name in ("a", "b", "c")]
    sequence = {"publisher": publisher, "machine": STATIC, "pods": pods, "remove": {"b": ["a"]}}
    (answers,) = _replayed(programs, [sequence])
    assert _free(answers[1]["nrtBefore"]) == {"node-0": 8, "node-1": 8}
    assert answers[1]["stateBefore"] == {"a": {"cpus": 4, "memory": 4 * GIB}}
    assert answers[2]["stateBefore"] == {"b": {"cpus": 4, "memory": 4 * GIB}}


# The CPU manager gives before the memory manager fails: the kubelet rejects the pod, and its CPUs stay in the state.
def test_a_rejected_pod_holds_its_cpus_until_the_next_one_comes(programs: Mapping[str, Path]) -> None:
    machine = {**STATIC, "policy": "none"}
    answers = _verdicts(programs, machine, [guaranteed("a", 4, 33), guaranteed("b", 8, 4), guaranteed("c", 8, 4)])
    assert [answer["admit"] for answer in answers] == [False, True, True]
    assert answers[0]["reason"] == "UnexpectedAdmissionError"
    assert answers[0]["message"].startswith("Allocate failed due to [memorymanager] ")
    assert answers[1]["stateBefore"] == {"a": {"cpus": 4, "memory": 0}}
    assert list(answers[2]["stateBefore"]) == ["b"]


# A kubelet keeps for a pod what its init containers had; the pod resources API does not list those.
@pytest.mark.parametrize("publisher", ["rte", "nfd"])
def test_what_init_containers_had_is_held_but_shown_as_free(programs: Mapping[str, Path], publisher: str) -> None:
    first = guaranteed("a", 1, 1)
    first["spec"]["initContainers"] = [container(name="init", cpu=6, memory="1Gi")]
    pods = [first, guaranteed("b", 5, 1), guaranteed("c", 4, 1)]
    (answers,) = _replayed(programs, [{"publisher": publisher, "machine": STATIC, "pods": pods}])
    assert _free(answers[1]["nrtBefore"]) == {"node-0": 7, "node-1": 8}
    assert answers[1]["stateBefore"]["a"]["cpus"] == 7  # init: 6, of which the container uses 1 again
    assert [list(answer["containers"][-1]["cpusPerNuma"]) for answer in answers[:2]] == [["0"], ["1"]]
    assert answers[2]["reason"] == "TopologyAffinityError"


# m [8 8] cpus, [16 16] GiB: a pod with 20 GiB has its memory on both NUMA nodes, and nothing says how much on each.
@pytest.mark.parametrize(("publisher", "free"), [("rte", [0, 0]), ("nfd", [0, 12])])
def test_exporters_differ_in_where_they_count_memory_of_several_numa_nodes(
    programs: Mapping[str, Path], publisher: str, free: list[int]
) -> None:
    machine = {**STATIC, "policy": "best-effort"}
    pods = [guaranteed("a", 10, 20), guaranteed("b", 1, 1)]
    (answers,) = _replayed(programs, [{"publisher": publisher, "machine": machine, "pods": pods}])
    shown = _free(answers[1]["nrtBefore"], "memory")
    assert [shown[f"node-{numa}"] // GIB for numa in (0, 1)] == free


def _free(topology: dict[str, Any], resource: str = "cpu") -> dict[str, int]:
    """NUMA node -> what is available of a resource."""
    return {
        zone["name"]: int(each["available"])
        for zone in topology["zones"]
        for each in zone["resources"]
        if each["name"] == resource
    }


def _verdicts(
    programs: Mapping[str, Path], machine: Mapping[str, Any], pods: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    (answers,) = _replayed(programs, [{"machine": machine, "pods": pods}])
    return answers


def _replayed(programs: Mapping[str, Path], sequences: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The kubelet's verdicts on the pods of each sequence."""
    text = "\n".join(map(json.dumps, sequences))
    run = subprocess.run([programs["kubelets"], "replay"], input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line)["pods"] for line in run.stdout.splitlines()]
