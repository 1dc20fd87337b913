"""`topology-webhook review --kueue-annotations`: manifests that were written for Kueue, on a cluster without it.

The workloads have the forms of Kueue's own examples (site/static/examples/tas, /jobs, /serving-workloads).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.pods import plain
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from tests.unit.cli.conftest import Printed, Review
from webhook.formats.topology import TopologySource
from webhook.model.names import PLACEMENT

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
K = "kueue.x-k8s.io/podset-"
REQUIRED = {f"{K}required-topology": RACK}
QUEUE = {"kueue.x-k8s.io/queue-name": "tas-user-queue"}
ON = "--kueue-annotations"

# block-a ─┬─ rack-1 ── n0 [4]  n1 [4]        [free CPUs]
#          └─ rack-2 ── n2 [3]
# block-b ─── rack-1 ── n3 [4]
NODES = {"n0": ("a", "1", 4), "n1": ("a", "1", 4), "n2": ("a", "2", 3), "n3": ("b", "1", 4)}
CLUSTER = [
    topology(labels=(BLOCK, RACK), source=TopologySource.KUEUE, version="v1beta1"),
    *(node(name=name, cpus=cpus, labels={BLOCK: block, RACK: rack}) for name, (block, rack, cpus) in NODES.items()),
]

Judge = Callable[..., Printed]


@pytest.fixture
def judge(review: Review, tmp_path: Path) -> Judge:
    def run(*objects: dict[str, Any], flags: tuple[str, ...] = (ON, "true"), output: str = "json") -> Printed:
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, CLUSTER)))
        (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
        return review("-f", tmp_path / "objects.json", "-o", output, *flags, cluster=tmp_path / "cluster.json")

    return run


def job(pods: int, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    spec = {"parallelism": pods, "completions": pods, "template": template(cpu=1, annotations=annotations)}
    return workload(kind="Job", name="sample", metadata={"labels": dict(labels or {})}, spec=spec)


def racks(entry: dict[str, Any]) -> Counter[str]:
    """The number of pods for each rack."""
    return Counter("/".join(value for _, value in pod["domain"][:2]) for pod in entry["group"]["pods"])


def test_a_job_with_a_required_level_is_a_gang_in_one_domain(judge: Judge) -> None:
    (entry,) = judge(job(4, REQUIRED)).json
    assert (entry["verdict"], racks(entry)) == ("allow", {"b/1": 4})
    (entry,) = judge(job(9, REQUIRED)).json
    assert entry["verdict"] == "wait"


def test_one_with_a_preferred_level_falls_back_to_a_coarser_one(judge: Judge) -> None:
    (entry,) = judge(job(10, {f"{K}preferred-topology": RACK})).json
    assert (entry["verdict"], racks(entry)) == ("allow", {"a/1": 8, "a/2": 2})


def test_an_unconstrained_job_is_managed_pod_by_pod(judge: Judge) -> None:
    (entry,) = judge(job(6, {f"{K}unconstrained-topology": "true"})).json
    assert (entry["verdict"], entry.get("group")) == ("allow", None)
    assert "unmanaged" not in entry["message"]


def test_the_slices_of_a_job_set_are_segments(judge: Judge) -> None:
    sliced = {f"{K}required-topology": BLOCK, f"{K}slice-required-topology": RACK, f"{K}slice-size": "4"}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": job(8, sliced)["spec"]}}]
    raw = workload(kind="JobSet", name="sliced", spec={"replicatedJobs": replicated})
    (entry,) = judge(raw).json
    assert (entry["verdict"], racks(entry)) == ("allow", {"a/1": 8})


def test_slices_in_several_layers_are_segments_inside_segments(judge: Judge) -> None:
    """Six a block and two a rack: block b holds no six, and rack 2 of block a one pair."""
    layers = json.dumps([{"topology": BLOCK, "size": 6}, {"topology": RACK, "size": 2}])
    fine, faulty, torn = judge(
        job(6, {f"{K}slice-required-topology-constraints": layers}),
        job(6, {f"{K}slice-required-topology-constraints": layers.replace("2", "4")}),
        job(12, {f"{K}slice-required-topology-constraints": layers}),
    ).json
    assert (fine["verdict"], sum(racks(fine).values())) == ("allow", 6)
    assert all(rack.startswith("a/") and pods % 2 == 0 for rack, pods in racks(fine).items())
    assert (faulty["verdict"], torn["verdict"]) == ("deny", "wait")
    assert f"[{K}slice-required-topology-constraints]: Slices of 4 pods do not divide those of 6" in faulty["message"]


def test_leader_and_workers_of_a_pod_set_group_share_a_domain(judge: Judge) -> None:
    grouped = {**REQUIRED, f"{K}group-name": "lws-group"}

    def set_of(annotations: Mapping[str, str], size: int) -> dict[str, Any]:
        leader, worker = (template(cpu=cpu, annotations=annotations) for cpu in (3, 1))
        pods = {"size": size, "leaderTemplate": leader, "workerTemplate": worker}
        spec = {"replicas": 1, "leaderWorkerTemplate": pods}
        return workload(kind="LeaderWorkerSet", name="serve", spec=spec)

    # A leader with 3 CPUs and workers with 1: the largest rack has 8.
    small, large, apart = judge(set_of(grouped, 6), set_of(grouped, 7), set_of(REQUIRED, 7)).json
    assert (small["verdict"], racks(small)) == ("allow", {"a/1": 6})
    assert large["verdict"] == "wait"
    assert (apart["verdict"], len(racks(apart))) == ("allow", 2)


def test_a_bare_pod_is_read_as_well_and_a_fault_names_its_field(judge: Judge) -> None:
    fine, faulty = judge(
        plain(name="fine", cpu=1, annotations=REQUIRED),
        plain(name="faulty", cpu=1, annotations={**REQUIRED, f"{K}slice-size": "0"}),
    ).json
    assert fine["verdict"] == "allow"
    assert fine["mutated"]["metadata"]["annotations"]["kai.scheduler/topology-required-placement"] == RACK
    assert faulty["verdict"] == "deny"
    assert faulty["message"].startswith(f'metadata.annotations[{K}slice-size]: "0" is not a size. ')


@pytest.mark.parametrize("flags", [(), (ON, "false")])
def test_without_the_flag_they_ask_for_nothing(judge: Judge, flags: tuple[str, ...]) -> None:
    (entry,) = judge(job(9, REQUIRED), flags=flags).json
    assert (entry["verdict"], entry.get("group")) == ("allow", None)
    assert entry["message"] == (
        "unmanaged: its topology annotations are Kueue's, which are not read (setting kueueAnnotations)"
    )


def test_what_kueue_manages_is_left_to_it_with_a_warning(judge: Judge) -> None:
    (entry,) = judge(job(9, REQUIRED, QUEUE)).json
    assert (entry["verdict"], entry.get("group")) == ("allow", None)
    assert entry["message"].startswith(
        "unmanaged: its topology annotations are left to Kueue, which manages its owner ("
    )
    assert any("are left to Kueue" in warning for warning in entry["warnings"])


def test_a_level_that_only_kueue_knows_is_kueues_to_judge(judge: Judge) -> None:
    asked = {f"{K}required-topology": "example.com/unknown", f"{K}group-name": "g"}
    templates = {
        "size": 3,
        "leaderTemplate": template(annotations=asked),
        "workerTemplate": template(annotations=asked),
    }
    spec = {"leaderWorkerTemplate": templates}
    (theirs,) = judge(workload(kind="LeaderWorkerSet", spec=spec, metadata={"labels": QUEUE})).json
    (ours,) = judge(workload(kind="LeaderWorkerSet", spec=spec)).json
    assert (theirs["verdict"], ours["verdict"]) == ("allow", "deny")


def test_what_review_writes_is_read_the_same_again(judge: Judge) -> None:
    first = judge(job(4, REQUIRED)).json[0]
    again = judge(first["mutated"]).json[0]
    assert (again["verdict"], racks(again), again["warnings"]) == ("allow", racks(first), first["warnings"])
    assert PLACEMENT in again["mutated"]["spec"]["template"]["metadata"]["annotations"]
