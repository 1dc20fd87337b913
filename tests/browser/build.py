"""Chromium and axe-core: fetched once per lock file by npm, then taken from the user's cache folder.

1. `npm ci` installs what package-lock.json pins by hash. The lock file names no registry: npm's own configuration does.
2. Node decompresses the package's archives. They hold Chromium, a font and the libraries that slim machines lack.
3. Only these, axe-core's script and the scripts of the page are kept.

TEST_ASSET_CHROMIUM names a browser to use instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.browser.node import node_folder
from tests.cluster.assets import given_program
from tests.cluster.build import BuildFailedError
from tests.cluster.once import made_once, user_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE: Final = Path(__file__).parent
SCRIPTS: Final = (
    "htmx.org/dist/htmx.min.js",
    "htmx-ext-sse/dist/sse.min.js",
    "idiomorph/dist/idiomorph-ext.min.js",
)
"""The scripts that the page contains, in their packages."""
_PINS: Final = ("package.json", "package-lock.json", "unpack.mjs", "fonts.conf")


@dataclass(frozen=True)
class BrowserAssets:
    """The files that a test in a browser needs."""

    chromium: Path
    environment: Mapping[str, str]
    """What to add to Chromium's environment: where its libraries and its font are."""
    axe: Path
    """axe-core, one script."""
    scripts: Path
    """The folder of the scripts that the page contains, as their packages have them."""


def find_browser(tell: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> BrowserAssets:
    """The browser; fetches it if these pins were not fetched before."""
    pins = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _PINS)).hexdigest()[:16]
    folder = made_once(user_cache() / "browser" / pins, lambda partial: _fetch(partial, tell), tell)
    given = given_program("chromium", environment)
    own = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_PATH": str(folder / "fonts")}
    return BrowserAssets(given or folder / "chromium", {} if given else own, folder / "axe.min.js", folder / "scripts")


def _fetch(folder: Path, tell: Callable[[str], None]) -> None:
    tell("fetching Chromium for the tests of the page: once, 70 MB")
    path = {"PATH": f"{node_folder(tell)}{os.pathsep}{os.environ['PATH']}"}
    work = folder / "work"
    work.mkdir()
    for name in _PINS:
        shutil.copy(HERE / name, work)
    packages = work / "node_modules"
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], work, path)
    _run(["node", "unpack.mjs", str(packages / "@sparticuz" / "chromium" / "bin"), str(folder)], work, path)
    for archive in folder.glob("*.tar"):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()
    (folder / "fonts.conf").unlink()
    shutil.copy(HERE / "fonts.conf", folder / "fonts")
    (folder / "chromium").chmod(0o755)
    shutil.copy(packages / "axe-core" / "axe.min.js", folder)
    (folder / "scripts").mkdir()
    for script in SCRIPTS:
        shutil.copy(packages / script, folder / "scripts")
    shutil.rmtree(work)


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildFailedError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
