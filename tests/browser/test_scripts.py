"""The scripts in webhook/page/static are those of the packages that package-lock.json pins."""

from __future__ import annotations

from pathlib import Path

from tests.browser.build import SCRIPTS, find_browser
from tests.cluster.up import tell

STATIC = Path(__file__).parents[2] / "webhook" / "page" / "static"


def test_the_page_contains_its_packages_scripts_unchanged() -> None:
    folder = find_browser(tell).scripts
    for name in (Path(script).name for script in SCRIPTS):
        assert (STATIC / name).read_bytes() == (folder / name).read_bytes()
    assert {path.name for path in STATIC.glob("*.min.js")} == {Path(script).name for script in SCRIPTS}
