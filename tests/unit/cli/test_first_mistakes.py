"""What a first user gets wrong is answered with what to write instead, wherever it is written."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.builders.pods import pod
from tests.unit.cli.conftest import run_command
from tests.unit.cli.golden_tables import BUSY
from webhook.cli import app as declared
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
)

# Arguments without which a command does nothing, and those that read a cluster.
NEEDED = {"explain": ["pod/x"], "review": ["-f", "{pod}"], "simulate": ["-f", "{pod}"], "ungate": ["--all"]}
LIVE = ["tree", "nodes", "waiting", "defrag", "audit", "explain", "review", "simulate", "doctor", "ungate", "page"]
PRINTING = [
    name for name in (*LIVE, "completion", "serve") if "output" in inspect.signature(getattr(declared, name)).parameters
]


@pytest.fixture
def arguments(tmp_path: Path) -> Any:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod()))
    return lambda name: [each.format(pod=file) for each in NEEDED.get(name, [])]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Two contexts of a cluster that nobody serves."""
    file = tmp_path / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("prod", "staging")]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        # Port 1 is reserved (RFC 6335), and nothing listens there.
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": contexts,
    }
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize("name", [name for name in LIVE if name != "page"])  # which waits for its cluster
def test_a_cluster_that_does_not_answer_is_named_with_its_context_and_what_to_do(
    name: str, arguments: Any, kubeconfig: Path
) -> None:
    printed = run_command(name, *arguments(name), "--kubeconfig", kubeconfig)
    assert printed.code == 2
    for part in ("https://127.0.0.1:1", f"kubeconfig {kubeconfig}, context prod", "VPN", "--context"):
        assert part in printed.stderr


@pytest.mark.parametrize("name", LIVE)
def test_an_unknown_context_is_answered_with_those_that_there_are(name: str, arguments: Any, kubeconfig: Path) -> None:
    printed = run_command(name, *arguments(name), "--kubeconfig", kubeconfig, "--context", "stagin")
    assert printed.code == 2
    assert "There is no context 'stagin'" in printed.stderr
    assert "Did you mean staging? There are: prod, staging." in printed.stderr


@pytest.mark.parametrize("name", PRINTING)
def test_an_unknown_output_is_answered_with_those_that_there_are(name: str) -> None:
    printed = run_command(name, "-o", "jsn")
    assert (printed.code, printed.stdout) == (2, "")
    assert "Invalid value for '--output' / '-o': 'jsn' is not one of 'table', 'yaml', 'json'" in printed.stderr


@pytest.mark.parametrize("name", ["tree", "nodes"])
@pytest.mark.parametrize(
    ("short", "resource"), [("gpu", "nvidia.com/gpu"), ("GPU", "nvidia.com/gpu"), ("cpus", "cpu"), ("mem", "memory")]
)
def test_a_resource_is_known_by_its_last_segment(name: str, short: str, resource: str) -> None:
    printed = run_command(name, "--resource", short, cluster=BUSY)
    assert printed.code == 2
    assert printed.stderr.endswith(f"Did you mean {resource}?\n")


@pytest.mark.parametrize(
    "annotation",
    [NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT],
)
def test_a_misspelt_annotation_is_answered_with_the_right_one_also_on_a_bare_pod(
    annotation: str, tmp_path: Path
) -> None:
    misspelt = annotation[:-3] + annotation[-2:]
    bare = pod(annotations={misspelt: "x"}, policy=None)
    owned = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}, "annotations": {misspelt: "x"}}, "spec": bare["spec"]},
        },
    }
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all([bare, owned]))
    printed = run_command("review", "-f", file, cluster=BUSY)
    assert printed.stdout.count(f"[{misspelt}] is not read. Did you mean {annotation}?") == 2


def test_objects_without_pods_are_counted_in_one_line_of_their_kind(tmp_path: Path) -> None:
    objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}} for number in range(12)]
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    assert run_command("review", "-f", file, cluster=BUSY).stdout.splitlines() == [
        "Without pods to place",
        "  ConfigMap: c0, c1, c2, c3, c4, c5, c6, c7 and 4 more",
        "",
        "12 objects: 12 allow",
    ]


@pytest.mark.parametrize("arguments", [[], *([name] for name in (*LIVE, "completion", "serve"))])
def test_no_help_is_cut(arguments: list[str]) -> None:
    first, *others = CliRunner().invoke(declared.app, [*arguments, "--help"], env={"COLUMNS": "80"}).stdout.splitlines()
    assert first.startswith("Usage: ")
    assert [line for line in others if line.endswith("...")] == []
