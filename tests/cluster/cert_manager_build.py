"""cert-manager and its chart, from the Go module: built once per set of pins, as the control plane is (`build.py`)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.build import build_environment, compile_package, key_of
from tests.cluster.once import made_once, user_cache
from tests.cluster.toolchain import go_compiler, parse_version
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
        _copy(_chart_of_module(tell), folder / "chart")

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


def _chart_of_module(tell: Callable[[str], None]) -> Path:
    go = go_compiler(parse_version(pinned("go", MODULE)), tell)
    listed = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", UPSTREAM],
        cwd=MODULE,
        env=build_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(listed.stdout.strip()) / "deploy" / "charts" / "cert-manager"


def _copy(source: Path, target: Path) -> None:
    """Copy a folder without its modes: the module cache is read-only, and what is copied must be removable."""
    for file in source.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
