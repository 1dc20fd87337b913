"""What a release has besides the wheel and the image: chart, manifests, SBOM, notes, checksums."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.chart.helm import CHART, Helm
from tests.release.distributions import Installation, run
from tests.release.version import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

MANIFESTS = ROOT / "deploy" / "install.yaml"
ICON = "docs/images/icon.svg"
# What deploy/install.yaml has where the name of the published image belongs.
PLACEHOLDER = "REGISTRY/topology-webhook"
CYCLONEDX = Path(sys.executable).with_name("cyclonedx-py")


def package_chart(program: Path, folder: Path, image: str, repository: str, version: str) -> Path:
    """Package the chart with helm, with what only the release knows. Returns the archive.

    image: the published image, without a tag. repository: the URL of the source's repository.
    """
    registry, name = split_image(image)
    about = {"home": repository, "sources": [repository], "icon": f"{repository}/raw/v{version}/{ICON}"}
    with tempfile.TemporaryDirectory() as scratch:
        chart = shutil.copytree(CHART, Path(scratch) / CHART.name)
        for field, value in (("registry", registry), ("repository", name)):
            if value:
                _set_once(chart / "values.yaml", f'  {field}: ""\n', f"  {field}: {value}\n")
        with (chart / "Chart.yaml").open("a") as file:
            yaml.safe_dump(about, file)
        Helm(program, Path(scratch)).run("package", str(chart), "--destination", str(folder))
    (archive,) = folder.glob("topology-webhook-*.tgz")
    return archive


def split_image(image: str) -> tuple[str, str]:
    """The host of an image's name, "" if it has none, and the rest.

    As containers' tools read it: the first part is a host if it has a dot or a port, or is `localhost`.
    """
    first, slash, rest = image.partition("/")
    is_host = slash and (first == "localhost" or "." in first or ":" in first)
    return (first, rest) if is_host else ("", image)


def _set_once(path: Path, line: str, new: str) -> None:
    text = path.read_text()
    if text.count(line) != 1:
        raise ValueError(f"{path} does not have the line {line!r} once")
    path.write_text(text.replace(line, new))


def write_manifests(folder: Path, image: str) -> Path:
    """Write deploy/install.yaml with the published image's name."""
    text = MANIFESTS.read_text()
    if PLACEHOLDER not in text:
        raise ValueError(f"{MANIFESTS} does not name the image {PLACEHOLDER}")
    path = folder / "install.yaml"
    path.write_text(text.replace(PLACEHOLDER, image))
    return path


def write_sbom(folder: Path, installation: Installation, version: str) -> Path:
    """Write a CycloneDX SBOM of the installed requirements."""
    path = folder / f"topology-webhook-{version}.cdx.json"
    options = ("--output-reproducible", "--output-format", "JSON", "--pyproject", "pyproject.toml")
    run(CYCLONEDX, "environment", *options, "--output-file", path, installation.python)
    return path


def write_checksums(folder: Path, files: Iterable[Path]) -> Path:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    path = folder / "SHA256SUMS"
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))
    path.write_text("".join(lines))
    return path
