"""`topology-webhook simulate`: what it prints, draws, and refuses."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.clusters import machine
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, created
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.cluster.nodes import RACK_LABEL
from tests.proof.trace import SYNTHETIC
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import EXAMPLES, Printed, run_command
from webhook.cli.commands.simulate import progress_bar
from webhook.cli.input.recorded_cluster import workloads_of
from webhook.model.names import (
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    NUMA_TOPOLOGY_SPEC,
    SIMULATE_AT,
    SIMULATE_RUN_SECONDS,
)
from webhook.simulation.trace import RecordedPod

DOCS = Path(__file__).parents[3] / "docs" / "simulate.md"
TRACE = f"{SYNTHETIC / 'node_list.csv'},{SYNTHETIC / 'pod_list.csv'}"


def simulate(*arguments: object, cluster: object = None, stdin: str | None = None) -> Printed:
    return run_command("simulate", *arguments, cluster=cluster, stdin=stdin)


def replica_set(cpus: int, replicas: int = 1, name: str = "web", **annotations: str) -> dict[str, Any]:
    asks = {NUMA_TOPOLOGY_SPEC: SINGLE}
    spec = {"replicas": replicas, "template": template(cpu=cpus, annotations=asks)}
    return workload(kind="ReplicaSet", api_version="apps/v1", name=name, annotations=annotations, spec=spec)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A small machine with 6 CPUs in each of two NUMA nodes, and a large one with 16 in each."""
    small = node(name="small", cpus=12), nrt(node="small", cpus=6, free=(6, 6))
    return written(tmp_path, *small, *machine(name="large", free=(16, 16)))


def runs(*objects: dict[str, Any], cluster: Path, options: tuple[object, ...] = ()) -> list[dict[str, Any]]:
    outcome = simulate("-f", "-", "-o", "json", *options, cluster=cluster, stdin="\n".join(map(json.dumps, objects)))
    assert (outcome.code, outcome.stderr) == (0, "")
    found: list[dict[str, Any]] = outcome.json["runs"]
    return found


def test_the_table_is_that_of_the_docs() -> None:
    gang, racks = EXAMPLES / "gang.yaml", EXAMPLES / "snapshots" / "racks.yaml"
    printed = simulate("-f", gang, cluster=racks)
    assert (printed.code, printed.stderr) == (0, "")
    (shown,) = re.findall(r"```\n(8 pods .*?)```", DOCS.read_text(), re.DOTALL)
    assert printed.stdout == shown


def test_the_json_has_the_documented_fields_and_is_the_yaml(tmp_path: Path, cluster: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump(replica_set(10, 3)))
    answer = simulate("-f", file, "-o", "json", cluster=cluster).json
    assert set(answer) == fields_of("SimulationView", DOCS)
    assert [set(run) for run in answer["runs"]] == [fields_of("RunView", DOCS)] * 2
    assert set(answer["runs"][0]["samples"][0]) == fields_of("Sample", DOCS)
    assert yaml.safe_load(simulate("-f", file, "-o", "yaml", cluster=cluster).stdout) == answer


def test_the_numbers_are_those_worked_out_by_hand(cluster: Path) -> None:
    # The scheduler prefers the large machine for two pods of 10 CPUs. Then each machine has 12 free CPUs in sum, and 6
    # in each NUMA node.
    without, with_it = runs(replica_set(10, 3), cluster=cluster, options=("--recreations", 2))
    assert (without["running"], without["created"], without["rejected"], without["waiting"]) == (2, 5, 3, 1)
    assert (with_it["running"], with_it["created"], with_it["rejected"], with_it["waiting"]) == (2, 3, 0, 1)
    # 20 CPUs of 44.
    assert with_it["utilisation"] == without["utilisation"] == 0.455
    assert with_it["samples"] == [{"at": 0.0, "utilisation": 0.455, "waiting": 1}]


def test_annotations_say_when_an_object_is_created_and_how_long_its_pods_run(cluster: Path) -> None:
    early = replica_set(16, 2, "early", **{SIMULATE_RUN_SECONDS: "30"})
    late = replica_set(16, 1, "late", **{SIMULATE_AT: "20.5"})
    for run in runs(late, early, cluster=cluster):
        assert (run["running"], run["rejected"], run["p50"], run["p99"]) == (3, 0, 0.0, 9.5)
        assert [(sample["at"], sample["waiting"]) for sample in run["samples"]] == [(0.0, 0), (20.5, 1), (30.0, 0)]


def test_without_runs_only_the_part_without_the_webhook(cluster: Path) -> None:
    (only,) = runs(replica_set(10), cluster=cluster, options=("--without",))
    assert only["webhook"] is False


def test_pods_that_name_a_gang_are_placed_together_and_others_alone(tmp_path: Path) -> None:
    file = written(tmp_path, *machine(name="n", free=(16, 0)))
    members = [created(name=f"m{number}", cpu=10, group="g") for number in range(2)]
    without, with_it = runs(*members, cluster=file)
    # One of them has room. With the webhook neither starts, for a gang starts as a whole.
    assert (without["running"], with_it["running"], with_it["waiting"]) == (1, 0, 2)


def test_a_rack_kept_for_a_gang_that_waits_long_ends_its_starvation(tmp_path: Path) -> None:
    # rack: a b, one NUMA node with 16 CPUs each. A pod of 10 CPUs comes every 10 s and runs for 18 s, so the two nodes
    # are never free together, and the gang, created at 1, needs both.
    rack = {RACK_LABEL: "r"}
    nodes = [raw for name in "ab" for raw in machine(name=name, free=(16,), labels=rack)]
    file = written(tmp_path, *nodes, topology(name="t", labels=(RACK_LABEL, "kubernetes.io/hostname")))
    stream = [
        replica_set(10, 1, f"p{at}", **{SIMULATE_AT: str(at), SIMULATE_RUN_SECONDS: "18"}) for at in range(0, 200, 10)
    ]
    asks = {KAI_TOPOLOGY: "t", KAI_REQUIRED_PLACEMENT: RACK_LABEL, SIMULATE_AT: "1", SIMULATE_RUN_SECONDS: "20"}
    spec = replica_set(16)["spec"] | {"parallelism": 2, "completions": 2}
    gang = workload(kind="Job", api_version="batch/v1", name="gang", annotations=asks, spec=spec)

    def results(*options: object) -> tuple[int, float]:
        """How many pods of the gang ran, and the longest wait of any pod that ran."""
        (_, with_it) = runs(*stream, gang, cluster=file, options=("--seconds", 190, *options))
        return with_it["inDomain"], with_it["p99"]

    assert results() == (0, 0.0)
    # The rack is kept from second 31 on, and empty at 48. The pods of 40 to 60 come after the gang.
    assert results("--reserve-after-seconds", 30) == (2, 47.0)


def test_what_is_denied_or_left_out_is_named(tmp_path: Path, cluster: Path) -> None:
    bad = replica_set(4, name="bad")
    bad["spec"]["template"]["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: "{,}"}
    daemons = {**replica_set(1, name="all"), "kind": "DaemonSet"}
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all([bad, daemons]))
    outcome = simulate("-f", file, "-o", "json", cluster=cluster)
    denied, left_out = outcome.stderr.splitlines()
    assert denied.startswith(f"warning: {file}: document 1, line 1: ReplicaSet bad is denied: ")
    assert left_out == (
        f"warning: {file}: document 2, line 24: DaemonSet all is left out: "
        "unmanaged: a DaemonSet chooses its pods' nodes itself"
    )
    assert [(run["running"], run["denied"]) for run in outcome.json["runs"]] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to simulate: give objects with -f, or a recorded cluster with --trace"),
        (("--trace", "nodes.csv"),
         "--trace: 'nodes.csv' does not name two files. Write NODES.csv,PODS.csv, or ,PODS.csv"),
        (("--trace", "/no/n.csv,/no/p.csv"), "/no/n.csv: No such file or directory"),
        (("--trace", TRACE, "--kubeconfig", "x"),
         "--trace with nodes excludes --cluster, --kubeconfig and --context; for its pods only: ,PODS.csv"),
        (("--trace", TRACE, "--seconds", 10, "--steady-from", 10),
         "--steady-from: 10 is not before the end, which is second 10"),
        (("--trace", TRACE, "--plot", "x.pdf"), "--plot: 'x.pdf' must end in .svg or .png"),
        (("--trace", TRACE, "--plot", "/no/x.svg"), "--plot: there is no directory '/no'"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_named_with_what_is_allowed(arguments: tuple[object, ...], message: str) -> None:
    outcome = simulate(*arguments)
    assert (outcome.code, outcome.stderr, outcome.stdout) == (2, f"error: {message}\n", "")


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", "1e11"])
def test_a_wrong_time_is_named_with_its_place(tmp_path: Path, cluster: Path, value: str) -> None:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(replica_set(1, 1, "web", **{SIMULATE_AT: value}), indent=1))
    outcome = simulate("-f", file, cluster=cluster)
    assert outcome.code == 2
    assert outcome.stderr == (
        f"error: {file}: document 1, line 7: metadata.annotations[{SIMULATE_AT}]: '{value}' is no number of seconds. "
        "Write a number from 0 to 10000000000.\n"
    )


def test_more_pods_than_any_cluster_runs_are_refused_before_they_are_made(cluster: Path) -> None:
    many = [json.dumps(replica_set(1, 100_000, name)) for name in ("a", "b")]
    outcome = simulate("-f", "-", cluster=cluster, stdin="\n".join(many))
    assert outcome.code == 2
    assert outcome.stderr == "error: Together the objects have 200000 pods. A simulation has at most 150000.\n"


def test_a_recorded_cluster_is_simulated() -> None:
    outcome = simulate("--trace", TRACE, "--seconds", 3000, "-o", "json")
    assert (outcome.code, outcome.stderr) == (0, "")
    without, with_it = outcome.json["runs"]
    assert outcome.json["nodes"] == 60
    assert without["pods"] == with_it["pods"] == 600
    assert without["rejected"] > with_it["rejected"] == 0


def test_the_pods_of_a_trace_can_be_created_on_another_cluster_and_faster(cluster: Path) -> None:
    outcome = simulate(
        "--trace", f",{SYNTHETIC / 'pod_list.csv'}", "--trace-speed", 1000, "-o", "json", cluster=cluster
    )
    assert outcome.json["nodes"] == 2
    (one,) = workloads_of([RecordedPod("p", 1000, 1024, 0, False, 500, 30)], 10.0)
    assert (one.at, one.run_seconds) == (50.0, 30.0)


def test_a_fault_in_a_trace_names_file_line_column_and_value(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu\na,many,1024,0\n")
    outcome = simulate("--trace", f"{nodes},{nodes}")
    assert outcome.code == 2
    assert outcome.stderr == (
        f"error: {nodes}: line 2: cpu_milli is 'many'. Write a whole number from 0 to 1000000000.\n"
    )
    nodes.write_bytes(b"sn,cpu_milli,memory_mib,gpu\n\xff,1,1,0\n")
    assert simulate("--trace", f"{nodes},{nodes}").stderr == f"error: {nodes}: byte 0xff is not UTF-8 text\n"


def test_a_plot_is_written_as_svg_and_png_and_is_the_same_each_time(tmp_path: Path, cluster: Path) -> None:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(replica_set(10, 3, **{SIMULATE_RUN_SECONDS: "20"})))
    for name in ("one.svg", "other.svg", "one.png"):
        assert simulate("-f", file, "--plot", tmp_path / name, cluster=cluster).code == 0
    svg = (tmp_path / "one.svg").read_text()
    assert svg == (tmp_path / "other.svg").read_text()
    for text in (
        "with the webhook",
        "without the webhook",
        "CPUs in use (%)",
        "pods not running yet",
        "time (seconds)",
    ):
        assert f"<!-- {text} -->" in svg
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_without_matplotlib_the_extra_is_named_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = simulate("--trace", TRACE, "--plot", "x.svg")
    assert outcome.code == 2
    assert outcome.stderr == (
        "error: --plot: matplotlib is not installed. Install it with: pip install 'topology-webhook[plot]'\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress_bar(2) as progress:
        assert progress is not None
        for done in (1, 2, 1):
            progress(done, 2)
    assert "75%" in shown.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar(2) as progress:
        assert progress is None
