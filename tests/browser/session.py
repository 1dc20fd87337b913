"""Chromium, started once per test file; a new page for each test, on which no error may occur."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.build import find_browser
from tests.cluster.up import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page

# Tests run in containers as root, where Chromium's own sandbox does not work; it opens no page but the one under test.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]
_PATIENCE_SECONDS = 60
"""For what a page waits for. It is there within a second on an idle machine."""

Violations = list[dict[str, Any]]


@contextlib.contextmanager
def chromium_browser() -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 # half a second, and few sessions need it

    assets = find_browser(tell)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=assets.chromium, env={**os.environ, **assets.environment}, args=_ARGUMENTS
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for the tests of a file: while Playwright runs, its thread counts as running an event loop."""
    with chromium_browser() as browser:
        yield browser


@pytest.fixture
def browser_page(chromium: Browser) -> Iterator[Page]:
    """A new page; fails on an error in its scripts, or on what the Content-Security-Policy blocks."""
    errors: list[str] = []
    with chromium.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE_SECONDS * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if _is_ours(message) else None)
        yield page
    assert errors == []


def _is_ours(message: ConsoleMessage) -> bool:
    """Whether it is an error, but not that of a server which a test has ended."""
    # htmx logs the EventSource's own Event at each end of its connection.
    return message.type == "error" and "net::ERR_" not in message.text and message.text != "[object Event]"


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """Finds what axe-core objects to on a page: a line for each rule, with the elements."""
    script = find_browser(tell).axe.read_text()

    def check(page: Page) -> list[str]:
        page.evaluate(script)
        violations: Violations = page.evaluate("axe.run()")["violations"]
        return [f"{each['id']}: {each['help']}: {[node['html'] for node in each['nodes']]}" for each in violations]

    return check
