"""`review` of workloads in a ComputeDomain: they are gangs that prefer one NVLink clique, as if they asked for it.

a ── a0 a1            b ── b0 b1 b2        [cliques; a channel and 16 free CPUs a node]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clusters import machine
from tests.builders.compute_domains import CHANNEL_CLASS, CLAIM, CLIQUE, channel_slice, channel_template
from tests.builders.pods import SINGLE, pod
from tests.builders.workloads import template, workload
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import run_review
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, NUMA_TOPOLOGY_SPEC

NUMA = {NUMA_TOPOLOGY_SPEC: SINGLE}


def answer(folder: Path, raw: Mapping[str, Any], label: str = CLIQUE) -> Any:
    """What `review` says to an object."""
    nodes = {"a0": "a", "a1": "a", "b0": "b", "b1": "b", "b2": "b"}
    objects = [
        each for name, clique in nodes.items() for each in machine(name=name, free=(16,), labels={label: clique})
    ]
    (folder / "cluster").mkdir()
    cluster = written(folder / "cluster", *objects, *map(channel_slice, nodes), CHANNEL_CLASS, channel_template())
    return run_review("-f", written(folder, dict(raw)), "-o", "json", cluster=cluster).json[0]


def in_domain(**how: Any) -> dict[str, Any]:
    return template(cpu=16, resourceClaims=CLAIM, **how)


def job(size: int, annotations: Mapping[str, str] | None, **above: str) -> dict[str, Any]:
    spec = {"parallelism": size, "completions": size, "template": in_domain(annotations=annotations)}
    return workload(kind="Job", spec=spec, annotations=above)


def mpi_job(launcher: dict[str, Any], workers: dict[str, Any]) -> dict[str, Any]:
    replicas = {"Launcher": {"replicas": 1, "template": launcher}, "Worker": {"replicas": 3, "template": workers}}
    return workload(kind="MPIJob", spec={"mpiReplicaSpecs": replicas})


@pytest.mark.parametrize(
    ("raw", "verdict", "text"),
    [
        (job(3, NUMA), "allow", "gang w: 3 pods on 3 nodes in gpu.clique b"),
        (job(3, {}, **NUMA), "allow", "gang w: 3 pods on 3 nodes in gpu.clique b"),
        (job(5, NUMA), "allow", "gang w: 5 pods on 5 nodes; preferred gpu.clique missed: in 2 gpu.cliques (a, b)"),
        (job(3, {}), "allow", "unmanaged: "),
        (mpi_job(template(), in_domain(annotations=NUMA)), "allow", "gang w: 3 pods on 3 nodes in gpu.clique b"),
        (
            mpi_job(in_domain(annotations=NUMA), in_domain(annotations=NUMA)),
            "allow",
            "gang w: 4 pods on 4 nodes; preferred gpu.clique missed: in 2 gpu.cliques (a, b)",
        ),
        (
            job(4, {KAI_TOPOLOGY: CLIQUE, KAI_REQUIRED_PLACEMENT: "clique"}),
            "wait",
            "gpu.clique b holds 3 of 4 pods: cpu; not even an empty cluster has a place for it",
        ),
        (job(3, {KAI_TOPOLOGY: CLIQUE, KAI_REQUIRED_PLACEMENT: "rack"}), "deny", '"rack" is no level of topology'),
        (pod(resourceClaims=CLAIM), "allow", "gang p: 1 pod on 1 node in gpu.clique a"),
    ],
)
def test_the_answer_is_what_the_leader_does(raw: Mapping[str, Any], verdict: str, text: str, tmp_path: Path) -> None:
    found = answer(tmp_path, raw)
    assert (found["verdict"], text in found["message"] or found["message"]) == (verdict, True)


def test_it_says_why_no_clique_is_preferred(tmp_path: Path) -> None:
    found = answer(tmp_path, pod(resourceClaims=CLAIM), label="example.com/other")
    assert (
        "no NVLink clique is preferred for its ComputeDomain: no node has the label nvidia.com/gpu.clique, "
        in found["message"]
    )
