"""python -m tests.release [--tag vX.Y.Z] [--image NAME] [--repository URL]: all of a release that needs no registry.

1. Compare the versions of pyproject.toml, the chart and the tag.
2. Build the wheel and the source distribution.
3. Install the wheel with the locked requirements into a clean environment, prune it as the image is pruned, and run it.
   Its review of the example must be that of the checkout.
4. Build the archives and the manifest of kubectl's plugin for krew.
5. Package the chart; write the manifests, the SBOM, the release notes and the checksums.
6. Try the scripts by which the release workflow publishes what this leaves in dist/ (`publishing.py`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chart.helm import RefusedError
from tests.cluster.assets import AssetError, find_assets
from tests.cluster.build import BuildFailedError
from tests.cluster.up import tell
from tests.cluster.webhook_process import PROGRAM
from tests.release.artifacts import package_chart, write_checksums, write_manifests, write_sbom
from tests.release.distributions import EXAMPLE, CommandFailedError, Installation, build, run
from tests.release.krew_plugin import PLATFORMS, PYTHONS, Platform, build_archive, write_manifest
from tests.release.publishing import Publishing
from tests.release.version import ROOT, VersionError, notes, version

if TYPE_CHECKING:
    from collections.abc import Iterator

DIST = ROOT / "dist"
IMAGE = "registry.example/topology-webhook"
REPOSITORY = "https://source.example/topology-webhook"


def main() -> int:
    """Build and check everything. 0: dist/ is ready; 1: a step failed."""
    options = parser().parse_args()
    try:
        dry_run(options.tag, options.image, options.repository)
    except (AssetError, BuildFailedError, CommandFailedError, RefusedError, VersionError) as error:
        tell(f"error: {error}")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.release", description="A release without the registries.")
    top.add_argument("--tag", help="tag that is released; the version and the changelog must have it")
    top.add_argument("--image", default=IMAGE, help="image that the chart and the manifests name")
    top.add_argument("--repository", default=REPOSITORY, help="URL of the repository whose release page has the files")
    return top


def dry_run(tag: str | None, image: str, repository: str) -> None:
    """The steps of the module's docstring."""
    number = version(tag)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    tell(f"version {number}: wheel and source distribution")
    wheel = build(DIST)
    with tempfile.TemporaryDirectory() as scratch:
        tell("clean environment: locked requirements, wheel")
        installation = Installation(Path(scratch) / "venv", wheel)
        for line in installation.prune().splitlines():
            tell(line)
        check(installation)
        tell(f"it has {installation.size() / 1e6:.0f} MB, runs, and reviews the example as the checkout does")
        write_sbom(DIST, installation, number)
    write_manifest(DIST, number, list(plugins(wheel, number)), f"{repository}/releases/download/v{number}")
    helm = find_assets(tell)["helm"]
    package_chart(helm, DIST, image, repository, number)
    write_manifests(DIST, image)
    (DIST / "release-notes.md").write_text(notes(number if tag else "Unreleased"))
    write_checksums(DIST, list(DIST.iterdir()))
    publishing = Publishing(f"v{number}", image)
    with tempfile.TemporaryDirectory() as scratch:
        publishing.run(DIST, Path(scratch), helm, tell)
    tell(f"not tried, because they are others' actions: {', '.join(publishing.left_out)}")
    for file in sorted(DIST.iterdir()):
        tell(f"dist/{file.name}: {file.stat().st_size:,} bytes")


def plugins(wheel: Path, number: str) -> Iterator[tuple[Platform, Path]]:
    """Build the archive of kubectl's plugin for each platform."""
    for platform in PLATFORMS:
        tell(f"kubectl's plugin for {platform.os} {platform.arch}, with the libraries for Python {', '.join(PYTHONS)}")
        with tempfile.TemporaryDirectory() as scratch:
            yield platform, build_archive(DIST, Path(scratch), wheel, number, platform)


def check(installation: Installation) -> None:
    """Run the installed program and compare it with the checkout's."""
    installation.import_all()
    if installation.try_out() != run(PROGRAM, *EXAMPLE):
        raise CommandFailedError(f"{' '.join(EXAMPLE)}: the wheel's answer differs from the checkout's")


if __name__ == "__main__":
    sys.exit(main())
