"""The wheel and the source distribution: built from the locked backend, installed as the image installs them, and run.

`Installation` is what the image has in /opt/topology-webhook: a virtual environment with the locked requirements and
the wheel, pruned by image/prune.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.release.version import ROOT

UV = Path(sys.executable).with_name("uv")
REQUIREMENTS = ROOT / "requirements"
EXAMPLE = ("review", "-f", "examples/pod.yaml", "--cluster", "examples/snapshots/cluster.yaml")
# uv and pip of the environment that runs this must not reach the new one.
_CLEAN = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}}


class CommandFailedError(RuntimeError):
    """A step of the release failed. The message holds the command and its output."""


def run(*command: str | Path) -> str:
    """What a command prints when it runs in the checkout; raises CommandFailedError."""
    done = subprocess.run(command, cwd=ROOT, env=_CLEAN, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build both distributions into a folder, the wheel from the source distribution. Returns the wheel."""
    locked = ("--require-hashes", "--build-constraint", REQUIREMENTS / "dev.txt")
    run(UV, "build", "--quiet", "--no-create-gitignore", *locked, "--python", sys.executable, "--out-dir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Installation:
    """A wheel in a virtual environment of its own. options: for `uv venv`."""

    def __init__(
        self, folder: Path, wheel: Path, requirements: Path = REQUIREMENTS / "runtime.txt", *options: str
    ) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.program = folder / "bin" / "topology-webhook"
        run(UV, "venv", "--quiet", *options, "--python", sys.executable, folder)
        install = (UV, "pip", "install", "--quiet", "--python", self.python)
        run(*install, "--only-binary", ":all:", "--require-hashes", "--requirement", requirements)
        run(*install, "--no-deps", wheel)

    def prune(self) -> str:
        """Remove what the image does not have. Returns what was printed."""
        return run(self.python, ROOT / "image" / "prune.py")

    def import_all(self) -> None:
        """Import every module of the service, in a new process."""
        run(self.python, "-I", "-c", "import runpy; runpy.run_path('image/prune.py')['import_service']()")

    def try_out(self) -> str:
        """Run the program as an operator and as a user would. Returns what the review of the example prints."""
        for arguments in (("--help",), ("serve", "--help")):
            run(self.program, *arguments)
        return run(self.program, *EXAMPLE)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.lstat().st_size for path in self.folder.rglob("*") if path.is_file())
