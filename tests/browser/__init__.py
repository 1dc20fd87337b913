"""A real browser for the tests of the page: Chromium and axe-core from npm packages, driven by Playwright."""
