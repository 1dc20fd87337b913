"""Values of a snapshot, and of a live cluster as kubectl tells them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.unit.cli.golden_tables import BUSY
from webhook.cli.app import app
from webhook.cli.commands.completion import candidates

# Prints its arguments into a file, and the nodes that a cluster has.
KUBECTL = """#!/bin/sh
echo "$@" > {asked}
cat {answer}
exit {code}
"""


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Typer is asked through variables of the process, which must not outlive the test."""
    with patch.dict(os.environ):
        yield


def found(*words: str) -> list[str]:
    *lines, directive = candidates(app, words).splitlines()
    assert directive == (":4" if lines else ":0")
    return lines


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("nodes", "gpu-2"), ["gpu-21", "gpu-22", "gpu-23"]),
        (("tree", "--topology", ""), ["racks"]),
        (("tree", "--resource", "nv"), ["nvidia.com/gpu"]),
        (("nodes", "--resource", "cpu,me"), ["cpu,memory"]),
        (("explain", "-n", "re"), ["render", "research"]),
        (("explain", "po"), ["pod/", "podgroup/"]),
        (("explain", "-n", "research", "job/t"), ["job/train"]),
        (("explain", "--namespace", "research", "pod/llm-"), ["pod/llm-0", "pod/llm-1"]),
        (("nodes", "none"), []),
    ],
)
def test_values_of_a_snapshot_are_completed(words: tuple[str, ...], values: list[str]) -> None:
    name, *others = words
    assert found(name, "--cluster", str(BUSY), *others) == values


def kubectl(folder: Path, answer: object, code: int = 0) -> Path:
    """A kubectl with this answer on PATH. Returns the file with its arguments."""
    asked, told, program = folder / "asked", folder / "answer", folder / "kubectl"
    told.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    program.write_text(KUBECTL.format(asked=asked, answer=told, code=code))
    program.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    return asked


def test_those_of_a_live_cluster_are_what_kubectl_says_of_the_calls_cluster(tmp_path: Path) -> None:
    asked = kubectl(tmp_path, {"items": [{"metadata": {"name": name}} for name in ("n2", "n1", "m")]})
    assert found("nodes", "--kubeconfig", "/k", "--context", "training", "n") == ["n1", "n2"]
    assert asked.read_text().split() == [
        "get", "nodes", "--output=json", "--request-timeout=1s", "--kubeconfig=/k", "--context=training"
    ]  # fmt: skip


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    asked = kubectl(tmp_path, {"contexts": [{"name": "prod"}, {"name": "staging"}]})
    assert found("audit", "--kubeconfig", "/k", "--context", "") == ["prod", "staging"]
    assert asked.read_text().split() == ["config", "view", "--output=json", "--kubeconfig=/k"]


@pytest.mark.parametrize(("answer", "code"), [("no JSON", 0), ("", 1), ([], 0), ({"items": [{}]}, 0)])
def test_without_an_answer_there_are_no_candidates(answer: object, code: int, tmp_path: Path) -> None:
    kubectl(tmp_path, answer, code)
    assert found("nodes", "n") == []


def test_without_kubectl_there_are_no_candidates(tmp_path: Path) -> None:
    os.environ["PATH"] = str(tmp_path)
    assert found("nodes", "n") == []


def test_names_that_a_terminal_would_obey_are_left_out(tmp_path: Path) -> None:
    kubectl(tmp_path, {"items": [{"metadata": {"name": name}} for name in ("n1", "n\x1b[31m")]})
    assert found("nodes", "n") == ["n1"]
