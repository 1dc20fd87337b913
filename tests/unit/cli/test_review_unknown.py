"""`topology-webhook review` on incomplete clusters: no NRTs, a pool without nodes, unreadable policies."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import CLUSTER, EXAMPLES, Review

POD = EXAMPLES / "pod.yaml"
OBJECTS = [raw for raw in yaml.safe_load_all(CLUSTER.read_text()) if raw]


def test_a_policy_that_cannot_be_read_excludes_its_node_by_name_and_value(review: Review, tmp_path: Path) -> None:
    node_arrays = tmp_path / "cluster.yaml"
    node_arrays.write_text(CLUSTER.read_text().replace("value: single-numa-node", "value: Sometimes"))
    (entry,) = review("-f", POD, "-o", "json", "--all-nodes", cluster=node_arrays).json
    # node-f is cordoned.
    assert entry["nodes"]["excluded"]["UnknownPolicy"] == 3
    why = {one["node"]: one["message"] for one in entry["perNode"] if one["reason"] == "UnknownPolicy"}
    sentence = "unknown NUMA policy: topologyManagerPolicy 'Sometimes'"
    assert why == dict.fromkeys(("node-a", "node-b", "node-c"), sentence)
    assert "3 unknown NUMA policy (node-a: topologyManagerPolicy 'Sometimes')" in entry["message"]
    assert entry["verdict"] == "wait"
    table = review("-f", POD, cluster=node_arrays)
    assert sentence in table.stdout
    assert table.code == 1
    assert "is no known policy" in review("-f", POD, "-o", "json", cluster=node_arrays).stderr


@pytest.mark.parametrize("spelling", ["SingleNumaNode", "SINGLE_NUMA_NODE", "SingleNUMANodeContainerLevel"])
def test_other_spellings_give_the_same_answer(review: Review, tmp_path: Path, spelling: str) -> None:
    node_arrays = tmp_path / "cluster.yaml"
    node_arrays.write_text(CLUSTER.read_text().replace("value: single-numa-node", f"value: {spelling}"))
    assert review("-f", POD, "-o", "json", cluster=node_arrays).json == review("-f", POD, "-o", "json").json


# Without the CRD, before the first exporter has published anything; and with a pool that has no node yet.
NO_TOPOLOGIES = [raw for raw in OBJECTS if raw["kind"] == "Node"]
ELSEWHERE = {"nodeSelector": {"pool": "gpu"}}


@pytest.mark.parametrize(
    ("objects", "spec", "message"),
    [
        (NO_TOPOLOGIES, {}, "no NUMA topology is known for any of the 6 nodes it may go to"),
        (OBJECTS, ELSEWHERE, "its own node selector, affinity and tolerations let it onto none"),
        (NO_TOPOLOGIES, ELSEWHERE, "its own node selector, affinity and tolerations let it onto none"),
    ],
)
def test_a_pod_waits_for_what_is_not_there_yet(
    review: Review, tmp_path: Path, objects: list[Any], spec: dict[str, Any], message: str
) -> None:
    node_arrays, pod = tmp_path / "cluster.yaml", tmp_path / "pod.yaml"
    node_arrays.write_text(yaml.safe_dump_all(objects))
    raw = yaml.safe_load(POD.read_text())
    pod.write_text(yaml.safe_dump({**raw, "spec": {**raw["spec"], **spec}}))
    outcome = review("-f", pod, "-o", "json", cluster=node_arrays)
    (entry,) = outcome.json
    assert (outcome.code, entry["verdict"]) == (1, "wait")
    assert message in entry["message"]
