"""python -m tests.browser.screenshots: renew the pictures of README.md and docs/page.md.

They are of the example snapshot of a busy cluster, so that two runs differ only if the page does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tests.browser.page_process import page_of
from tests.browser.session import chromium_browser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).parents[2]
IMAGES: Final = ROOT / "docs" / "images"
BUSY: Final = ROOT / "examples" / "snapshots" / "busy.yaml"
SHOTS: Final[Mapping[str, tuple[Literal["light", "dark"], int, int, str]]] = {
    "page-map.png": ("light", 1280, 660, "/?fit=4+cpu,+1+gpu&numa=SingleNUMANode&colours=gangs"),
    "page-domains.png": ("light", 1280, 720, "/domains?in=hall-1"),
    "page-node.png": ("dark", 1280, 640, "/nodes/dra-52"),
    "page-phone.png": ("light", 390, 720, "/waiting"),
}
"""Color scheme, width, height and path of each."""


def take(browser: Browser, folder: Path) -> None:
    """Take all pictures into the folder."""
    with page_of("--cluster", str(BUSY)) as address:
        for name, (scheme, width, height, path) in SHOTS.items():
            with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
                page = context.new_page()
                page.goto(address + path)
                page.locator("header .cluster").evaluate("element => { element.textContent = 'busy.yaml'; }")
                page.screenshot(path=folder / name)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with chromium_browser() as chromium:
        take(chromium, IMAGES)
