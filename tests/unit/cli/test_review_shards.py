"""Gangs in a cluster whose nodes are in shards: `review`, `explain` and `waiting` say what their leader says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.clusters import machine
from tests.builders.pods import gated
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import run_command
from webhook.model.names import MIN_MEMBER
from webhook.placing.gang.shard_room import ACROSS_SHARDS
from webhook.placing.pod.wait_reason import WaitReason

LABEL = "example.com/shard"
TOO_LARGE = f"gang g does not fit now: {ACROSS_SHARDS}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "service.yaml"
    path.write_text(
        "apiVersion: config.topology-webhook.dev/v1alpha1\nkind: TopologyWebhookConfiguration\n"
        f"advanced:\n  shardLabel: {LABEL}\n"
    )
    return path


def cluster(tmp_path: Path, shards: dict[str, str], *others: dict[str, Any]) -> Path:
    """Nodes with room for a pod of 8 CPUs each. shards: node -> its shard."""
    nodes = (machine(name=name, free=(8,), labels={LABEL: shard}) for name, shard in shards.items())
    return written(tmp_path, *(one for node in nodes for one in node), *others)


def members(**how: Any) -> list[dict[str, Any]]:
    return [gated(name=f"g-{number}", group="g", cpu=8, annotations={MIN_MEMBER: "2"}, **how) for number in range(2)]


def job(tmp_path: Path) -> Path:
    path, template = tmp_path / "job.yaml", gated(name="g-0", cpu=8)
    below = {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": template["spec"]}
    below["spec"].pop("schedulingGates", None)
    metadata = {"name": "g", "namespace": "default", "annotations": {MIN_MEMBER: "2"}}
    spec = {"parallelism": 2, "completions": 2, "template": below}
    path.write_text(yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}))
    return path


# a gang of 2 pods: in the first cluster a shard has room for one, in the second for both
@pytest.mark.parametrize(
    ("shards", "verdict"), [({"n0": "a", "n1": "b"}, "wait"), ({"n0": "a", "n1": "b", "n2": "b"}, "allow")]
)
def test_a_workload_that_fits_in_no_shard_alone_is_told_so(
    tmp_path: Path, config: Path, shards: dict[str, str], verdict: str
) -> None:
    path, files = cluster(tmp_path, shards), ("-f", job(tmp_path), "-o", "json")
    (entry,) = run_command("review", *files, "--config", config, cluster=path).json
    assert (entry["verdict"], ACROSS_SHARDS in entry["message"]) == (verdict, verdict == "wait")
    (entry,) = run_command("review", *files, cluster=path).json
    assert entry["verdict"] == "allow"


def test_a_gang_that_waits_is_explained_as_too_large_for_a_shard(tmp_path: Path, config: Path) -> None:
    path = cluster(tmp_path, {"n0": "a", "n1": "b"}, *members())
    outcome = run_command("explain", "pod/g-0", "--config", config, "-o", "json", cluster=path)
    assert (outcome.json["verdict"], outcome.json["message"]) == ("wait", TOO_LARGE)
    path = cluster(tmp_path, {"n0": "a", "n1": "a"}, *members())
    assert run_command("explain", "pod/g-0", "--config", config, "-o", "json", cluster=path).json["verdict"] == "allow"


def test_waiting_does_not_say_that_a_gang_fits_whose_leader_found_room_in_other_shards_only(tmp_path: Path) -> None:
    placed = {"type": "topology-webhook.dev/Placed", "status": "False", "reason": WaitReason.SHARD.value}
    told = [{**one, "status": {"conditions": [placed]}} for one in members()]
    for pods, helps in ((told, "Unknown"), (members(), "NothingNeeded")):
        path = cluster(tmp_path, {"n0": "a", "n1": "b"}, *pods)
        (entry,) = run_command("waiting", "-o", "json", cluster=path).json["waiting"]
        assert entry["frees"]["helps"] == helps
