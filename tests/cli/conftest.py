"""Running `topology-webhook review` within the test's own process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from webhook.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "cluster.yaml"


@dataclass(frozen=True)
class Outcome:
    """What a run printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Review = Callable[..., Outcome]


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch) -> Review:
    """`review("-f", ...)` with the example cluster, unless the arguments name another."""
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def run(*arguments: object, stdin: str | bytes | None = None, cluster: object = CLUSTER) -> Outcome:
        snapshot = () if cluster is None else ("--cluster", cluster)
        result = CliRunner().invoke(app, ["review", *map(str, (*arguments, *snapshot))], input=stdin)
        # A traceback is never an answer.
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run
