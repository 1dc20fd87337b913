"""The control plane's fixtures, for tests in every folder: one session, one control plane."""

pytest_plugins = ["tests.cluster.fixtures"]
