"""What a release has besides the wheel and the image: chart, manifests, SBOM, notes, checksums."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chart.helm import CHART, Helm
from tests.release.distributions import Installation, run
from tests.release.version import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

MANIFESTS = ROOT / "deploy" / "install.yaml"
# What deploy/install.yaml has where the name of the published image belongs.
PLACEHOLDER = "REGISTRY/topology-webhook"
CYCLONEDX = Path(sys.executable).with_name("cyclonedx-py")


def package_chart(program: Path, folder: Path) -> Path:
    """Package the chart with helm. Returns the archive."""
    with tempfile.TemporaryDirectory() as home:
        Helm(program, Path(home)).run("package", str(CHART), "--destination", str(folder))
    (archive,) = folder.glob("topology-webhook-*.tgz")
    return archive


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
