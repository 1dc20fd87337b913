"""What can be checked of the image without building it; tests/release/test_image.py builds it."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART
from webhook.app.settings import Settings

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
DEBIANS_PYTHON = "3.13"  # of the release that the Dockerfile names
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(name: str) -> Iterator[str]:
    """The arguments of each instruction of this name, with continued lines joined."""
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    for line in joined.splitlines():
        if line.startswith(f"{name} "):
            yield line.removeprefix(f"{name} ").strip()


def copied() -> Iterator[str]:
    """Every path of the repository that a COPY names."""
    for instruction in instructions("COPY"):
        if not instruction.startswith("--from="):
            yield from shlex.split(instruction)[:-1]


def ignored(path: str) -> bool:
    """Whether .dockerignore excludes a path: the last pattern that matches it, or a folder above it, decides."""
    outcome = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern, keep = line.removeprefix("!"), line.startswith("!")
        if line.startswith("#") or not line:
            continue
        if any(parent.match(pattern) for parent in (Path(path), *Path(path).parents)):
            outcome = not keep
    return outcome


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_every_copied_path_is_in_the_repository_and_in_the_build_context() -> None:
    paths = list(copied())
    assert {"pyproject.toml", "webhook/", "certs/", "image/prune.py", "requirements/runtime.txt"} <= set(paths)
    for path in paths:
        assert (ROOT / path).exists(), path
        assert not ignored(path), path


def test_the_build_context_holds_nothing_else() -> None:
    chart = "charts/topology-webhook/values.yaml"
    for path in (".git/config", ".venv/bin/python", "tests/conftest.py", chart, ".env", "image/check"):
        assert ignored(path), path


def test_everything_the_package_is_built_from_is_copied() -> None:
    parts = {path.rstrip("/") for path in copied()}
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*build["packages"], PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]} <= parts


def test_requirements_are_installed_by_hash_only() -> None:
    parts = [part for run in instructions("RUN") for part in run.split("&&")]
    installs = [part for part in parts if re.search(r"\b(install|build)\b", part) and "apt-get" not in part]
    assert len(installs) == 4
    for install in installs:
        assert "--require-hashes" in install or re.search(r"--no-deps dist/\*\.whl", install), install


def test_the_client_is_pruned_after_the_service_is_installed_by_the_interpreter_that_runs_it() -> None:
    *_, install, prune = instructions("RUN")
    assert install.endswith("dist/*.whl")
    interpreter, script, *_ = shlex.split(prune)
    (environment,) = (copy.split()[-1] for copy in instructions("COPY") if copy.startswith("--from=build"))
    assert (interpreter, script) == (f"{environment}/bin/python", "image/prune.py")


def test_the_build_backend_is_locked_in_the_file_that_constrains_it() -> None:
    (constraints,) = re.findall(r"--build-constraint (\S+)", DOCKERFILE.read_text())
    locked = set(re.findall(r"^([\w-]+)==", (ROOT / constraints).read_text(), re.MULTILINE))
    assert {re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["build-system"]["requires"]} <= locked


def test_the_entry_point_is_a_script_of_the_package_and_the_command_one_of_its_own() -> None:
    (entry_point,) = map(json.loads, instructions("ENTRYPOINT"))
    (command,) = map(json.loads, instructions("CMD"))
    assert entry_point[0] in PROJECT["project"]["scripts"]
    program = Path(sys.executable).with_name(entry_point[0])
    subprocess.run([program, *entry_point[1:], *command, "--help"], check=True, capture_output=True)


def test_both_stages_have_debians_own_python_and_it_is_one_that_the_tests_run() -> None:
    base, *stages = instructions("FROM")
    assert base == "debian:trixie-slim AS python"
    assert stages == ["python AS build", "python"]
    first, *_ = instructions("RUN")
    assert re.search(r"apt-get install --no-install-recommends --yes python3\s", first)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert DEBIANS_PYTHON in workflow["jobs"]["python"]["strategy"]["matrix"]["python"]


def test_user_and_ports_are_those_of_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    identity = values["podSecurityContext"]
    assert list(instructions("USER")) == [f"{identity['runAsUser']}:{identity['runAsGroup']}"]
    (exposed,) = instructions("EXPOSE")
    ports = {int(port) for port in exposed.split()}
    assert ports == set(values["ports"].values())
    # Off unless it is set, and so without a default: the port of metrics by HTTPS.
    defaults = {Settings.model_fields[name].default for name in ("port", "metrics_port", "peer_port", "page_port")}
    assert ports == {*defaults, values["ports"]["metricsTls"]}


@pytest.mark.parametrize("name", ["ENTRYPOINT", "CMD"])
def test_no_shell_stands_between_the_signal_and_the_program(name: str) -> None:
    (form,) = instructions(name)
    assert isinstance(json.loads(form), list)
