"""Run the commands in the test's own process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from webhook.cli.app import app

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTER = EXAMPLES / "snapshots" / "cluster.yaml"
MISTAKES = EXAMPLES / "mistakes"


@dataclass(frozen=True)
class Printed:
    """What a run printed, and its exit code."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Review = Callable[..., Printed]


def run_review(*arguments: object, stdin: str | bytes | None = None, cluster: object = CLUSTER) -> Printed:
    """Run it with the example cluster, unless the arguments name another."""
    return run_command("review", *arguments, stdin=stdin, cluster=cluster)


def run_command(command: str, *arguments: object, stdin: str | bytes | None = None, cluster: object = None) -> Printed:
    """Run a command. cluster: its snapshot, unless the arguments name a cluster."""
    snapshot = () if cluster is None else ("--cluster", cluster)
    result = CliRunner().invoke(
        app, [command, *map(str, (*arguments, *snapshot))], input=stdin, env={"KUBECONFIG": "/no/kubeconfig"}
    )
    # A traceback is never an answer.
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Printed(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def review() -> Review:
    """`review("-f", ...)`."""
    return run_review
