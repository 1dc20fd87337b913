"""Other Kubernetes versions: which one is asked for reaches the build, and each module pins what its name says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import __main__ as command
from tests.cluster.assets import AssetError, find_assets, wanted_version
from tests.cluster.build import COMPONENTS, KUBERNETES, build_flags, key
from tests.cluster.lock import LockError, lock, module_text
from tests.cluster.toolchain import parse_version
from tests.cluster.versions import DEFAULT, OTHERS, SIMULATED, module_of, pinned, versions

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
OLDEST = versions()[0]
NAMED = {"KUBEBUILDER_ASSETS", *(f"TEST_ASSET_{name.upper().replace('-', '_')}" for name in KUBERNETES)}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is built: a version's programs are in a folder of its name, all else in `default`."""
    monkeypatch.setattr("tests.cluster.assets.build", lambda _tell: tmp_path / "default")
    monkeypatch.setattr("tests.cluster.assets.build_kubernetes", lambda version, _tell: tmp_path / version)
    return tmp_path


def test_the_environment_asks_for_a_version_of_the_components_of_kubernetes_alone(folders: Path) -> None:
    found = find_assets(print, {"ENVTEST_K8S_VERSION": OLDEST})
    assert found.keys() == set(COMPONENTS)
    assert {path.parent for name, path in found.items() if name in KUBERNETES} == {folders / OLDEST}
    assert {path.parent for name, path in found.items() if name not in KUBERNETES} == {folders / "default"}


def test_an_argument_wins_over_the_environment(folders: Path) -> None:
    found = find_assets(print, {"ENVTEST_K8S_VERSION": versions()[-1]}, kubernetes=OLDEST)
    assert found["kube-scheduler"] == folders / OLDEST / "kube-scheduler"


def test_a_program_that_is_named_wins_over_the_version(folders: Path) -> None:
    named = {"TEST_ASSET_KUBE_SCHEDULER": sys.executable, "ENVTEST_K8S_VERSION": OLDEST}
    found = find_assets(print, named)
    assert found["kube-scheduler"] == Path(sys.executable)
    assert found["kube-apiserver"] == folders / OLDEST / "kube-apiserver"


@pytest.mark.parametrize("version", ["1.20", "latest", "v1.30", f"{OLDEST}.0"])
def test_another_version_is_an_error_that_names_those_that_can_be_built(version: str, folders: Path) -> None:
    with pytest.raises(AssetError, match=f"ENVTEST_K8S_VERSION={re.escape(version)} is not one of {OLDEST}, .*unset"):
        find_assets(print, {"ENVTEST_K8S_VERSION": version})


@pytest.mark.parametrize(("name", "called"), [("build", "find_assets"), ("up", "up")])
def test_the_commands_pass_the_version_on(name: str, called: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Any] = []

    def record(*_: object, **options: object) -> dict[str, Path]:
        passed.append(options["kubernetes"])
        return {"kube-apiserver": Path("kube-apiserver")}

    monkeypatch.setattr(command, called, record)
    monkeypatch.setattr(command, "find_promtool", lambda _tell: Path("promtool"))
    for arguments in ([], ["--kubernetes", OLDEST]):
        monkeypatch.setattr(sys, "argv", ["tests.cluster", name, *arguments])
        assert command.main() == 0
    assert passed == [None, OLDEST]


def test_make_matrix_tests_two_versions_besides_the_default_one_or_those_that_are_named(tmp_path: Path) -> None:
    called = tmp_path / "called"
    for name in ("python", "pytest"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$ENVTEST_K8S_VERSION" {name} "$@" >> {called}\n')
        (tmp_path / name).chmod(0o755)
    make = ["make", "matrix", "READY=", f"BIN={os.path.relpath(tmp_path, ROOT)}"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([*make, "VERSIONS=1.33", "ARGS=-k gang"], cwd=ROOT, check=True, capture_output=True)
    lines = called.read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [
        [version, program] for version in ("1.30", "1.36", "1.33") for program in ("python", "pytest")
    ]
    assert versions()[0] == "1.30"
    assert DEFAULT not in {line.split()[0] for line in lines}
    assert all("-m tests.cluster build" in line for line in lines[::2])
    assert all("-m cluster" in line for line in lines[1::2])
    assert lines[-1].endswith("-k gang")


def test_make_matrix_fails_with_the_first_version_that_fails(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(
        '#!/bin/sh\necho called "$ENVTEST_K8S_VERSION"\n[ "$ENVTEST_K8S_VERSION" != 1.30 ]\n'
    )
    (tmp_path / "python").chmod(0o755)
    make = ["make", "matrix", "READY=", f"BIN={os.path.relpath(tmp_path, ROOT)}", "VERSIONS=1.30 1.33"]
    done = subprocess.run(make, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "called 1.33" not in done.stdout


@pytest.mark.parametrize("version", versions())
def test_a_module_pins_one_release_of_its_version(version: str) -> None:
    folder = module_of(version)
    release = pinned("k8s.io/kubernetes", folder)
    assert release.startswith(f"v{version}.")
    replaced = re.findall(
        r"^\tk8s\.io/(\S+) => k8s\.io/(\S+) v0\.(\S+)$", (folder / "go.mod").read_text(), re.MULTILINE
    )
    assert len(replaced) >= 30
    assert {(old == new, f"v1.{staging}") for old, new, staging in replaced} == {(True, release)}
    assert f"-X k8s.io/component-base/version.gitVersion={release}" in build_flags(folder)[-1]


def test_the_other_versions_are_built_from_one_source() -> None:
    assert {path.resolve() for path in OTHERS.glob("*/*.go")} == {OTHERS / "main.go"}


def test_every_version_has_a_place_of_its_own_in_the_cache() -> None:
    assert len({key(module_of(version)) for version in versions()}) == len(versions())


def test_a_locked_module_requires_the_release_and_replaces_its_staging_modules() -> None:
    upstream = "module k8s.io/kubernetes\n\ngo 1.24.3\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n"
    text = module_text("v1.33.13", upstream)
    assert "\ngo 1.24.3\n\ngodebug default=go1.24\n\nrequire k8s.io/kubernetes v1.33.13\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.33.13\n" in text
    with pytest.raises(LockError, match=r"v1\.33\.13 names no Go version or no staging modules"):
        module_text("v1.33.13", "module k8s.io/kubernetes\n\ngo 1.24.3\n")


def test_the_version_of_the_simulated_kubelets_is_not_pinned_twice() -> None:
    with pytest.raises(LockError, match=r"controlplane/go\.mod"):
        lock(f"v{SIMULATED}.0", print)


def test_the_versions_that_are_printed_begin_with_the_oldest() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster", "versions"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    printed = done.stdout.split()
    assert printed == sorted(printed, key=parse_version)
    assert DEFAULT in printed
    assert len(printed) > 2


@pytest.mark.skipif(not NAMED.isdisjoint(os.environ), reason="the environment names programs of its own")
def test_the_api_server_is_of_the_version_that_is_asked_for(control_plane: ControlPlane) -> None:
    running = control_plane.api.get("/version")["gitVersion"]
    assert running == pinned("k8s.io/kubernetes", module_of(wanted_version()))
