"""python -m tests.browser.screenshots: renew the pictures of docs/page.md.

They are of the cluster of 20 nodes in `clusters.py`, so that two runs differ only if the page does.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

from tests.browser.clusters import snapshot
from tests.browser.page_process import page_of
from tests.browser.session import chromium_browser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
SHOTS: Final[Mapping[str, tuple[Literal["light", "dark"], str]]] = {
    "page-domains.png": ("light", "/?in=zone-0&in=rack-0"),
    "page-node.png": ("dark", "/nodes/node-0003"),
}
"""Color scheme and path of each."""


def take(browser: Browser, folder: Path) -> None:
    """Take all pictures into the folder."""
    with TemporaryDirectory() as scratch:
        file = snapshot(Path(scratch), 20)
        with page_of("--cluster", str(file)) as address:
            for name, (scheme, path) in SHOTS.items():
                with browser.new_context(viewport={"width": 1280, "height": 640}, color_scheme=scheme) as context:
                    page = context.new_page()
                    page.goto(address + path)
                    page.locator("header .cluster").evaluate("element => { element.textContent = 'cluster.yaml'; }")
                    page.screenshot(path=folder / name)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with chromium_browser() as chromium:
        take(chromium, IMAGES)
