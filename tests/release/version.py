"""The version of a release: the same in pyproject.toml, the chart and the tag, and described in the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "topology-webhook"


class VersionError(ValueError):
    """Two files, or a file and the tag, disagree. The message names both."""


def version(tag: str | None = None) -> str:
    """The project's version. With a tag, whatever is released under it must carry its version."""
    project = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for field in ("version", "appVersion"):
        if chart[field] != project:
            raise VersionError(f"Chart.yaml says {field} {chart[field]}, but pyproject.toml says {project}.")
    if tag is not None:
        if tag != f"v{project}":
            raise VersionError(f"The tag is {tag}, but pyproject.toml says {project}. Use v{project}.")
        notes(project)
    return project


def notes(heading: str) -> str:
    """The section of CHANGELOG.md under this heading, `Unreleased` or a version."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[{re.escape(heading)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    if found is None:
        raise VersionError(f"CHANGELOG.md has no heading `## [{heading}]`. Rename `## [Unreleased]` to it.")
    return found[1].strip() + "\n"
