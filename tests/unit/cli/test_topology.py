"""`topology-webhook topology discover`: what it prints can be applied, and read again."""

from pathlib import Path

import yaml

from tests.builders.nodes import node
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import run_command
from tests.unit.cli.golden_tables import BUSY
from webhook.formats.topology import Topology

LABELS = ["example.com/hall", "example.com/rack", "kubernetes.io/hostname"]


def test_yaml_is_the_object_alone_and_warnings_go_to_stderr() -> None:
    printed = run_command("topology", "discover", "--name", "racks", "-o", "yaml", cluster=BUSY)
    assert printed.code == 0
    topology = Topology.from_object(yaml.safe_load(printed.stdout))
    assert (topology.name, list(topology.node_labels)) == ("racks", LABELS)
    assert printed.stderr.count("warning: 1 node has no label example.com/") == 2
    assert "'cpu-99'" in printed.stderr


def test_tree_shows_the_domains_of_what_was_proposed(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(run_command("topology", "discover", "-o", "yaml", cluster=BUSY).stdout)
    shown = run_command("tree", "--cluster", file, "--topology", "cluster", "-o", "json", cluster=BUSY).json
    (topology,) = shown["topologies"]
    assert topology["levels"] == LABELS


def test_the_json_has_the_documented_fields() -> None:
    answer = run_command("topology", "discover", "-o", "json", cluster=BUSY).json
    assert set(answer) == fields_of("TopologyProposal")
    assert {frozenset(level) for level in answer["levels"]} == {frozenset(fields_of("ProposedLevel"))}


def test_without_labels_it_says_what_to_do_and_prints_no_object(tmp_path: Path) -> None:
    snapshot = written(tmp_path, node(name="n0"), node(name="n1"))
    printed = run_command("topology", "discover", cluster=snapshot)
    assert printed.code == 1
    assert printed.stdout.startswith("No known label says where nodes are. Label them with their racks")
    printed = run_command("topology", "discover", "-o", "yaml", cluster=snapshot)
    assert (printed.code, printed.stdout) == (1, "")
    assert printed.stderr.startswith("error: No known label")
