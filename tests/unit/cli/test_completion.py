"""Shell completion, in the shells themselves and in kubectl. Shells that are not installed are skipped."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
import typer.main
from typer.testing import CliRunner

from tests.unit.cli.conftest import CLUSTER, run_command
from webhook.cli.app import KUBECTL, app, command_line
from webhook.cli.commands.completion import candidates

PROGRAMS = Path(sys.executable).parent
PATH = f"{PROGRAMS}:{os.environ['PATH']}"


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Typer is asked through variables of the process, which must not outlive the test."""
    with patch.dict(os.environ):
        yield


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A shell's program and its completion script."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    script = tmp_path / name
    script.write_text(run_command("completion", name).stdout)
    return name, script


def printed(*command: str | Path, path: Path = PROGRAMS) -> str:
    environment = os.environ | {"PATH": f"{path}:{PATH}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"], indirect=True)
def test_the_script_has_no_syntax_error(shell: tuple[str, Path]) -> None:
    name, script = shell
    assert printed(name, "-n", script) == ""


@pytest.mark.parametrize("shell", ["bash"], indirect=True)
def test_bash_completes_values(shell: tuple[str, Path]) -> None:
    _, script = shell
    line = (
        f"source {script}; COMP_WORDS=(topology-webhook nodes -o ''); COMP_CWORD=3; "
        "[[ $(complete -p topology-webhook) =~ -F\\ ([^ ]+) ]] && ${BASH_REMATCH[1]} topology-webhook; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert printed("bash", "--norc", "-c", line).split() == ["table", "yaml", "json"]


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
def test_fish_completes_commands(shell: tuple[str, Path]) -> None:
    _, script = shell
    assert printed("fish", "--no-config", "-c", f"source {script}; complete -C 'topology-webhook tr'") == (
        "tree\tShow what is free in each rack, zone or...\n"
    )


@pytest.mark.parametrize("shell", ["zsh"], indirect=True)
def test_zsh_completes_commands(shell: tuple[str, Path]) -> None:
    _, script = shell
    terminal, inside = os.openpty()
    environment = os.environ | {"PATH": PATH}
    zsh = subprocess.Popen(
        ["zsh", "-f", "-i"], env=environment, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    )
    os.close(inside)
    try:
        os.write(terminal, f"autoload -Uz compinit; compinit -D -u; source {script}; echo re''ady\n".encode())
        read_until(b"ready", terminal)
        os.write(terminal, b"topology-webhook tr\t")
        read_until(b"topology-webhook tree", terminal)
    finally:
        os.close(terminal)
        zsh.kill()
        zsh.wait()


def read_until(text: bytes, terminal: int) -> None:
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 4096)


def test_kubectl_runs_the_plugin_and_completes_it(programs: Mapping[str, Path], tmp_path: Path) -> None:
    kubectl = programs["kubectl"]
    tree = ("tree", "--cluster", str(CLUSTER), "-o", "json")
    assert printed(kubectl, "topology", *tree) == run_command(*tree).stdout
    asking = tmp_path / "kubectl_complete-topology"
    asking.write_text(run_command("completion", "kubectl").stdout)
    asking.chmod(0o755)
    found = printed(kubectl, "__complete", "topology", "tree", "--dep", path=tmp_path)
    described, directive = found.splitlines()
    assert described.startswith("--depth\tThe finest level to show: ")
    assert described.endswith("at most 100 domains.")
    assert directive == ":4"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["tree", "--output", "j"], "json\n:4\n"),
        (["tree", "--cluster", ""], ":0\n"),
        (["tree", "it's a \"word\" with 'quotes"], ":0\n"),
        ([""], None),
        ([], None),
    ],
)
def test_kubectl_is_answered_with_candidates_or_told_to_complete_files(words: list[str], answer: str | None) -> None:
    found = candidates(app, words)
    if answer is not None:
        assert found == answer
        return
    *lines, directive = found.splitlines()
    assert directive == ":4"
    assert [line.partition("\t")[0] for line in lines] == list(typer.main.get_command(app).commands)  # type: ignore[attr-defined] # a group


def test_the_plugin_refers_to_kubectls_own_completion() -> None:
    result = CliRunner().invoke(command_line(KUBECTL), ["completion", "bash"], prog_name=KUBECTL)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`kubectl topology completion kubectl`" in result.stderr
