"""For tests in every folder: the control plane (one a session), the browser (one a file), hypothesis, and long tests.

Hypothesis runs without clock and chance, and with few examples. With TOPOLOGY_WEBHOOK_TEST_LONG=1, as in
`make test-long`, a property runs as many as it names, and the tests that are marked `long` run.
"""

import os
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["tests.browser.session", "tests.cluster.fixtures"]

# How long an example takes says nothing on a machine that does other things meanwhile. What is drawn depends on the
# test alone: `make test` finds today what it found yesterday, and `make fuzz` looks for what it did not.
settings.register_profile("long", deadline=None, derandomize=True, database=None)
# Half of hypothesis's default.
settings.register_profile("short", settings.get_profile("long"), max_examples=50)
LONG = bool(os.environ.get("TOPOLOGY_WEBHOOK_TEST_LONG"))
settings.load_profile("long" if LONG else "short")

SLOW_FIXTURES = {"archive", "chromium", "installation"}
"""What is downloaded, or takes a minute to make: a test that needs one of them is `long`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark before pytest applies `-m`."""
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("long")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property that names a number of examples runs no more than the profile allows."""
    test: Any = getattr(item, "obj", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    assert settings.default is not None
    if not LONG and own is not None and own.max_examples > settings.default.max_examples:
        test._hypothesis_internal_use_settings = settings(own, max_examples=settings.default.max_examples)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is `long`, except in `make test-long`."""
    if item.get_closest_marker("long") and not LONG:
        pytest.skip("over a minute: `make test-long` runs it")
