"""actionlint, built from the Go module beside this file: once per set of pins, then from the user's cache.

It checks workflow files: syntax, types of expressions, inputs of actions, and with shellcheck the scripts in them.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.build import BuildFailedError, build_environment
from tests.cluster.once import made_once, user_cache
from tests.cluster.toolchain import go_compiler, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = Path(__file__).parent / "actionlint"
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"
FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w")


def actionlint(tell: Callable[[str], None]) -> Path:
    """The path of the program. Builds it if these pins were not built before."""
    digest = hashlib.sha256(repr((FLAGS, platform.system(), platform.machine())).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    folder = user_cache() / "actionlint" / digest.hexdigest()[:16]
    return made_once(folder, lambda partial: _build(partial, tell), tell) / "actionlint"


def lint(files: list[Path], tell: Callable[[str], None]) -> subprocess.CompletedProcess[str]:
    """Lint workflow files. The scripts in them are checked by the shellcheck of this environment."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    return subprocess.run(
        [actionlint(tell), "-no-color", "-pyflakes=", f"-shellcheck={shellcheck}", *files],
        capture_output=True,
        text=True,
        check=False,
    )


def _build(folder: Path, tell: Callable[[str], None]) -> None:
    needed = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert needed is not None
    tell("building actionlint: once, half a minute")
    done = subprocess.run(
        [go_compiler(parse_version(needed[1]), tell), "build", *FLAGS, "-o", folder / "actionlint", PACKAGE],
        cwd=MODULE,
        env=build_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailedError(done.stderr)
