"""The peers' tables, replayed: what they place is placed here, at least as close together, and correctly.

Kueue's tables run through `review`. KAI-Scheduler's groups nest deeper than annotations, so they run on the engine.
"""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.builders.gangs import topology_of
from tests.conformance.peers.tables import (
    Row,
    domain,
    in_words,
    is_placed,
    is_together,
    layers_of,
    objects,
    overfull,
    rows,
    running_pod,
    sets_of,
    spread,
)
from tests.unit.cli.conftest import run_review
from webhook.engine.gang import Constraint, Gang, Member, PodSet, assign_gang
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.names import STRATEGY
from webhook.model.raw import Draft

Assignments = dict[str, dict[str, str]]
"""Set -> pod, in order of rank -> node; empty if there is no place."""


@cache
def seats(table: str, number: int) -> Assignments:
    """The nodes of a row's pods, including those that run."""
    row = rows(table)[number]
    return _reviewed(row) if table == "kueue" else _assigned(row)


KUEUE = [pytest.param(number, id=f"{number}: {in_words(row)}") for number, row in enumerate(rows("kueue"))]
KAI = [pytest.param(number, id=f"{number}: {in_words(row)}") for number, row in enumerate(rows("kai"))]


@pytest.mark.parametrize("number", KUEUE)
def test_what_kueue_places_holds_here_and_is_as_near_together(number: int) -> None:
    _compare("kueue", number)


@pytest.mark.parametrize("number", KAI)
def test_what_kai_places_holds_here_and_is_as_near_together(number: int) -> None:
    _compare("kai", number)


@pytest.mark.parametrize("number", KUEUE)
def test_what_kueue_places_is_on_the_very_nodes_or_the_row_says_why_not(number: int) -> None:
    _compare_nodes("kueue", number)


@pytest.mark.parametrize("number", KAI)
def test_what_kai_places_is_on_the_very_nodes_or_the_row_says_why_not(number: int) -> None:
    _compare_nodes("kai", number)


def _compare_nodes(table: str, number: int) -> None:
    row = rows(table)[number]
    assert _is_equal(row, seats(table, number)) == ("ours" not in row and "differs" not in row)


def _is_equal(row: Row, found: Assignments) -> bool:
    theirs = _of_domains(row)
    if not theirs:
        return bool(found) == is_placed(row)
    return {each: _per_domain(row, list(pods.values())) for each, pods in found.items()} == theirs


def _compare(table: str, number: int) -> None:
    row, found = rows(table)[number], seats(table, number)
    if "ours" not in row:
        assert bool(found) == is_placed(row)
    if not found:
        return
    assert _faults(row, found) == []
    theirs = _of_domains(row)
    if theirs:
        together = sum(theirs.values(), Counter[str]())
        ours = _per_domain(row, [node for pods in found.values() for node in pods.values()])
        if sum(ours.values()) == together.total():
            assert spread(ours) <= spread(together)


def _faults(row: Row, found: Assignments) -> list[str]:
    """What is wrong with an assignment."""
    faults = []
    taken = []
    unready = {name for name, node in row["nodes"].items() if node.get("unready") or node.get("cordoned")}
    for each in sets_of(row):
        pods = found.get(each["name"], {})
        nodes = list(pods.values())
        fresh = {pod: node for pod, node in pods.items() if pod not in row.get("running", {})}
        counted = pods if not row.get("runningTakesNothing") else fresh
        taken += [(node, each["takes"]) for node in counted.values()]
        faults += [f"{node} is not to be used" for node in fresh.values() if node in unready]
        for key, value in each.get("selector", {}).items():
            labels = {raw["metadata"]["name"]: raw["metadata"].get("labels", {}) for raw in objects(row)}
            faults += [f"{node} lacks {key}" for node in fresh.values() if labels[node].get(key) != value]
        if each.get("required") and not is_together(row, nodes, each["required"]):
            faults.append(f"{each['name']} is not in one {each['required']}")
        for size, level in layers_of(each):
            parts = [nodes[start : start + size] for start in range(0, len(nodes), size)] if size else []
            faults += [f"a segment is torn: {part}" for part in parts if not is_together(row, part, level)]
    everyone = [node for pods in found.values() for node in pods.values()]
    required = {each.get("required") for each in sets_of(row)} if row.get("together") else set()
    faults += [f"not all are in one {level}" for level in required if level and not is_together(row, everyone, level)]
    return faults + (_faults_of_group(row, row["group"], found) if "group" in row else []) + overfull(row, taken)


def _faults_of_group(row: Row, group: Row, found: Assignments) -> list[str]:
    faults = [fault for below in group["groups"] for fault in _faults_of_group(row, below, found)]
    names = {each["name"] for each in sets_of({"group": group})}
    nodes = [node for name in names for node in found.get(name, {}).values()]
    if group.get("required") and not is_together(row, nodes, group["required"]):
        faults.append(f"{group['name']} is not in one {group['required']}")
    return faults


def _reviewed(row: Row) -> Assignments:
    cluster = [*objects(row), *_running(row)]
    workload, names = _workload(row)
    with TemporaryDirectory() as folder:
        node_arrays, asked = Path(folder, "cluster.json"), Path(folder, "object.json")
        node_arrays.write_text("\n".join(map(json.dumps, cluster)))
        asked.write_text(json.dumps(workload))
        outcome = run_review("-f", asked, "-o", "json", cluster=node_arrays)
    assert outcome.code in {0, 1}, outcome.stderr
    (entry,) = outcome.json
    if entry["verdict"] != "allow":
        return {}
    where = {pod["name"]: pod["node"] for pod in entry["group"]["pods"]} | row.get("running", {})
    return {each: {pod: where[pod] for pod in pods if pod in where} for each, pods in names.items()}


def _running(row: Row) -> list[Draft]:
    """The pods of the workload that run, and their amounts."""
    found = []
    _, names = _workload(row)
    for each in row["sets"]:
        takes = {} if row.get("runningTakesNothing") else each["takes"]
        owner = "w" if len(row["sets"]) == 1 else f"w-{each['name']}-0"
        running = {pod: node for pod, node in row.get("running", {}).items() if pod in names[each["name"]]}
        found += [running_pod(pod, node, takes, owner=owner) for pod, node in running.items()]
    return found


def _workload(row: Row) -> tuple[Draft, dict[str, list[str]]]:
    """A Job, or a JobSet for several sets, and the names of the pods of each."""
    first, *others = row["sets"]
    if not others:
        count = first["count"]
        asked = _asked(first) | _segments(first) | _strategy(row) | {"topology-webhook.dev/min-member": str(count)}
        spec = {"parallelism": count, "completions": count, "template": _template(first, {})}
        return _object("batch/v1", "Job", spec, asked), {first["name"]: [f"w-{index}" for index in range(count)]}
    together = bool(row.get("together"))
    jobs = []
    for each in row["sets"]:
        template = _template(each, ({} if together else _asked(each)) | _segments(each))
        counts = {"parallelism": each["count"], "completions": each["count"]}
        jobs.append({"name": each["name"], "template": {"spec": {**counts, "template": template}}})
    asked = (_asked(first) if together else {"kai.scheduler/topology": "default"}) | _strategy(row)
    names = {each["name"]: [f"w-{each['name']}-0-{index}" for index in range(each["count"])] for each in row["sets"]}
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}, asked), names


def _object(api_version: str, kind: str, spec: Draft, annotations: dict[str, str]) -> Draft:
    metadata = {"name": "w", "namespace": "team", "annotations": annotations}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _asked(each: Row) -> dict[str, str]:
    levels = {wish: each[wish] for wish in ("required", "preferred") if wish in each}
    placements = {f"kai.scheduler/topology-{wish}-placement": level for wish, level in levels.items()}
    return {"kai.scheduler/topology": "default"} | placements


def _strategy(row: Row) -> dict[str, str]:
    return {STRATEGY: row["strategy"]} if "strategy" in row else {}


def _segments(each: Row) -> dict[str, str]:
    layers = layers_of(each)
    if not layers:
        return {}
    sizes = ",".join(str(size) for size, _ in layers if size is not None)
    sized = {"kai.scheduler/segment-size": sizes} if sizes else {}
    return sized | {"kai.scheduler/segment-topology-required-placement": ",".join(level for _, level in layers)}


def _template(each: Row, annotations: dict[str, str]) -> Draft:
    resources = {"requests": each["takes"], "limits": each["takes"]}
    spec: Draft = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    spec["nodeSelector"] = each.get("selector", {})
    spec["tolerations"] = each.get("tolerations", [])
    if "affinity" in each:
        spec["affinity"] = {"nodeAffinity": each["affinity"]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def _assigned(row: Row) -> Assignments:
    """The answer of the engine."""
    state = ClusterState()
    for raw in objects(row):
        if raw["kind"] == "Node":
            state.upsert_node(Node.from_object(raw))
        elif raw["kind"] == "Pod":
            state.upsert_pod(ResidentPod.from_object(raw))
    for each in sets_of(row):
        for number, node in enumerate(each.get("running", ())):
            raw = running_pod(f"{each['name']}-running-{number}", node, each["takes"])
            state.upsert_pod(ResidentPod.from_object(raw))
    snapshot = Snapshot(state.node_arrays())
    tree = TopologyTrees().tree(topology_of(*row["levels"]), snapshot.node_arrays)
    answer = assign_gang(snapshot, tree, _group(row["group"], row["levels"]))
    found: Assignments = {}
    for pod in answer.pods():
        found.setdefault(pod.set, {})[pod.name] = pod.node
    return found


def _group(group: Row, levels: list[str]) -> Gang:
    wishes = (levels.index(group[wish]) + 1 if wish in group else None for wish in ("required", "preferred"))
    subgroups = tuple(_group(below, levels) for below in group["groups"])
    return Gang(group["name"], Constraint(*wishes), tuple(map(_set, group["sets"])), subgroups)


def _set(each: Row) -> PodSet:
    raw = {"metadata": {"name": each["name"], "namespace": "team"}, **_template(each, {})}
    pod = Pod.from_object(raw)
    begun = each.get("running", ())
    members = tuple(Member(f"{each['name']}-{rank}", rank) for rank in range(len(begun), each["count"] + len(begun)))
    running = tuple(enumerate(begun))
    return PodSet(each["name"], pod, parse_numa_intent(pod.annotations)[0], members, each["min"], None, running)


def _per_domain(row: Row, nodes: list[str]) -> Counter[str]:
    return Counter(domain(row, node) for node in nodes)


def _of_domains(row: Row) -> dict[str, Counter[str]]:
    """The peer's assignment by domain. KAI-Scheduler names nodes."""
    found: dict[str, Counter[str]] = {}
    for each in sets_of(row):
        for place, pods in each.get("theirs", {}).items():
            at = domain(row, place) if place in row["nodes"] else place
            found.setdefault(each["name"], Counter())[at] += pods
    return found
