"""The docs as a site: every link works there, and a page loads nothing from other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with `strict`: a dead link, a dead anchor or a page outside of the navigation is an error."""
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet, which would turn `strict` off.
    command: list[str | Path] = [
        Path(sys.executable).with_name("mkdocs"),
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        folder,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_docs_and_the_readmes_are_on_the_site(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"overview", "chart", "contributing", "changelog"}
    assert pages - {page.stem for page in site.glob("*.html")} == set()


def test_a_link_to_an_example_leads_to_a_copy_of_it(site: Path) -> None:
    assert 'href="files/examples/snapshots/gpus.yaml"' in (site / "tutorial.html").read_text()
    assert (site / "files" / "examples" / "snapshots" / "gpus.yaml").is_file()


def test_lists_and_code_within_lists_are_rendered(site: Path) -> None:
    for page in site.glob("*.html"):
        prose = re.sub(r"<(pre|code).*?</\1>", "", page.read_text(), flags=re.DOTALL)
        assert re.findall(r"<p>[^<]*?(?:```|\n- |\n\d+\. |\n\|)[^<]*", prose) == [], page.name


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = r"""(?:<(?:script|img|link)[^>]*?\b(?:src|href)="|@import "|url\(["']?)((?:https?:)?//[^"')]+)"""
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    found = {target for file in files for target in re.findall(loaded, file.read_text())}
    assert found == set()
