"""kubectl's plugin for krew: an archive for each platform, and the manifest that names them.

1. The locked requirements are installed into a folder for each version of Python, from wheels only.
2. Distributions without compiled code go into one folder that all versions share, and so does our wheel.
3. What the service never loads is removed, as from the image.
4. The launcher `krew/kubectl-topology` picks the folder of the Python that it finds.

krew extracts regular files only, so the versions cannot share files by links.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import sys
import tarfile
from textwrap import indent
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from tests.release.distributions import REQUIREMENTS, UV, run
from tests.release.version import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SOURCE: Final = ROOT / "krew"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")

_UNLOADED: Final = """
import runpy
prune = runpy.run_path("image/prune.py")
prune["import_service"]()
packages = prune["PACKAGES"]
generated = prune["unloaded"](packages / "kubernetes" / each for each in prune["GENERATED"])
print(*(file.relative_to(packages) for file in (*generated, *prune["tests"]())), sep="\\n")
"""


class Platform(NamedTuple):
    """A platform as krew and uv name it."""

    os: str
    arch: str
    triple: str


PLATFORMS: Final = (
    Platform("linux", "amd64", "x86_64-unknown-linux-gnu"),
    Platform("linux", "arm64", "aarch64-unknown-linux-gnu"),
    Platform("darwin", "amd64", "x86_64-apple-darwin"),
    Platform("darwin", "arm64", "aarch64-apple-darwin"),
)


def build_archive(
    folder: Path, scratch: Path, wheel: Path, version: str, platform: Platform, pythons: Sequence[str] = PYTHONS
) -> Path:
    """Build the archive of a platform into a folder. scratch: an empty folder."""
    shutil.copytree(SOURCE, scratch, dirs_exist_ok=True, ignore=shutil.ignore_patterns("topology.yaml", "__pycache__"))
    shutil.copy(ROOT / "LICENSE", scratch)
    shared = scratch / "lib" / "any"
    for python in pythons:
        own = scratch / "lib" / python
        target = ("--target", own, "--python-platform", platform.triple, "--python-version", python)
        locked = ("--only-binary", ":all:", "--require-hashes", "--requirement", REQUIREMENTS / "command.txt")
        run(UV, "pip", "install", "--quiet", *target, *locked)
        _share(own, shared)
    run(UV, "pip", "install", "--quiet", "--target", shared, "--no-deps", wheel)
    _remove_unloaded([*(scratch / "lib").iterdir()])
    archive = folder / f"kubectl-topology-{version}-{platform.os}-{platform.arch}.tar.gz"
    _pack(scratch, archive)
    return archive


def write_manifest(folder: Path, version: str, archives: Iterable[tuple[Platform, Path]], downloads: str) -> Path:
    """Write the manifest. downloads: the URL below which the archives are published."""
    added = {
        "version": f"v{version}",
        "platforms": [
            {
                "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
                "uri": f"{downloads}/{archive.name}",
                "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                "bin": "kubectl-topology",
            }
            for platform, archive in archives
        ],
    }
    path = folder / "topology.yaml"
    # The file's last field is `spec`.
    path.write_text((SOURCE / path.name).read_text() + indent(yaml.safe_dump(added, sort_keys=False), "  "))
    return path


def _share(own: Path, shared: Path) -> None:
    """Move the distributions without compiled code into the shared folder, unless it has them already."""
    shared.mkdir(exist_ok=True)
    shutil.rmtree(own / "bin", ignore_errors=True)
    for info in list(own.glob("*.dist-info")):
        tags = re.findall(r"^Tag: (\S+)$", (info / "WHEEL").read_text(), re.MULTILINE)
        if not all(tag.endswith("-none-any") for tag in tags):
            continue
        known = (shared / info.name).exists()
        for name in _entries(info):
            if known:
                _remove(own / name)
            else:
                # Two versions of one distribution would end up in one folder; rename refuses that.
                (own / name).rename(shared / name)


def _entries(info: Path) -> set[str]:
    """The files and folders at the top of a distribution."""
    names = {line.partition(",")[0].partition("/")[0] for line in (info / "RECORD").read_text().splitlines()}
    return {name for name in names if (info.parent / name).exists() and name != ".."}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove_unloaded(folders: Sequence[Path]) -> None:
    for name in run(sys.executable, "-c", _UNLOADED).splitlines():
        for folder in folders:
            (folder / name).unlink(missing_ok=True)


def _pack(folder: Path, archive: Path) -> None:
    """Pack a folder as a tar archive that depends on nothing but its files' content."""
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            entry = tar.gettarinfo(path, str(path.relative_to(folder)))
            # uv may install hard links to its cache, which tar would store as links.
            entry.type, entry.size, entry.linkname = tarfile.REGTYPE, path.stat().st_size, ""
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") as content:
                tar.addfile(entry, content)
