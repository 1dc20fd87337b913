"""For tests in every folder: the control plane (one a session), the browser (one a file), and hypothesis.

Hypothesis runs without clock and chance.
"""

from hypothesis import settings

pytest_plugins = ["tests.browser.session", "tests.cluster.fixtures"]

# How long an example takes says nothing on a machine that does other things meanwhile. What is drawn depends on the
# test alone: `make test` finds today what it found yesterday, and `make fuzz` looks for what it did not.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
