"""Chromium, started once per test session, and a new page for each test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.build import find_browser
from tests.cluster.up import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# Tests run in containers as root, where Chromium's own sandbox does not work; it opens no page but the one under test.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    assets = find_browser(tell)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=assets.chromium, env={**os.environ, **assets.environment}, args=_ARGUMENTS
        )
        yield browser
        browser.close()
