"""For tests in every folder: the control plane's fixtures (one a session), and hypothesis without a clock."""

from hypothesis import settings

pytest_plugins = ["tests.cluster.fixtures"]

# How long an example takes says nothing on a machine that does other things meanwhile.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
