"""Files of a Go module that are no code: its charts, CRDs and other manifests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.build import build_environment
from tests.cluster.toolchain import go_compiler, parse_version
from tests.cluster.versions import pinned

if TYPE_CHECKING:
    from collections.abc import Callable


def folder_of_module(name: str, module: Path, tell: Callable[[str], None]) -> Path:
    """The folder in the module cache that holds a Go module, in the version that the go.mod in `module` requires."""
    go = go_compiler(parse_version(pinned("go", module)), tell)
    listed = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", name],
        cwd=module,
        env=build_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(listed.stdout.strip())


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder without its modes: the module cache is read-only, and what is copied must be removable."""
    for file in source.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
