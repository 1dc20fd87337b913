"""`review` answers every odd manifest and names its fault.

tests/integration/test_odd_documents.py compares these answers with the service's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.conftest import EXAMPLES, run_review
from tests.unit.cli.odd_documents import ODD

if TYPE_CHECKING:
    from pathlib import Path

# What is wrong with those that are neither unmanaged nor placed: exit code, and a part of what is said.
FAULTS = {
    "annotation a number": (2, "must be text (in quotes), not 1"),
    "annotation an object": (2, "must be text (in quotes)"),
    "annotations a list": (2, "metadata.annotations: This must be an object"),
    "template annotation a number": (2, "spec.template.metadata.annotations"),
    "replicas text": (2, "spec.replicas: 'two' is not a number of pods"),
    "parallelism beyond int64": (2, "spec.parallelism: "),
    "parallelism large": (1, "spec.parallelism: 2000000 is not a number of pods"),
    "cpu nonsense": (2, "spec.containers[0].resources.requests[cpu]: '4 cores' is not a quantity"),
    "cpu huge": (1, "none could take it even if it were empty"),
    "policy lower case": (1, 'numaTopologyPolicy: "singlenumanode" is unknown'),
    "annotation empty": (1, "The value is empty"),
    "annotation a JSON text": (1, "must be a JSON object"),
    "unknown field": (0, "unknown field numaPolicy is ignored"),
    "minimum huge": (1, "is not a number of pods"),
    "topology unknown": (1, "There is no topology"),
    "level unknown": (1, "is no level of topology cluster"),
    "level without a topology": (1, "A level needs a topology"),
    "forged hint": (1, "Only topology-webhook writes this"),
    "an empty List": (2, "there is no Kubernetes object in it"),
    "two of one name": (0, "Pod p appears twice, first in "),
    "no kind": (2, "kind: This is missing"),
    "no metadata": (2, "metadata: This is missing"),
    "no name": (2, "metadata.name: This is missing"),
    "no containers": (2, "spec.containers: This is missing"),
    "template null": (2, "spec.template: This is missing"),
    "container null": (2, "spec.containers[0]: This must be an object"),
    "an owner that is not there": (0, "its owner Job j is neither among the objects nor in the cluster"),
    "an owner of no kind": (1, "names no object that can own pods"),
    "no pods": (0, "nothing to place"),
}


@pytest.fixture(scope="module")
def node_arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with racks and their Topology."""
    file = tmp_path_factory.mktemp("snapshot") / "cluster.yaml"
    topology = (EXAMPLES / "gang.yaml").read_text().partition("\n---\n")[0]
    file.write_text(f"{(EXAMPLES / 'snapshots' / 'racks.yaml').read_text()}\n---\n{topology}")
    return file


@pytest.mark.parametrize("name", ODD)
def test_an_odd_document_gets_an_answer(name: str, node_arrays: Path, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(ODD[name])
    outcome = run_review("-f", file, "-o", "json", cluster=node_arrays)
    if outcome.code == 2:
        assert outcome.stderr.startswith(f"error: {file}: ")
    else:
        assert all(entry["message"] for entry in outcome.json)
    code, text = FAULTS.get(name, (outcome.code, ""))
    said = outcome.stderr
    if outcome.code != 2:
        said += "".join(text for entry in outcome.json for text in (entry["message"], *entry["warnings"]))
    assert (outcome.code, text in said) == (code, True), said
