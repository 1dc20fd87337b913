"""Sources of the programs: the envtest variables first, Go from PATH if it is new enough, pins as the key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.assets import AssetError, find_assets, variable
from tests.cluster.build import COMPONENTS, key
from tests.cluster.toolchain import go_compiler, go_version, parse_version
from tests.cluster.versions import MODULE, pinned


def program(folder: Path, name: str, output: str = "") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {output}\n")
    path.chmod(0o755)
    return path


def no_build(*_: object) -> Path:
    raise AssertionError("must not build")


def test_a_folder_of_the_envtest_contract_wins_over_building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.assets.build", no_build)
    for name in COMPONENTS:
        program(tmp_path, name)
    found = find_assets(print, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert found == {name: tmp_path / name for name in COMPONENTS}


def test_the_variable_of_one_program_wins_over_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.assets.build", no_build)
    for name in COMPONENTS:
        program(tmp_path, name)
    own = program(tmp_path, "my-etcd")
    found = find_assets(print, {"KUBEBUILDER_ASSETS": str(tmp_path), "TEST_ASSET_ETCD": str(own)})
    assert found["etcd"] == own
    assert found["kube-apiserver"] == tmp_path / "kube-apiserver"


def test_what_an_envtest_folder_lacks_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.assets.build", lambda _tell: Path("/built"))
    monkeypatch.setattr("tests.cluster.assets.build_kubernetes", lambda _version, _tell: Path("/kubernetes"))
    for name in ("etcd", "kube-apiserver", "kubectl"):  # what envtest's archives hold
        program(tmp_path, name)
    found = find_assets(print, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert found["kubectl"] == tmp_path / "kubectl"
    assert found["kube-scheduler"] == Path("/kubernetes/kube-scheduler")
    assert found["helm"] == Path("/built/helm")


@pytest.mark.parametrize("name", ["KUBEBUILDER_ASSETS", "TEST_ASSET_KUBE_APISERVER"])
def test_a_variable_that_names_nothing_is_an_error_not_a_build(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.cluster.assets.build", no_build)
    with pytest.raises(AssetError, match=f"{name}=.*unset it"):
        find_assets(print, {name: str(tmp_path / "none")})


def test_the_variables_have_the_names_of_envtest() -> None:
    assert variable("kube-apiserver") == "TEST_ASSET_KUBE_APISERVER"
    assert variable("etcd") == "TEST_ASSET_ETCD"
    assert variable("kubectl") == "TEST_ASSET_KUBECTL"


def test_a_changed_pin_or_source_is_another_key(tmp_path: Path) -> None:
    module = tmp_path / "module"
    shutil.copytree(MODULE, module)
    keys = [key(module)]
    for file in ("go.mod", "go.sum", "main.go", "kubelets/admission.go"):
        with (module / file).open("a") as source:
            source.write("// changed\n")
        keys.append(key(module))
    assert len(set(keys)) == len(keys)


def test_pins_are_read_from_go_mod() -> None:
    assert parse_version(pinned("k8s.io/kubernetes")) >= (1, 36)
    with pytest.raises(ValueError, match="requires no example"):
        pinned("example.com/none")


def test_go_from_path_is_used_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(tmp_path, "go", output="go1.99.1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert go_version(on_path) == (1, 99, 1)
    assert go_compiler((1, 26, 0), print) == on_path


def test_go_from_path_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "go", output="go1.20.3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("tests.cluster.toolchain.install_wheels", lambda _, folder: (folder / "installed").touch())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told: list[str] = []
    found = go_compiler((1, 26, 0), told.append)
    assert found.is_relative_to(tmp_path / "cache")
    assert (found.parents[2] / "installed").exists()
    assert "older than Go 1.26.0" in told[0]
