"""`topology-webhook review`: output and exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.clusters import machine
from tests.builders.pods import bound, pod
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import CLUSTER, EXAMPLES, MISTAKES, Review, run_command
from webhook.formats.patches.affinity_patch import required_terms

POD = EXAMPLES / "pod.yaml"


def _workload(api_version: str, kind: str, path: tuple[str, ...], pod: dict[str, Any]) -> dict[str, Any]:
    below: Any = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    for key in reversed(path):
        below = {key: below}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": "team"}, **below}


def test_json_has_the_decision_the_reasons_and_the_mutated_object(review: Review) -> None:
    outcome = review("-f", POD, "-o", "json")
    assert outcome.code == 0
    (entry,) = outcome.json
    assert entry.keys() == {"object", "verdict", "message", "warnings", "nodes", "podSets", "mutated"}
    assert entry["object"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "", "name": "solver"}
    assert (entry["verdict"], entry["warnings"]) == ("allow", [])
    assert entry["nodes"]["fit"] == 2
    assert [(one["node"], one["numaNodes"]) for one in entry["nodes"]["best"]] == [("node-b", [1]), ("node-c", [1])]
    assert entry["nodes"]["excluded"] == {
        "Unschedulable": 1,
        "NoTopology": 1,
        "PolicyMismatch": 1,
        "NoSingleNUMANode": 1,
    }
    assert entry["mutated"]["metadata"]["annotations"]["topology-webhook.dev/placement"].splitlines() == [
        *entry["message"].split("; "),
        "node affinity added: required: node-b, node-c; preferred: node-b 97, node-c 95",
    ]
    assert required_terms(entry["mutated"]) is not None


@pytest.mark.parametrize("reason", ["TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"])
@pytest.mark.parametrize("namespace", [{}, {"namespace": "default"}])
def test_message_nodes_and_mutated_pod_agree_on_a_node_that_rejected_a_pod_of_the_same_controller(
    review: Review, tmp_path: Path, reason: str, namespace: dict[str, str]
) -> None:
    # n0 ── [16 16]   n1 ── [4 4]      [free cpus]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
    status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected", "startTime": "2030-01-01T00:00:00Z"}
    first = bound(name="first", node="n0", cpu=3, status=status, metadata={"ownerReferences": [owner]})
    cluster = written(tmp_path, *machine(name="n0", free=(16, 16)), *machine(name="n1", free=(4, 4)), first)
    second = pod(name="second", cpu=3, metadata={"ownerReferences": [owner], **namespace})
    (tmp_path / "pod.json").write_text(json.dumps(second))
    (entry,) = review("-f", tmp_path / "pod.json", "-o", "json", "--all-nodes", cluster=cluster).json
    assert "1 of 2 nodes fits; best n1" in entry["message"]
    assert f"1 avoided after a rejection (n0: {reason}" in entry["message"]
    assert (entry["nodes"]["fit"], entry["nodes"]["excluded"]) == (1, {"RejectedBefore": 1})
    assert [one["fits"] for one in entry["perNode"]] == [False, True]
    assert "n0" not in json.dumps(entry["mutated"]["spec"])


def test_json_tells_of_every_node_when_asked(review: Review) -> None:
    (entry,) = review("-f", POD, "-o", "json", "--all-nodes").json
    assert [one["node"] for one in entry["perNode"]] == [f"node-{letter}" for letter in "abcdef"]
    by_node = {one["node"]: one for one in entry["perNode"]}
    fitting = by_node["node-b"]
    assert (fitting["fits"], fitting["reason"], fitting["numaNodes"]) == (True, "Fits", [1])
    assert fitting["score"] == entry["nodes"]["best"][0]["score"]
    excluded = by_node["node-a"]
    assert (excluded["fits"], excluded["reason"], excluded["numaNodes"]) == (False, "NoSingleNUMANode", [])
    assert "8 cpu" in excluded["message"]


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("apps/v1", "Deployment", ("spec", "template")),
        ("apps/v1", "StatefulSet", ("spec", "template")),
        ("apps/v1", "ReplicaSet", ("spec", "template")),
        ("batch/v1", "Job", ("spec", "template")),
        ("batch/v1", "CronJob", ("spec", "jobTemplate", "spec", "template")),
        ("v1", "ReplicationController", ("spec", "template")),
        ("v1", "PodTemplate", ("template",)),
    ],
)
def test_workloads_are_judged_by_their_pod_template(
    review: Review, tmp_path: Path, api_version: str, kind: str, path: tuple[str, ...]
) -> None:
    workload = _workload(api_version, kind, path, pod())
    (tmp_path / "w.json").write_text(json.dumps(workload))
    (entry,) = review("-f", tmp_path / "w.json", "-o", "json").json
    assert entry["object"] == {"apiVersion": api_version, "kind": kind, "namespace": "team", "name": "w"}
    assert entry["nodes"]["fit"] == 2
    template = entry["mutated"]
    for key in path:
        template = template[key]
    assert "topology-webhook.dev/placement" in template["metadata"]["annotations"]
    assert required_terms(template) is not None
    assert entry["mutated"]["metadata"] == workload["metadata"]


@pytest.mark.parametrize("kind", ["DaemonSet", "ConfigMap"])
def test_what_has_no_pods_to_place_passes_unchanged(review: Review, tmp_path: Path, kind: str) -> None:
    api_version = "apps/v1" if kind == "DaemonSet" else "v1"
    workload = _workload(api_version, kind, ("spec", "template"), pod())
    (tmp_path / "w.json").write_text(json.dumps(workload))
    outcome = review("-f", tmp_path / "w.json", "-o", "json")
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"], entry["mutated"]) == (0, "allow", workload)
    assert entry["nodes"] == {"fit": 0, "best": [], "excluded": {}}
    assert entry["message"].startswith("unmanaged: ")


def test_yaml_is_the_mutated_objects_and_nothing_else(review: Review) -> None:
    outcome = review("-f", POD, "-f", EXAMPLES / "workloads.yaml", "-o", "yaml")
    assert outcome.code == 0
    objects = list(yaml.safe_load_all(outcome.stdout))
    assert [one["kind"] for one in objects] == ["Pod", "Deployment", "Job", "Pod"]
    assert objects[3] == list(yaml.safe_load_all((EXAMPLES / "workloads.yaml").read_text()))[2]
    assert outcome.stderr == ""


@pytest.mark.parametrize(
    ("cpu", "code", "requirement"),
    [
        ("8", 0, {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-b", "node-c"]}),
        ("14", 1, {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-d", "node-e"]}),
    ],
)
@pytest.mark.parametrize("annotations", [{}, {"pod-group-name": "g"}])
def test_no_gate_is_printed_but_the_nodes_that_fit_or_those_that_never_can_left_out(
    review: Review,
    tmp_path: Path,
    cpu: str,
    code: int,
    requirement: dict[str, Any],
    annotations: dict[str, str],
) -> None:
    raw = pod(cpu=cpu)
    raw["metadata"]["annotations"].update(annotations)
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(raw))
    outcome = review("-f", tmp_path / "pod.yaml", "-o", "yaml")
    assert outcome.code == code
    printed = yaml.safe_load(outcome.stdout)
    assert "schedulingGates" not in printed["spec"]
    assert required_terms(printed) == [{"matchExpressions": [requirement]}]


def test_applying_the_yaml_again_changes_nothing(review: Review, tmp_path: Path) -> None:
    first = review("-f", POD, "-f", EXAMPLES / "workloads.yaml", "-o", "yaml").stdout
    (tmp_path / "again.yaml").write_text(first)
    assert review("-f", tmp_path / "again.yaml", "-o", "yaml").stdout == first


def test_yaml_leaves_out_what_is_denied_and_says_so(review: Review) -> None:
    outcome = review("-f", MISTAKES, "-f", POD, "-o", "yaml")
    assert outcome.code == 1
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(outcome.stdout)] == ["solver"]
    assert outcome.stderr.count("deny (left out): Pod ") == 4


def test_nothing_is_printed_when_everything_is_denied(review: Review) -> None:
    assert review("-f", MISTAKES, "-o", "yaml").stdout == ""


def test_the_table_says_why_and_why_not_node_by_node(review: Review) -> None:
    lines = review("-f", POD).stdout.splitlines()
    assert lines[0] == "Pod solver: allow"
    assert lines[1].startswith("  SingleNUMANode: 2 of 6 nodes fit; best node-b (score ")
    assert lines[2] == "  NODE    FITS  SCORE  NUMA  WHY NOT"
    assert lines[3].split()[:2] == ["node-b", "yes"]
    (crowded,) = [line for line in lines if line.startswith("  node-a ")]
    assert crowded.startswith("  node-a  no                 no single NUMA node with 8 cpu, 16Gi memory (NUMA 0: 7 cpu")
    assert not any(line.endswith(" ") for line in lines)


def test_the_table_does_not_depend_on_the_width_of_the_terminal(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = review("-f", POD).stdout
    monkeypatch.setenv("COLUMNS", "20")
    assert review("-f", POD).stdout == wide


def test_the_table_of_a_large_cluster_shows_the_best_nodes_and_an_example_of_each_reason(
    review: Review, tmp_path: Path
) -> None:
    objects = list(yaml.safe_load_all(CLUSTER.read_text()))
    copies = []
    for one in objects:
        if one["kind"] != "Pod":
            for i in range(20):
                copy = json.loads(json.dumps(one).replace(one["metadata"]["name"], f"{one['metadata']['name']}-{i:02}"))
                copies.append(copy)
    (tmp_path / "large.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": copies}))
    table = review("-f", POD, cluster=tmp_path / "large.json").stdout
    assert [line.split()[:6] for line in table.splitlines() if "yes" in line] == [
        ["node-b-00,", "node-b-01,", "node-b-02", "and", "7", "more"],
        ["...", "30", "more", "yes"],
    ]
    assert table.count("  ... 19 more") == 4


def test_a_thousand_nodes_with_one_answer_are_one_line(review: Review, tmp_path: Path) -> None:
    objects = [machine(name=f"n{number:04}", free=(16, 4)) for number in range(1000)]
    crowded = [machine(name=f"m{number:04}", free=(1 + number % 7, 0)) for number in range(1000)]
    file = tmp_path / "large.json"
    items = [raw for pair in (*objects, *crowded) for raw in pair]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    _, _, _, fits, *others = review("-f", POD, "--all-nodes", cluster=file).stdout.splitlines()
    assert fits.split()[:6] == ["n0000,", "n0001,", "n0002", "and", "997", "more"]
    assert len(others) < 12
    assert len(review("-f", POD, "--all-nodes", "-o", "json", cluster=file).json[0]["perNode"]) == 2000


def test_every_document_is_judged_and_counted(review: Review) -> None:
    outcome = review("-f", EXAMPLES / "workloads.yaml", "-f", MISTAKES)
    assert outcome.code == 1
    assert outcome.stdout.splitlines()[-1] == "7 objects: 3 allow, 4 deny"


def test_objects_do_not_take_room_from_each_other(review: Review, tmp_path: Path) -> None:
    # 12 cpus are free in one NUMA node of node-c, and nowhere else.
    (tmp_path / "two.yaml").write_text(yaml.safe_dump_all([pod(name="one", cpu=12), pod(name="two", cpu=12)]))
    entries = review("-f", tmp_path / "two.yaml", "-o", "json").json
    assert [entry["nodes"]["best"][0]["node"] for entry in entries] == ["node-c", "node-c"]


@pytest.mark.parametrize(
    ("pod", "arguments", "verdict", "code"),
    [
        (pod(cpu=8), (), "allow", 0),
        (pod(cpu=14), (), "wait", 1),
        (pod(cpu=14), ("--no-capacity", "Allow"), "wait", 1),
        (pod(cpu=14), ("--no-capacity", "Deny"), "deny", 1),
        (pod(cpu=17), (), "deny", 1),
        (pod(cpu=17), ("--no-compatible-node", "Warn"), "allow", 1),
        (pod(numa="{"), (), "deny", 1),
        (pod(numa='{"numaTopologyPolicy": "BestEffort"}'), (), "allow", 0),
    ],
)
def test_it_ends_with_1_when_something_is_denied_or_fits_nowhere(
    review: Review, tmp_path: Path, pod: Any, arguments: tuple[str, ...], verdict: str, code: int
) -> None:
    (tmp_path / "p.json").write_text(json.dumps(pod))
    outcome = review("-f", tmp_path / "p.json", "-o", "json", *arguments)
    assert (outcome.json[0]["verdict"], outcome.code) == (verdict, code)


@pytest.mark.parametrize("arguments", [("--fidelity", "Plugin"), ("--score-strategy", "LeastNUMANodes")])
def test_the_engines_options_are_taken(review: Review, arguments: tuple[str, ...]) -> None:
    assert review("-f", POD, "-o", "json", *arguments).json[0]["nodes"]["fit"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "There is no kubeconfig at /no/kubeconfig. Name one with --kubeconfig.",
        ),
        (("--cluster", CLUSTER, "--context", "x"), "--cluster and --context exclude each other"),
        (("--cluster", "-", "-f", "-"), "stdin (-) can be read only once"),
        (("--cluster", CLUSTER, "--fidelity", "exact"), "--fidelity: 'exact' is wrong"),
        (("--cluster", CLUSTER, "--max-affinity-values", "x"), "--max-affinity-values: 'x' is wrong"),
        (("--cluster", EXAMPLES / "none.yaml"), "none.yaml: No such file or directory"),
        (("--kubeconfig", EXAMPLES / "none.yaml"), "none.yaml"),
        (("--cluster", CLUSTER, "-o", "wide"), "'wide' is not one of"),
        (("--cluster", CLUSTER, "--colour"), "No such option"),
    ],
)
def test_wrong_use_ends_with_2(review: Review, arguments: tuple[Any, ...], message: str) -> None:
    outcome = review("-f", POD, *arguments, cluster=None)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert message in outcome.stderr


def test_files_are_needed(review: Review) -> None:
    assert review().code == 2


def _run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("topology-webhook")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOPOLOGY_WEBHOOK_")}
    return subprocess.run(
        [program, "review", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_as_a_program_it_reads_stdin_and_ends_with_the_documented_codes() -> None:
    allowed = _run("-f", "-", "--cluster", CLUSTER, "-o", "json", stdin=POD.read_text())
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert json.loads(allowed.stdout)[0]["object"]["name"] == "solver"
    denied = _run("-f", MISTAKES, "--cluster", "-", stdin=CLUSTER.read_text())
    assert (denied.returncode, denied.stderr) == (1, "")
    unreadable = _run("-f", "-", "--cluster", CLUSTER, stdin="kind: [")
    assert (unreadable.returncode, unreadable.stdout) == (2, "")
    assert (
        unreadable.stderr
        == "error: stdin: line 2: not YAML: while parsing a flow node, did not find expected node content\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("output", ["table", "yaml", "json"])
def test_an_answer_that_cannot_be_written_is_told(output: str) -> None:
    with Path("/dev/full").open("w") as full:
        program = Path(sys.executable).with_name("topology-webhook")
        run = subprocess.run(
            [program, "review", "-f", POD, "--cluster", CLUSTER, "-o", output],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (run.returncode, run.stderr) == (2, "error: the answer cannot be written: No space left on device\n")


def test_a_pod_that_no_kubelet_aligns_is_warned_about_or_denied_as_the_setting_says(
    review: Review, tmp_path: Path
) -> None:
    raw = pod()
    raw["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "8"}
    (tmp_path / "p.json").write_text(json.dumps(raw))
    told = (
        'SingleNUMANode is asked for, but no kubelet aligns this pod: container "main" has no limits.memory; '
        "set spec.containers[0].resources.limits.memory to 1Gi"
    )
    (entry,) = review("-f", tmp_path / "p.json", "-o", "json").json
    assert (entry["verdict"], entry["warnings"]) == ("allow", [told])
    assert told.partition("but ")[2] in entry["message"]
    assert f"warning: {told}" in review("-f", tmp_path / "p.json").stdout
    (entry,) = review("-f", tmp_path / "p.json", "--not-alignable", "Deny", "-o", "json").json
    assert (entry["verdict"], entry["message"]) == ("deny", told)


def _preferring(node: str, weight: int = 100) -> str:
    """A pod that prefers a node, as YAML."""
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"weight": weight, "preference": {"matchFields": [named]}}]
    raw = pod()
    raw["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return yaml.safe_dump(raw)


def test_what_a_pod_prefers_is_shown_and_decides_as_far_as_it_has_a_weight(review: Review) -> None:
    def best(*flags: str) -> list[tuple[str, int]]:
        (entry,) = review("-f", "-", "-o", "json", "--all-nodes", *flags, stdin=_preferring("node-c")).json
        found = {one["node"]: one["preference"] for one in entry["perNode"]}
        assert (found["node-b"], found["node-c"], found["node-a"]) == (0, 100, None)
        return [(one["node"], one["preference"]) for one in entry["nodes"]["best"]]

    assert best() == [("node-b", 0), ("node-c", 100)]
    assert best("--preference-weight", "100") == [("node-c", 100), ("node-b", 0)]
    lines = review("-f", "-", stdin=_preferring("node-c")).stdout.splitlines()
    assert lines[2] == "  NODE    FITS  SCORE  PREFERRED  NUMA  WHY NOT"
    assert lines[4].split()[-2:] == ["100", "1"]


def test_a_weight_that_the_api_server_refuses_is_told_with_its_place(review: Review) -> None:
    outcome = review("-f", "-", stdin=_preferring("node-c", weight=500))
    assert outcome.code == 2
    assert "preferredDuringSchedulingIgnoredDuringExecution[0].weight" in outcome.stderr
    assert "from 1 to 100, not 500" in outcome.stderr


def test_the_services_configuration_file_has_the_settings_and_flags_win_over_it(tmp_path: Path) -> None:
    config, pods = tmp_path / "service.yaml", tmp_path / "p.json"
    config.write_text(
        "apiVersion: config.topology-webhook.dev/v1alpha1\nkind: TopologyWebhookConfiguration\nnoCapacity: Deny\n"
    )
    pods.write_text(json.dumps(pod(cpu=8)))
    path = written(tmp_path, *machine(name="n0", free=(0, 4)), bound(name="holds", node="n0", cpu=8))
    for command in ("review", "explain"):
        answers = [
            run_command(command, "-f", pods, "-o", "json", *flags, cluster=path).json[0]["verdict"]
            for flags in ((), ("--config", config), ("--config", config, "--no-capacity", "Gate"))
        ]
        assert answers == ["wait", "deny", "wait"]
    assert "cannot be read" in run_command("review", "-f", pods, "--config", tmp_path / "none", cluster=path).stderr
