"""`topology-webhook review` of gangs: the place of every pod, or what each level lacks."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.builders.nodes import node, nrt
from tests.builders.pods import plain
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.unit.cli.conftest import Printed, Review
from webhook.cli.app import app
from webhook.formats.patches.affinity_patch import required_terms
from webhook.model.names import PLACEMENT

RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
SINGLE = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "SingleNUMANode"}'}
GROUP = {"pod-group-name": "g"}
NONE: Mapping[str, str] = {}
GPU = "nvidia.com/gpu"

# zone-a ─┬─ rack-1 ── n0 [4 0]  n1 [2 2]        [free CPUs and GPUs per NUMA node]
#         └─ rack-2 ── n2 [3 3]
# zone-b ─── rack-1 ── n3 [1 1]
NODES = {
    "n0": ("zone-a", "rack-1", (4, 0)),
    "n1": ("zone-a", "rack-1", (2, 2)),
    "n2": ("zone-a", "rack-2", (3, 3)),
    "n3": ("zone-b", "rack-1", (1, 1)),
}
TOPOLOGY = topology(labels=("example.com/zone", "example.com/rack"))

Judge = Callable[..., Printed]


def _node(name: str, zone: str, rack: str, free: tuple[int, ...]) -> list[dict[str, Any]]:
    labels = {"example.com/zone": zone, "example.com/rack": rack}
    machine = node(name=name, cpus=sum(free), devices={GPU: sum(free)}, labels=labels)
    return [machine, nrt(node=name, free=free, cpus=4, devices={GPU: free})]


def _template(gpus: int = 1, annotations: Mapping[str, str] = NONE) -> dict[str, Any]:
    return template(cpu=gpus, devices={GPU: gpus}, annotations=annotations)


def _job(
    pods: int, annotations: Mapping[str, str], on_template: Mapping[str, str] = NONE, gpus: int = 1
) -> dict[str, Any]:
    spec = {"parallelism": pods, "completions": pods, "template": _template(gpus, on_template)}
    return workload(kind="Job", name="train", metadata={"namespace": "team"}, annotations=annotations, spec=spec)


def _pod(name: str, annotations: Mapping[str, str], gpus: int = 1, **spec: Any) -> dict[str, Any]:
    return plain(name=name, namespace="team", cpu=gpus, devices={GPU: gpus}, annotations=annotations, **spec)


def requirements(of: dict[str, Any]) -> list[dict[str, Any]]:
    """The requirements of a template's only required term."""
    (term,) = required_terms(of) or []
    found: list[dict[str, Any]] = term["matchExpressions"]
    return found


@pytest.fixture
def judge(review: Review, tmp_path: Path) -> Judge:
    """`judge(object, ...)` reviews the objects on the cluster above. beside: more objects of that cluster."""

    def run(
        *objects: dict[str, Any],
        beside: tuple[dict[str, Any], ...] = (),
        output: str = "json",
        flags: tuple[str, ...] = (),
    ) -> Printed:
        cluster = [TOPOLOGY, *(each for name, place in NODES.items() for each in _node(name, *place)), *beside]
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, cluster)))
        (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
        return review("-f", tmp_path / "objects.json", "-o", output, *flags, cluster=tmp_path / "cluster.json")

    return run


def _nodes(group: dict[str, Any]) -> dict[str, list[str]]:
    taken: dict[str, list[str]] = {}
    for pod in group["pods"]:
        taken.setdefault(pod["node"], []).append(pod["name"])
    return taken


def test_a_job_goes_to_the_tightest_rack_that_holds_it(judge: Judge) -> None:
    outcome = judge(_job(6, RACK, SINGLE))
    (entry,) = outcome.json
    group = entry["group"]
    assert (outcome.code, entry["verdict"], group["placed"]) == (0, "allow", True)
    assert (group["name"], group["topology"]) == ("train", "network")
    assert group["domain"] == [["example.com/zone", "zone-a"], ["example.com/rack", "rack-2"]]
    assert _nodes(group) == {"n2": [f"train-{index}" for index in range(6)]}
    assert [pod["rank"] for pod in group["pods"]] == list(range(6))
    assert sorted(numa for pod in group["pods"] for numa in pod["numaNodes"]) == [0, 0, 0, 1, 1, 1]
    assert all(pod["domain"][:2] == group["domain"] for pod in group["pods"])
    assert group["why"] == []


# hn1 ── n1 [8] n2 [8]    hn2 ── n3 [8] n4 [0]    hn3 ── n5 [8] n6 [0]     [free CPUs]
@pytest.mark.parametrize("how", ["anti-affinity", "host port", "host network", "spread"])
def test_members_that_exclude_each_other_get_a_rack_with_a_node_for_each(
    how: str, review: Review, tmp_path: Path
) -> None:
    on_host = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
    raw = _job(2, RACK)
    below = raw["spec"]["template"] = template(cpu=2, labels={"app": "w"})
    match how:
        case "anti-affinity":
            terms = {"requiredDuringSchedulingIgnoredDuringExecution": [on_host]}
            below["spec"]["affinity"] = {"podAntiAffinity": terms}
        case "spread":
            rule = {**on_host, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            below["spec"]["topologySpreadConstraints"] = [rule]
        case _:
            below["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            if how == "host network":
                below["spec"]["hostNetwork"] = True
                del below["spec"]["containers"][0]["ports"][0]["hostPort"]
    places = {"n1": "hn1", "n2": "hn1", "n3": "hn2", "n4": "hn2", "n5": "hn3", "n6": "hn3"}
    labels = {name: {"example.com/rack": rack, "kubernetes.io/hostname": name} for name, rack in places.items()}
    nodes = [node(name=name, cpus=0 if name in {"n4", "n6"} else 8, labels=labels[name]) for name in places]

    def judged(*without: str) -> Any:
        cluster = [
            topology(labels=("example.com/rack",)),
            *(raw for raw in nodes if raw["metadata"]["name"] not in without),
        ]
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, cluster)))
        (tmp_path / "job.json").write_text(json.dumps(raw))
        (entry,) = review("-f", tmp_path / "job.json", "-o", "json", cluster=tmp_path / "cluster.json").json
        return entry

    found = judged()
    assert (found["verdict"], found["warnings"]) == ("allow", [])
    assert {pod["node"] for pod in found["group"]["pods"]} == {"n1", "n2"}
    waits = judged("n2")
    assert waits["verdict"] == "wait"
    assert "1 of 2 pods: nodes for members that" in waits["message"]
    assert "needed: room for 1 more pod on other nodes there" in waits["message"]


def test_or_to_the_one_with_most_room_where_that_is_asked_for(judge: Judge) -> None:
    (entry,) = judge(_job(6, RACK, SINGLE), flags=("--gang-strategy", "Spread")).json
    assert entry["group"]["domain"][-1] == ["example.com/rack", "rack-1"]


def test_rack_and_numa_node_are_found_together(judge: Judge) -> None:
    """Rack-1 has eight free CPUs and rack-2 six. Only n0 has four of them on one NUMA node."""
    (entry,) = judge(_job(1, RACK, SINGLE, gpus=4)).json
    assert [(pod["node"], pod["numaNodes"]) for pod in entry["group"]["pods"]] == [("n0", [0])]
    outcome = judge(_job(2, RACK, SINGLE, gpus=4))
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"], entry["group"]["placed"]) == (1, "wait", False)


def test_a_group_without_a_place_is_told_what_each_level_holds(judge: Judge) -> None:
    outcome = judge(_job(9, RACK))
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"]) == (1, "wait")
    group = entry["group"]
    assert (group["placed"], group["domain"], group["pods"]) == (False, None, [])
    (short,) = group["why"]
    assert short["level"] == "example.com/rack"
    assert short["domain"] == [["example.com/zone", "zone-a"], ["example.com/rack", "rack-1"]]
    assert (short["holds"], short["needed"]) == (8, 9)
    assert short["resource"] in {"cpu", GPU}
    assert entry["message"].startswith("gang train does not fit now: rack rack-1 holds 8 of 9 pods: ")
    below = entry["mutated"]["spec"]["template"]
    assert (below["spec"], list(below["metadata"]["annotations"])) == (_template()["spec"], [PLACEMENT])


def test_a_preferred_level_falls_back_to_a_coarser_one(judge: Judge) -> None:
    preferred = {"kai.scheduler/topology": "network", "kai.scheduler/topology-preferred-placement": "rack"}
    (entry,) = judge(_job(12, preferred)).json
    assert entry["verdict"] == "allow"
    assert entry["group"]["domain"] == [["example.com/zone", "zone-a"]]


def test_a_template_goes_before_its_workload(judge: Judge) -> None:
    zone = {"kai.scheduler/topology-required-placement": "zone"}
    (entry,) = judge(_job(12, RACK, zone)).json
    assert entry["group"]["domain"] == [["example.com/zone", "zone-a"]]


def test_a_minimum_makes_a_group_without_a_topology(judge: Judge) -> None:
    (entry,) = judge(_job(20, {"kai.scheduler/batch-min-member": "16"})).json
    group = entry["group"]
    assert (entry["verdict"], group["topology"], group["domain"]) == ("allow", None, None)
    assert (len(group["pods"]), len(group["unplaced"])) == (16, 4)
    (entry,) = judge(_job(20, {"kai.scheduler/batch-min-member": "4"}, {"kai.scheduler/batch-min-member": "17"})).json
    assert (entry["verdict"], entry["group"]["why"][0]["level"]) == ("wait", "")


def test_what_asks_for_no_group_is_shown_as_ever(judge: Judge) -> None:
    (entry,) = judge(_job(4, {})).json
    assert "group" not in entry


@pytest.mark.parametrize(
    ("annotations", "field", "told"),
    [
        ({**RACK, "kai.scheduler/topology-required-placement": "rak"}, "topology-required-placement", "rack"),
        ({**RACK, "kai.scheduler/topology": "netwrk"}, "kai.scheduler/topology]", "Did you mean network?"),
        ({"kai.scheduler/topology-required-placement": "rack"}, "topology-required-placement", "needs a topology"),
        ({**RACK, "kai.scheduler/topology-preferred-placement": "zone"}, "topology-preferred-placement", "coarser"),
        ({**RACK, "kai.scheduler/segment-size": "two"}, "segment-size", '"two" is not a size'),
        ({**RACK, "kai.scheduler/batch-min-member": "0"}, "batch-min-member", '"0" is not a number of pods'),
        ({**RACK, "kai.scheduler/batch-min-member": "9" * 5000}, "batch-min-member", "is not a number of pods"),
        ({**RACK, "kai.scheduler/segment-size": "9" * 5000}, "segment-size", "is not a size"),
        (
            {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": "rack"},
            "segment-topology-required-placement",
            "needs a topology",
        ),
    ],
)
def test_annotations_that_cannot_be_meant_so_deny_the_workload(
    judge: Judge, annotations: dict[str, str], field: str, told: str
) -> None:
    for job, place in (
        (_job(2, annotations), "metadata.annotations["),
        (_job(2, {}, annotations), "spec.template.metadata.annotations["),
    ):
        outcome = judge(job)
        (entry,) = outcome.json
        assert (outcome.code, entry["verdict"]) == (1, "deny")
        assert entry["message"].startswith(place)
        assert field in entry["message"]
        assert told in entry["message"]
        assert "group" not in entry
        assert entry["mutated"] == job


def test_a_template_that_is_denied_by_itself_stays_denied(judge: Judge) -> None:
    spec = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "Single"}'}
    outcome = judge(_job(2, RACK, spec))
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"]) == (1, "deny")
    assert "numaTopologyPolicy" in entry["message"]


def test_leader_and_workers_of_a_training_job_share_the_rack(judge: Judge) -> None:
    # Master 3 GPUs of one NUMA node, workers 1: rack-2 holds the master and three workers.
    replicas = {
        "Master": {"replicas": 1, "template": _template(3, SINGLE)},
        "Worker": {"replicas": 3, "template": _template(1, SINGLE)},
    }
    job = workload(kind="PyTorchJob", name="fit", annotations=RACK, spec={"pytorchReplicaSpecs": replicas})
    (entry,) = judge(job).json
    group = entry["group"]
    assert group["domain"] == [["example.com/zone", "zone-a"], ["example.com/rack", "rack-2"]]
    by_name = {pod["name"]: pod["numaNodes"] for pod in group["pods"]}
    assert by_name.keys() == {"fit-master-0", "fit-worker-0", "fit-worker-1", "fit-worker-2"}
    assert by_name["fit-worker-0"] == by_name["fit-worker-1"] == by_name["fit-worker-2"] != by_name["fit-master-0"]
    for replicas in entry["mutated"]["spec"]["pytorchReplicaSpecs"].values():
        assert {"key": "example.com/rack", "operator": "In", "values": ["rack-2"]} in requirements(replicas["template"])


def test_replicas_of_a_set_are_gangs_of_their_own(judge: Judge) -> None:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 6, "workerTemplate": _template()}}
    (entry,) = judge(workload(kind="LeaderWorkerSet", name="serve", annotations=RACK, spec=spec)).json
    group = entry["group"]
    assert group["domain"] == [["example.com/zone", "zone-a"]]
    racks = [[step[1] for step in gang["domain"]] for gang in group["gangs"]]
    assert sorted(racks) == [["zone-a", "rack-1"], ["zone-a", "rack-2"]]
    assert len(group["pods"]) == 12


def test_bare_pods_of_one_name_are_one_group(judge: Judge) -> None:
    leader, *workers = (
        _pod("leader", RACK | GROUP, 3),
        *(_pod(f"worker-{index}", RACK | GROUP) for index in range(3)),
    )
    entries = judge(leader, *workers).json
    assert [entry["verdict"] for entry in entries] == ["allow"] * 4
    group = entries[0]["group"]
    assert all(entry["group"] == group for entry in entries)
    assert group["name"] == "g"
    assert [step[1] for step in group["domain"]] == ["zone-a", "rack-2"]
    assert sorted(pod["name"] for pod in group["pods"]) == ["leader", "worker-0", "worker-1", "worker-2"]


def test_members_that_run_hold_the_others_to_their_rack(judge: Judge) -> None:
    running = _pod("w-0", RACK | GROUP, nodeName="n0")
    pending = [_pod(f"w-{index}", RACK | GROUP) for index in (1, 2)]
    entries = judge(*pending, beside=(running,)).json
    group = entries[0]["group"]
    assert [step[1] for step in group["domain"]] == ["zone-a", "rack-1"]
    assert group["running"] == {"w-0": "n0"}
    assert [(pod["name"], pod["rank"]) for pod in group["pods"]] == [("w-1", 1), ("w-2", 2)]


def test_members_that_were_placed_and_are_not_bound_yet_count_as_running(judge: Judge) -> None:
    allocation = {"node": "n0", "numaNodeResources": [{"node": 0, "resources": {"cpu": "1"}}]}
    assigned = _pod("w-0", RACK | GROUP | SINGLE | {"topology-webhook.dev/numa": json.dumps(allocation)})
    (entry,) = judge(_pod("w-1", RACK | GROUP), beside=(assigned,)).json
    assert entry["group"]["running"] == {"w-0": "n0"}
    assert [step[1] for step in entry["group"]["domain"]] == ["zone-a", "rack-1"]


def test_running_pods_of_a_job_are_known_by_their_owner(judge: Judge) -> None:
    running = _pod("train-1-x7k2p", NONE, nodeName="n1")
    running["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    ]
    (entry,) = judge(_job(3, RACK), beside=(running,)).json
    group = entry["group"]
    assert group["running"] == {"train-1": "n1"}
    assert [step[1] for step in group["domain"]] == ["zone-a", "rack-1"]
    assert [pod["name"] for pod in group["pods"]] == ["train-0", "train-2"]


def test_the_table_names_the_rack_and_the_node_of_every_pod(judge: Judge) -> None:
    lines = judge(_job(6, RACK, SINGLE), output="table").stdout.splitlines()
    assert lines[0] == "Job team/train: allow"
    assert lines[1] == "  gang train: 6 pods on 1 node in rack rack-2 (zone zone-a)"
    assert lines[2] == "  in zone zone-a, rack rack-2"
    assert lines[3].split() == ["POD", "RANK", "NODE", "NUMA", "DOMAIN"]
    assert lines[4].split() == ["train-0", "0", "n2", "0", "zone-a", "/", "rack-2"]


def test_the_table_names_what_is_short(judge: Judge) -> None:
    outcome = judge(_job(9, RACK), output="table")
    lines = outcome.stdout.splitlines()
    assert (outcome.code, lines[0]) == (1, "Job team/train: wait")
    assert lines[2].split() == ["LEVEL", "DOMAIN", "HOLDS", "NEEDED", "SHORT", "OF"]
    assert lines[3].split()[:5] == ["example.com/rack", "zone-a", "/", "rack-1", "8"]


def test_explain_adds_every_nodes_word_on_one_pod_of_the_group(judge: Judge, tmp_path: Path) -> None:
    reviewed = judge(_job(6, RACK, SINGLE, gpus=4), output="table")
    arguments = ["explain", "-f", str(tmp_path / "objects.json"), "--cluster", str(tmp_path / "cluster.json")]
    explained = CliRunner().invoke(app, arguments)
    assert (reviewed.code, explained.exit_code) == (1, 1)
    told = explained.stdout.splitlines()
    assert told[: len(reviewed.stdout.splitlines()) - 1] == reviewed.stdout.splitlines()[:-1]
    assert [line.split()[:2] for line in told[4:9]] == [
        ["NODE", "FITS"],
        ["n0", "yes"],
        ["n1", "no"],
        ["n2", "no"],
        ["n3", "no"],
    ]


def test_a_group_comes_out_as_yaml_held_to_the_nodes_of_its_rack(judge: Judge) -> None:
    outcome = judge(_job(8, RACK), output="yaml")
    printed = yaml.safe_load(outcome.stdout)
    assert requirements(printed["spec"]["template"]) == [
        {"key": "example.com/zone", "operator": "In", "values": ["zone-a"]},
        {"key": "example.com/rack", "operator": "In", "values": ["rack-1"]},
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "n1"]},
    ]
    assert printed["metadata"] == _job(8, RACK)["metadata"]
    assert outcome.stderr == ""


def test_groups_of_other_schedulers_are_left_to_them(judge: Judge) -> None:
    job = _job(9, RACK)
    job["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    (entry,) = judge(job).json
    assert "group" not in entry
    assert entry["verdict"] == "allow"
