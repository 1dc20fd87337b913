"""The docs say what the code says: names, reasons, commands, targets, links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.cert_manager_build import version as cert_manager_version
from tests.cluster.versions import module_of, pinned, versions
from tests.pages import console_lines
from webhook.engine.reason import REASONS
from webhook.model import names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CHART = ROOT / "charts" / "topology-webhook"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    CHART / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# Not names that anybody writes or reads: a prefix, and a value that stands beside its label.
NOT_NAMES = {"OUR_DOMAIN", "MANAGED_BY_KOORDINATOR"}


def prose(page: Path) -> list[str]:
    """The lines of a page that are not code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE).splitlines()


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = [line.lstrip("# ") for line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "name",
    [value for key, value in vars(names).items() if isinstance(value, str) and key.isupper() and key not in NOT_NAMES],
)
def test_every_annotation_label_and_attribute_is_documented(name: str) -> None:
    assert f"`{name}" in (ROOT / "docs" / "annotations.md").read_text()


def test_every_reason_code_is_documented_and_no_other() -> None:
    _, _, section = (ROOT / "docs" / "review.md").read_text().partition("## Reason codes")
    table, _, _ = section.partition("\n## ")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [reason.code for reason in REASONS]


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES for target in re.findall(r"`(?:KEEP=1 )?make ([a-z-]+)`", page.read_text())}
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_is_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def test_every_case_that_cannot_be_known_has_a_heading_and_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "unknowns.md").read_text()
    introduction, *cases = re.split(r"^## ", page, flags=re.MULTILINE)
    assert "|" not in page
    assert "`tests/" not in introduction
    for case in cases:
        *_, last = case.strip().splitlines()
        files = re.findall(r"`(tests/[\w/]+\.py)`", last)
        assert last.startswith("Tests: ")
        assert files
        assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_commands_of_a_page_run_as_written_in_order_in_a_fresh_shell(name: str, tmp_path: Path) -> None:
    """Those that need no cluster. tests/integration types the others."""
    lines = console_lines((ROOT / name).read_text())
    assert [line for line in lines if "PATH" in line] == ['export PATH="$PWD/.venv/bin:$PATH"']
    assert lines.index("make venv") + 1 == next(at for at, line in enumerate(lines) if "PATH" in line)
    asked = [line for line in lines if "--cluster examples/" in line and " page " not in line]  # it serves until Ctrl-C
    assert len(asked) > 1
    # 1: something fits nowhere now.
    typed = [line for line in lines if line.startswith("export ")] + [f"{line} || test $? = 1" for line in asked]
    # What `make venv` made, and the checkout.
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    fresh = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    script = "\n".join(["set -eux", *typed])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_no_command_of_the_readme_has_a_placeholder_but_those_of_the_installation() -> None:
    lines = [line for line in console_lines(README) if "REGISTRY" not in line]
    assert [line for line in lines if re.search(r"\b[A-Z]{4,}\b", line.replace("PATH", "").replace("PWD", ""))] == []
    files = {word for line in lines for word in re.findall(r"(?:examples|charts)/[\w./-]*", line)}
    assert {file for file in files if not (ROOT / file).exists()} == set()


def test_every_page_has_a_row_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    names = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {name for name in names if f"({name})" not in index} == set()


@pytest.mark.parametrize("page", ["compatibility.md", "production-readiness.md"])
def test_what_is_called_tested_names_tests_that_exist(page: str) -> None:
    named = re.findall(r"`(tests(?:/\w+)*(?:\.py)?)(?:::(\w+))?`", (ROOT / "docs" / page).read_text())
    assert named
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test


def test_the_versions_of_kubernetes_in_the_table_are_those_that_can_be_tested() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    rows = re.findall(r"^\| Kubernetes (\S+) \((\S+)\) \|", page, re.MULTILINE)
    releases = {version: pinned("k8s.io/kubernetes", module_of(version)) for version in versions()}
    assert rows == [(version, release.removeprefix("v")) for version, release in releases.items()]


def test_the_docs_name_the_cert_manager_that_the_tests_run() -> None:
    version = cert_manager_version().removeprefix("v")
    assert set(re.findall(r"cert-manager (\d+\.\d+\.\d+)", (ROOT / "docs" / "compatibility.md").read_text())) == {
        version
    }


def test_pictures_have_no_character_that_ends_a_statement_of_mermaid() -> None:
    pictures = [
        picture for page in PAGES for picture in re.findall(r"```mermaid\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(pictures) == 5
    assert [line for picture in pictures for line in picture.splitlines() if ";" in line or "#" in line] == []
