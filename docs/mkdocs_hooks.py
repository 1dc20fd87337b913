"""Hooks of MkDocs: the pages link to files of the repository as on the forge, and these links work on the site, too.

1. Pages outside of docs/, such as the README, become pages of the site.
2. Other files that a page links to, such as an example, are copied to the site. A link to a folder, or to a page that
   is not on the site, becomes its text.
3. Lists are indented as Python-Markdown expects it: by four spaces, where the forge takes the width of the marker.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT: Final = Path(__file__).resolve().parents[1]
_DOCS: Final = PurePosixPath("docs")
# Path in the repository -> path on the site.
_OUTSIDE: Final = {
    PurePosixPath("README.md"): "overview.md",
    PurePosixPath("CONTRIBUTING.md"): "contributing.md",
    PurePosixPath("CHANGELOG.md"): "changelog.md",
    PurePosixPath("SECURITY.md"): "security-policy.md",
    PurePosixPath("charts/topology-webhook/README.md"): "chart.md",
}
_HOMES: Final = {on_site: path for path, on_site in _OUTSIDE.items()}
_LINK: Final = re.compile(r"\[(?P<text>[^]\[]+)\]\((?!\w+:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE: Final = re.compile(r" *```")
_ITEM: Final = re.compile(r"(?:-|\d+\.) +")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and the files that pages link to."""
    for path, on_site in _OUTSIDE.items():
        files.append(File.generated(config, on_site, content=(_ROOT / path).read_text()))
    for file in files.documentation_pages():
        for target in _targets(file.content_string, _home(file.src_uri)):
            uri = _uri(target)
            if _is_on_site(target) and (_ROOT / target).is_file() and uri not in files.src_uris:
                files.append(File.generated(config, uri, abs_src_path=str(_ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links and the lists of a page."""
    home, folder = _home(page.file.src_uri), PurePosixPath(page.file.src_uri).parent

    def moved(link: re.Match[str]) -> str:
        target = _target(link["target"], home)
        if not _is_on_site(target):
            return link["text"]
        return f"[{link['text']}]({os.path.relpath(_uri(target), folder)}{link['anchor'] or ''})"

    return "\n".join(_four_spaces(_LINK.sub(moved, markdown).splitlines()))


def _home(uri: str) -> PurePosixPath:
    """The folder in the repository of a page of the site."""
    return _HOMES.get(uri, _DOCS / uri).parent


def _targets(markdown: str, home: PurePosixPath) -> Iterator[PurePosixPath]:
    return (_target(link["target"], home) for link in _LINK.finditer(markdown))


def _target(link: str, home: PurePosixPath) -> PurePosixPath:
    """The path in the repository that a link leads to."""
    return PurePosixPath(os.path.normpath(home / link))


def _is_on_site(target: PurePosixPath) -> bool:
    """Whether a file of the repository is on the site. One that does not exist is: MkDocs then reports the link."""
    if target in _OUTSIDE or target.is_relative_to(_DOCS):
        return True
    return target.suffix != ".md" and not (_ROOT / target).is_dir()


def _uri(target: PurePosixPath) -> str:
    """The path on the site of a file of the repository."""
    if target in _OUTSIDE:
        return _OUTSIDE[target]
    return str(target.relative_to(_DOCS)) if target.is_relative_to(_DOCS) else f"files/{target}".replace("/.", "/")


def _four_spaces(lines: list[str]) -> Iterator[str]:
    """What belongs to an item of a list, indented by four spaces instead of the width of its marker.

    After an item of several paragraphs, a blank line begins the next one.
    """
    width, paragraphs, in_code = 0, False, False
    for line in lines:
        if width and line.startswith(" " * width):
            yield f"    {line[width:]}"
            continue
        item = None if in_code else _ITEM.match(line)
        if item and paragraphs:
            yield ""
        yield line
        in_code ^= bool(_FENCE.match(line))
        paragraphs = width > 0 and not line
        width = item.end() if item else width if not line else 0
