"""cert-manager and its chart, from the Go module: built once per set of pins, as the control plane is (`build.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.build import compile_package, key_of
from tests.cluster.module_files import copy_folder, folder_of_module
from tests.cluster.once import made_once, user_cache
from tests.cluster.versions import pinned

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE: Final = Path(__file__).parent / "certmanager"
UPSTREAM: Final = "github.com/cert-manager/cert-manager"


class CertManagerFiles(NamedTuple):
    """The program, with cert-manager's three programs as subcommands, and the folder of its Helm chart."""

    program: Path
    chart: Path


def find_cert_manager(tell: Callable[[str], None]) -> CertManagerFiles:
    """The program and the chart; builds them if these pins were not built before."""

    def compile_it(folder: Path) -> None:
        tell(f"building cert-manager {version()}: once, 4 to 5 minutes on 2 cores")
        compile_package(MODULE, ".", _flags(), folder / "cert-manager", tell)
        copy_folder(folder_of_module(UPSTREAM, MODULE, tell) / "deploy" / "charts" / "cert-manager", folder / "chart")

    folder = made_once(user_cache() / "cert-manager" / key_of(MODULE, _flags()), compile_it, tell)
    return CertManagerFiles(folder / "cert-manager", folder / "chart")


def version() -> str:
    """The version that go.mod requires."""
    return pinned(UPSTREAM, MODULE)


def _flags() -> list[str]:
    return [
        "-trimpath",
        "-buildvcs=false",
        "-mod=readonly",
        "-gcflags=all=-dwarf=false",
        f"-ldflags=-s -w -X {UPSTREAM}/pkg/util.AppVersion={version()}",
    ]
