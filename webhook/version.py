"""The version of the installed distribution, as every surface of the program shows it."""

from importlib.metadata import version

DISTRIBUTION = "topology-webhook"
VERSION = version(DISTRIBUTION)
