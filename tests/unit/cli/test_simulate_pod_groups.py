"""`topology-webhook simulate` of pods whose PodGroup Kubernetes or KAI-Scheduler reads."""

import json
from pathlib import Path

import pytest

from tests.builders.native_pod_groups import in_group, native_pod_group
from tests.builders.nodes import node
from tests.builders.pod_groups import constraint, pod_group
from tests.builders.pods import plain
from tests.builders.topologies import topology
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import Printed, run_command
from webhook.model.raw import Draft

RACK = "example.com/rack"
NODES = {"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}


# rack-1 ── n1 [2]        [free CPUs]
# rack-2 ── n2 [2]  n3 [2]
@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    nodes = (node(name=name, cpus=2, labels={RACK: rack}) for name, rack in NODES.items())
    return written(tmp_path, topology(labels=(RACK,)), *nodes)


def simulated(cluster: Path, *objects: Draft) -> Printed:
    outcome = run_command(
        "simulate", "-f", "-", "-o", "json", cluster=cluster, stdin="\n".join(map(json.dumps, objects))
    )
    assert outcome.code == 0
    return outcome


def run_with(cluster: Path, *objects: Draft) -> Draft:
    """The run with the webhook."""
    outcome = simulated(cluster, *objects)
    assert outcome.stderr == ""
    found: Draft = outcome.json["runs"][1]
    return found


def native(count: int) -> list[Draft]:
    return [in_group(name=f"p-{n}", cpu=1) for n in range(count)]


def of_subgroup(name: str, count: int) -> list[Draft]:
    metadata = {"labels": {"kai.scheduler/subgroup-name": name}, "annotations": {"pod-group-name": "g"}}
    return [plain(name=f"{name}-{n}", cpu=1, metadata=metadata) for n in range(count)]


def rack_of(name: str, minimum: int) -> Draft:
    return {"name": name, "minMember": minimum, "topologyConstraint": constraint(RACK)}


def test_a_gang_of_a_native_group_starts_as_a_whole_in_one_rack(cluster: Path) -> None:
    group = native_pod_group(minimum=4, level=RACK)
    fits = run_with(cluster, group, *native(4))
    assert (fits["running"], fits["waiting"], fits["inDomain"]) == (4, 0, 4)
    too_many = run_with(cluster, native_pod_group(minimum=5, level=RACK), *native(5))
    assert (too_many["running"], too_many["waiting"]) == (0, 5)


def test_each_subgroup_of_a_users_pod_group_has_a_rack(cluster: Path) -> None:
    fits = run_with(cluster, pod_group(rack_of("a", 2), rack_of("b", 4)), *of_subgroup("a", 2), *of_subgroup("b", 4))
    assert (fits["running"], fits["waiting"]) == (6, 0)
    too_many = pod_group(rack_of("a", 3), rack_of("b", 3))
    none = run_with(cluster, too_many, *of_subgroup("a", 3), *of_subgroup("b", 3))
    assert (none["running"], none["waiting"]) == (0, 6)


def test_pods_that_their_group_lets_wait_are_left_out_with_the_reason(cluster: Path) -> None:
    outcome = simulated(cluster, native_pod_group(minimum=3, level=RACK), *native(2), plain(name="other", cpu=1))
    first, second = outcome.stderr.splitlines()
    assert first.endswith("Pod p-0 is left out: gang g: 2 of the 3 pods that must start together are there")
    assert "Pod p-1 is left out" in second
