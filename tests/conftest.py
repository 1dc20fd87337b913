"""For tests in every folder: the control plane (one a session), the browser (one a file), hypothesis, and long tests.

Hypothesis runs without clock and chance. Tests that are marked `long` run with TOPOLOGY_WEBHOOK_TEST_LONG=1 only.
"""

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.browser.session", "tests.cluster.fixtures"]

# How long an example takes says nothing on a machine that does other things meanwhile. What is drawn depends on the
# test alone: `make test` finds today what it found yesterday, and `make fuzz` looks for what it did not.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is `long`, except in `make test-long`."""
    if item.get_closest_marker("long") and not os.environ.get("TOPOLOGY_WEBHOOK_TEST_LONG"):
        pytest.skip("over a minute: `make test-long` runs it")
