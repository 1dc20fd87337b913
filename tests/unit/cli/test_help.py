"""Every command shows examples, and each of them is right."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from tests.unit.cli.conftest import CLUSTER, EXAMPLES
from webhook.cli import app as cli
from webhook.cli.app import KUBECTL, app, command_line

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined] # a click group


def examples_of(name: str) -> list[str]:
    _, _, lines = (COMMANDS[name].epilog or "").partition("\b\nExamples:\n")
    return [line.strip() for line in lines.splitlines()]


EVERY = [each for name in COMMANDS for each in examples_of(name)]


def call(example: str) -> list[str]:
    """The arguments of the program in an example."""
    words = shlex.split(example)
    for end in ("|", ">"):
        if end in words:
            words = words[: words.index(end)]
    assert words[0] == "topology-webhook"
    return words[1:]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the examples name, in the working directory."""
    for name, target in {
        "cluster.yaml": CLUSTER,
        "pod.yaml": EXAMPLES / "pod.yaml",
        "gang.yaml": EXAMPLES / "gang.yaml",
        "manifests": EXAMPLES / "operators",
    }.items():
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples(name: str) -> None:
    assert examples_of(name)
    assert [each for each in examples_of(name) if not each.startswith(f"topology-webhook {name}")] == []


@pytest.mark.parametrize("example", EVERY)
def test_every_example_parses(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = call(example)
    for variable in [each for each in os.environ if each.startswith("TOPOLOGY_WEBHOOK_")]:
        monkeypatch.delenv(variable)
    context = COMMANDS[name].make_context(name, arguments)
    assert not context.args


# The page serves until it is stopped, and kind/name is an object of the reader's cluster.
OFFLINE = [
    each for each in EVERY if ("--cluster" in each and not re.search(r" page | \w+/\w", each)) or " completion " in each
]


@pytest.mark.parametrize("example", OFFLINE)
@pytest.mark.usefixtures("files")
def test_every_example_that_needs_no_cluster_runs(example: str) -> None:
    result = CliRunner().invoke(app, call(example))
    assert result.exit_code in {0, 1}, result.output  # 1: an object of review is denied, or fits nowhere
    assert result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_plugin_calls_itself_as_kubectl_does(name: str) -> None:
    shown = CliRunner().invoke(command_line(KUBECTL), [name, "--help"], prog_name=KUBECTL).output
    assert f"Usage: kubectl topology {name} " in shown
    assert f"kubectl topology {name}" in shown.partition("Examples:")[2]
    assert "  topology-webhook " not in shown


# What decisions, clusters and tables need: a second of CPU time.
HEAVY = {"aiohttp", "kubernetes", "numpy", "rich", "structlog", "yaml", "jinja2", "prometheus_client"}


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        ("app(['--version'])", False),
        ("app(['--help'])", False),
        ("complete([''])", False),
        ("complete(['tree', '--dep'])", True),
        ("app(['tree', '--help'])", True),
    ],
)
def test_help_and_completion_import_no_command(call: str, settings: bool) -> None:
    code = (
        "import sys\nfrom webhook.cli.app import app, complete\n"
        f"try:\n    {call}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    loaded = set(done.stderr.split())
    assert HEAVY & loaded == set()
    commands = {name for name in loaded if name.startswith("webhook.cli.commands.")}
    assert commands == {"webhook.cli.commands.completion"}
    assert ("webhook.app.settings" in loaded) is settings
    assert not any(name.startswith(("webhook.placing.", "webhook.views.")) for name in loaded)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_answered_by_a_function_of_its_name_and_parameters(name: str) -> None:
    """The declaration in webhook.cli.app, and the function that answers, which is found by name."""
    declared = inspect.signature(getattr(cli, name)).parameters
    answers = inspect.signature(getattr(import_module(f"webhook.cli.commands.{name}"), name)).parameters
    assert [each for each in answers if each != "flags"] == list(declared)
    assert ("flags" in answers) is (name != "completion")
