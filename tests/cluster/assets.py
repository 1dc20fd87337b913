"""Finds the programs of the control plane: by controller-runtime's envtest contract first, by building them last.

For each program, the first that is set wins:
1. TEST_ASSET_KUBE_APISERVER, TEST_ASSET_ETCD, TEST_ASSET_KUBECTL, and likewise TEST_ASSET_<NAME> of the others:
   the path of the program.
2. KUBEBUILDER_ASSETS: a folder. envtest's archives hold kube-apiserver, etcd and kubectl only; what a folder lacks is
   built.
3. Our own build (build.py). ENVTEST_K8S_VERSION=1.30 asks for another version of kube-apiserver, kube-scheduler,
   kube-controller-manager and kubelet; the programs beside them stay the same.

Source: kubernetes-sigs/controller-runtime, pkg/internal/testing/process (BinPathFinder).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.build import COMPONENTS, KUBERNETES, build, build_kubernetes
from tests.cluster.versions import DEFAULT, SIMULATED, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER_VARIABLE = "KUBEBUILDER_ASSETS"
VERSION_VARIABLE = "ENVTEST_K8S_VERSION"


class AssetError(RuntimeError):
    """A variable of the envtest contract names something that is not a program, or not a version."""


def find_assets(
    tell: Callable[[str], None], environment: Mapping[str, str] = os.environ, kubernetes: str | None = None
) -> dict[str, Path]:
    """The path of every program in `COMPONENTS` by its name.

    kubernetes: the version to build, whatever the environment asks for.
    """
    version = kubernetes or wanted_version(environment)
    programs = {name: path for name in COMPONENTS if (path := _given(name, environment)) is not None}
    if version != SIMULATED and not programs.keys() >= set(KUBERNETES):
        folder = build_kubernetes(version, tell)
        programs = {name: folder / name for name in KUBERNETES} | programs
    if len(programs) < len(COMPONENTS):
        folder = build(tell)
        programs = {name: folder / name for name in COMPONENTS} | programs
    return programs


def wanted_version(environment: Mapping[str, str] = os.environ) -> str:
    """The version that the environment asks for, else the default one."""
    wanted = environment.get(VERSION_VARIABLE) or DEFAULT
    if wanted not in versions():
        raise AssetError(f"{VERSION_VARIABLE}={wanted} is not one of {', '.join(versions())}. Correct it or unset it.")
    return wanted


def variable(component: str) -> str:
    """The environment variable that names one program: kube-apiserver -> TEST_ASSET_KUBE_APISERVER."""
    return "TEST_ASSET_" + component.upper().replace("-", "_")


def given_program(name: str, environment: Mapping[str, str]) -> Path | None:
    """The program that the variable of this name names; None if it is unset."""
    if path := environment.get(variable(name)):
        if not os.access(path, os.X_OK):
            raise AssetError(f"{variable(name)}={path} is not an executable file. Correct it or unset it.")
        return Path(path)
    return None


def _given(component: str, environment: Mapping[str, str]) -> Path | None:
    if program := given_program(component, environment):
        return program
    if folder := environment.get(FOLDER_VARIABLE):
        if not Path(folder).is_dir():
            raise AssetError(f"{FOLDER_VARIABLE}={folder} is not a folder. Correct it or unset it.")
        program = Path(folder) / component
        return program if os.access(program, os.X_OK) else None
    return None
