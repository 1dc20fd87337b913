"""`topology-webhook review` of workloads: annotations of the workload and of its templates."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.pods import GATES, guaranteed, plain
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.cluster.kinds import KINDS, APIKind, at
from tests.unit.cli.conftest import CLUSTER, EXAMPLES, Printed, run_review
from webhook.formats.patches.affinity_patch import required_terms
from webhook.model.names import PLACEMENT

RACKS = EXAMPLES / "snapshots" / "racks.yaml"
TOPOLOGY = topology(name="racks", labels=("example.com/hall", "example.com/rack"))
SPEC = "scheduling.koordinator.sh/numa-topology-spec"
INHERIT = "topology-webhook.dev/inherit"
SINGLE = {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
RACK = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": "rack"}


def labelled(**how: Any) -> dict[str, Any]:
    return template(labels={"app": "w"}, **how)


def job(own: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    spec = {"parallelism": 4, "completions": 4, "template": labelled(annotations=annotations)}
    return workload(kind="Job", metadata={"uid": "uid-w"}, annotations=own, spec=spec)


def training(annotations: Mapping[str, str], master: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    replicas = {"Master": {"replicas": 1, "template": master}, "Worker": {"replicas": 3, "template": worker}}
    return workload(kind="PyTorchJob", annotations=annotations, spec={"pytorchReplicaSpecs": replicas})


def review(folder: Path, *objects: Mapping[str, Any], flags: tuple[str, ...] = (), cluster: Path = RACKS) -> Printed:
    (folder / "objects.json").write_text("\n".join(map(json.dumps, objects)))
    return run_review("-f", folder / "objects.json", "-o", "json", *flags, cluster=cluster)


def one(folder: Path, raw: Mapping[str, Any], *flags: str) -> Any:
    """The answer for an object that follows the topology."""
    return review(folder, TOPOLOGY, raw, flags=flags).json[1]


def shown(entry: Any) -> list[tuple[Any, ...]]:
    return [(each["name"], each["pods"], each["managed"], each["policy"]) for each in entry["podSets"]]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_stands_on_a_workload_holds_for_the_pods_of_all_its_templates(kind: APIKind, tmp_path: Path) -> None:
    entry = one(tmp_path, kind.workload(SINGLE, labelled(cpu=4)))
    assert (entry["verdict"], entry["warnings"]) == ("allow", [])
    assert all(each["managed"] and each["policy"] == "SingleNUMANode" for each in entry["podSets"])
    assert {each["path"] for each in entry["podSets"]} == set(kind.templates)
    assert sum(each["pods"] for each in entry["podSets"]) == sum(map(len, kind.groups.values()))
    assert entry["nodes"]["fit"] == 5
    for path in kind.templates:
        assert required_terms(at(entry["mutated"], path)) is not None
        assert SPEC not in at(entry["mutated"], path)["metadata"]["annotations"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_and_so_does_a_rack_which_the_yaml_keeps(kind: APIKind, tmp_path: Path) -> None:
    entry = one(tmp_path, kind.workload({**SINGLE, **RACK}, labelled(cpu=4)))
    group = entry["group"]
    assert (entry["verdict"], group["placed"], group["required"]) == ("allow", True, "example.com/rack")
    # as in the cluster: over all pod sets of a gang, in the order of tests/integration/test_kinds.py
    by_rank = sorted(group["pods"], key=lambda pod: pod["rank"])
    assert [pod["rank"] for pod in by_rank] == sorted([*range(len(by_rank) // len(kind.groups))] * len(kind.groups))
    names = [pattern.removesuffix("-*") for patterns in kind.groups.values() for pattern in patterns]
    if len(kind.groups) == 1 and not any("*" in name for name in names) and len({*names}) == len(names):
        assert [pod["name"] for pod in by_rank] == names
    assert len(group["pods"]) == group["minimum"] == sum(map(len, kind.groups.values()))
    racks = {each["domain"][1][1] for each in group["pods"]}
    for path in kind.templates:
        (term,) = required_terms(at(entry["mutated"], path)) or []
        assert {"key": "example.com/rack", "operator": "In", "values": sorted(racks)} in term["matchExpressions"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_an_operator_of_another_kind_creates_is_answered_as_a_users_own(kind: APIKind, tmp_path: Path) -> None:
    for annotations in ({**SINGLE, **RACK}, {**RACK, "kai.scheduler/topology-required-placement": "rakc"}):
        raw = kind.workload(annotations, labelled(cpu=4))
        owner = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Trial", "name": "t", "uid": "t", "controller": True}
        made = {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}
        alone, of_operator = one(tmp_path, raw), one(tmp_path, made)
        for field in ("verdict", "message", "group"):
            assert alone.get(field) == of_operator.get(field)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("level", ["rack", "rakc"])
def test_a_workload_within_an_object_of_another_kind_is_answered_for(kind: APIKind, level: str, tmp_path: Path) -> None:
    raw = kind.workload({**SINGLE, **RACK, "kai.scheduler/topology-required-placement": level}, labelled(cpu=4))
    components = [{"template": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}, {"template": raw}]
    wrapper = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "aw"}}
    alone, wrapped = one(tmp_path, raw), one(tmp_path, {**wrapper, "spec": {"components": components}})
    assert (wrapped["object"]["kind"], wrapped["verdict"]) == ("AppWrapper", alone["verdict"])
    assert wrapped["message"] == f"{kind.kind} w at spec.components[1].template: {alone['message']}"
    assert wrapped.get("group") == alone.get("group")
    spec = (alone["mutated"] if level == "rack" else raw)["spec"]
    assert wrapped["mutated"]["spec"]["components"][1]["template"]["spec"] == spec


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("trainer.kubeflow.org/v1alpha1", "TrainJob"), ("argoproj.io/v1alpha1", "Workflow"), ("example.com/v1", "Thing")],
)
def test_annotations_on_an_object_of_another_kind_apply_to_pods_that_carry_the_mark(
    api_version: str, kind: str, tmp_path: Path
) -> None:
    told = f"this service does not read objects of the kind {kind}"
    for spec, is_warned in (
        ({}, True),
        ({"template": labelled(cpu=4)}, True),
        ({"template": labelled(cpu=4, annotations={INHERIT: "true"})}, False),
    ):
        raw = workload(kind=kind, api_version=api_version, annotations={**SINGLE, **RACK}, spec=spec)
        assert [told in text for text in one(tmp_path, raw)["warnings"]] == [True] * is_warned
    assert one(tmp_path, workload(kind=kind, api_version=api_version, spec={}))["warnings"] == []


def test_each_template_may_ask_for_its_own(tmp_path: Path) -> None:
    restricted = {SPEC: '{"numaTopologyPolicy": "Restricted"}'}
    entry = one(tmp_path, training(SINGLE, labelled(cpu=4, annotations=restricted), labelled(cpu=8)))
    assert shown(entry) == [("master", 1, True, "Restricted"), ("worker", 3, True, "SingleNUMANode")]
    assert [each["nodes"]["fit"] for each in entry["podSets"]] == [1, 5]
    assert (entry["verdict"], entry["nodes"]["fit"]) == ("allow", 1)


def test_the_answer_is_that_of_the_pods_that_wait(tmp_path: Path) -> None:
    outcome = review(tmp_path, training({}, labelled(cpu=4), labelled(cpu=16, annotations=SINGLE)), cluster=CLUSTER)
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"]) == (1, "wait")
    assert entry["message"].startswith("worker: SingleNUMANode: none of 6 nodes fits now; ")
    assert shown(entry)[0] == ("master", 1, False, None)


def test_pods_that_ask_for_nothing_are_no_members(tmp_path: Path) -> None:
    entry = one(tmp_path, training({}, labelled(cpu=4), labelled(cpu=8, annotations={**RACK, **SINGLE})))
    assert [each["inGroup"] for each in entry["podSets"]] == [False, True]
    assert sorted(each["name"] for each in entry["group"]["pods"]) == ["w-worker-0", "w-worker-1", "w-worker-2"]
    master = entry["mutated"]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    assert master == labelled(cpu=4)


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        (labelled(cpu=4, annotations={INHERIT: "false"}), ("master", 1, False, None)),
        (labelled(cpu=4, schedulerName="another"), ("master", 1, False, None)),
        (labelled(cpu=4), ("master", 1, True, "SingleNUMANode")),
    ],
    ids=["takes nothing", "of another scheduler", "takes it"],
)
def test_a_template_may_be_none_of_the_groups(master: dict[str, Any], wanted: Any, tmp_path: Path) -> None:
    entry = one(tmp_path, training({**RACK, **SINGLE}, master, labelled(cpu=8)))
    assert shown(entry) == [wanted, ("worker", 3, True, "SingleNUMANode")]
    assert len(entry["group"]["pods"]) == 3 + wanted[2]


def test_a_template_that_says_something_itself_takes_nothing_of_that(tmp_path: Path) -> None:
    own = {"scheduling.koordinator.sh/resource-spec": '{"numaTopologyPolicy": "Restricted"}'}
    (entry,) = review(tmp_path, job(SINGLE, annotations=own)).json
    assert shown(entry) == [("pods", 4, True, "Restricted")]


def test_what_stands_between_a_workload_and_its_template_goes_before_the_workload(tmp_path: Path) -> None:
    below = job({SPEC: '{"numaTopologyPolicy": "Restricted"}'})
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"metadata": below["metadata"], "spec": below["spec"]}}
    (entry,) = review(tmp_path, workload(kind="CronJob", annotations=SINGLE, spec=spec)).json
    assert shown(entry) == [("pods", 4, True, "Restricted")]


def test_without_a_gate_pods_take_nothing_from_their_owners(tmp_path: Path) -> None:
    entry = one(tmp_path, job({**SINGLE, **RACK}), "--gate", "Never")
    assert shown(entry) == [("pods", 4, True, None)]
    assert "group" not in entry


def test_what_has_a_mark_and_nothing_to_take_is_left_alone(tmp_path: Path) -> None:
    (entry,) = review(tmp_path, job({}, annotations={INHERIT: "true"})).json
    assert entry["message"] == "unmanaged: neither it nor its owners ask for a placement"
    assert shown(entry) == [("pods", 4, False, None)]
    assert entry["mutated"] == job({}, annotations={INHERIT: "true"})


@pytest.mark.parametrize(
    ("annotations", "place"), [({SPEC: "{"}, "metadata.annotations"), ({}, "spec.template.metadata.annotations")]
)
def test_a_mistake_is_denied_wherever_it_stands(annotations: dict[str, str], place: str, tmp_path: Path) -> None:
    raw = job(annotations, annotations=None if annotations else {SPEC: "{"})
    outcome = review(tmp_path, raw)
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"], entry["mutated"]) == (1, "deny", raw)
    assert entry["message"].startswith(f"{place}[{SPEC}]")


@pytest.mark.parametrize("known", [True, False])
def test_a_pod_takes_from_an_owner_that_is_among_the_objects(known: bool, tmp_path: Path) -> None:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-w", "controller": True}
    raw = plain(
        namespace="", name="w-0-abcde", annotations={INHERIT: "true"}, metadata={"ownerReferences": [reference]}
    )
    entry = review(tmp_path, raw, *([job(SINGLE)] if known else [])).json[0]
    assert entry["podSets"][0]["policy"] == ("SingleNUMANode" if known else None)
    told = ["its owner Job w is neither among the objects nor in the cluster: what it asks for is not known."]
    assert entry["warnings"] == ([] if known else told)


def test_or_that_is_in_the_snapshot(tmp_path: Path) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "uid-w", "controller": True}
    deployment = workload(
        kind="Deployment", metadata={"uid": "uid-w"}, annotations=SINGLE, spec={"template": labelled()}
    )
    spec = {"replicas": 2, "template": labelled(annotations={INHERIT: "true"})}
    below = workload(kind="ReplicaSet", name="w-5d4f", metadata={"ownerReferences": [reference]}, spec=spec)
    (tmp_path / "cluster.yaml").write_text(RACKS.read_text() + "\n---\n" + yaml.safe_dump(deployment))
    (entry,) = review(tmp_path, below, cluster=tmp_path / "cluster.yaml").json
    assert shown(entry) == [("pods", 2, True, "SingleNUMANode")]


def test_of_a_job_that_runs_only_the_pods_are_placed_that_are_still_to_come(tmp_path: Path) -> None:
    entry = one(tmp_path, {**job(RACK, annotations=SINGLE), "status": {"succeeded": 3}})
    assert [each["name"] for each in entry["group"]["pods"]] == ["w-0"]
    assert entry["mutated"]["spec"]["completions"] == 4


def test_kinds_that_are_not_known_are_judged_by_their_templates(tmp_path: Path) -> None:
    spec = {"template": labelled(annotations={INHERIT: "true"})}
    raw = workload(kind="Rollout", api_version="argoproj.io/v1alpha1", annotations=SINGLE, spec=spec)
    (entry,) = review(tmp_path, raw).json
    assert shown(entry) == [("pods", None, True, "SingleNUMANode")]


def test_a_pod_that_is_left_to_the_scheduler_may_go_to_all_nodes_that_can_take_it_some_day(tmp_path: Path) -> None:
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    (entry,) = review(tmp_path, plain(namespace="", cpu=16, annotations=SINGLE, volumes=claim)).json
    assert entry["message"].startswith("the scheduler chooses the node, for its volumes; SingleNUMANode: 3 of 6")
    (term,) = required_terms(entry["mutated"]) or []
    hostnames = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n6"]}
    assert term == {"matchExpressions": [hostnames]}


@pytest.mark.parametrize("minimum", [None, "2", "3"])
def test_bare_pods_wait_for_as_many_as_must_start_together(minimum: str | None, tmp_path: Path) -> None:
    asked = {"pod-group-name": "g", **RACK, **({"topology-webhook.dev/min-member": minimum} if minimum else {})}
    pods = [plain(namespace="", annotations=asked, metadata={"generateName": "p-"}) for _ in range(2)]
    for raw in pods:
        del raw["metadata"]["name"]
    entries = review(tmp_path, TOPOLOGY, *pods).json[1:]
    if minimum == "3":
        assert {entry["verdict"] for entry in entries} == {"wait"}
        assert entries[0]["message"] == "gang g: 2 of the 3 pods that must start together are there"
    else:
        assert {entry["verdict"] for entry in entries} == {"allow"}
        assert len({each["name"] for each in entries[0]["group"]["pods"]}) == 2


def test_members_that_wait_in_the_cluster_count(tmp_path: Path) -> None:
    asked = {"pod-group-name": "g", "topology-webhook.dev/min-member": "2"}
    pods = [plain(namespace="", name=f"p-{number}", annotations=asked, schedulingGates=GATES) for number in range(2)]
    (tmp_path / "cluster.yaml").write_text(RACKS.read_text() + "\n---\n" + yaml.safe_dump(pods[1]))
    (entry,) = review(tmp_path, pods[0], cluster=tmp_path / "cluster.yaml").json
    assert (entry["verdict"], len(entry["group"]["pods"])) == ("allow", 2)


def test_a_member_without_room_waits_by_itself(tmp_path: Path) -> None:
    asked = {"pod-group-name": "g", **SINGLE}
    pods = [plain(namespace="", name=f"p-{number}", cpu=12, annotations=asked) for number in range(2)]
    outcome = review(tmp_path, *pods, cluster=CLUSTER)  # 12 cpus are free in one NUMA node, and nowhere else
    assert (outcome.code, [entry["verdict"] for entry in outcome.json]) == (1, ["allow", "wait"])


def test_what_is_too_large_is_denied_only_if_it_asks_for_a_placement(tmp_path: Path) -> None:
    for annotations, verdict in ((SINGLE, "deny"), ({}, "allow")):
        containers = [guaranteed(name=f"c{index}", cpu=1) for index in range(65)]
        (entry,) = review(tmp_path, plain(namespace="", annotations=annotations, containers=containers)).json
        assert entry["verdict"] == verdict


def test_what_only_the_service_writes_is_denied(tmp_path: Path) -> None:
    (entry,) = review(tmp_path, plain(namespace="", annotations={**SINGLE, "topology-webhook.dev/numa": "{}"})).json
    assert entry["verdict"] == "deny"
    assert "Only topology-webhook writes this" in entry["message"]


def test_what_the_yaml_cannot_keep_is_told(tmp_path: Path) -> None:
    lws = next(kind for kind in KINDS if kind.kind == "LeaderWorkerSet")
    raw = lws.workload({**RACK, **SINGLE}, labelled(cpu=8))
    raw["spec"]["replicas"] = 3
    (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, (TOPOLOGY, raw))))
    outcome = run_review("-f", tmp_path / "objects.json", "-o", "yaml", cluster=RACKS)
    assert "spec.leaderWorkerTemplate.workerTemplate: its pods are limited to " in outcome.stderr


def test_the_yaml_of_workloads_reviewed_again_is_the_same(tmp_path: Path) -> None:
    objects = [TOPOLOGY, *(kind.workload({**RACK, **SINGLE}, labelled(cpu=4)) for kind in KINDS)]
    (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
    first = run_review("-f", tmp_path / "objects.json", "-o", "yaml", cluster=RACKS).stdout
    (tmp_path / "again.yaml").write_text(first)
    assert run_review("-f", tmp_path / "again.yaml", "-o", "yaml", cluster=RACKS).stdout == first
    assert first.count(PLACEMENT) == sum(len(kind.templates) for kind in KINDS)


@pytest.mark.parametrize("raw", [job(SINGLE), job({}, SINGLE), job({SPEC: "{"})])
def test_workloads_of_excluded_namespaces_are_left_alone(raw: dict[str, Any], tmp_path: Path) -> None:
    raw = {**raw, "metadata": {**raw["metadata"], "namespace": "kube-system"}}
    outcome = review(tmp_path, raw)
    (entry,) = outcome.json
    assert (outcome.code, entry["message"]) == (0, "unmanaged: its namespace kube-system is excluded")
    assert entry["mutated"] == raw
