"""Runs the command line of kubectl's plugin with the libraries beside this file."""

import sys
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parent / "lib"

# What is compiled for this version of Python first, then what every version shares.
sys.path[:0] = [str(LIBRARIES / "{}.{}".format(*sys.version_info)), str(LIBRARIES / "any")]

from webhook.cli.app import kubectl_main  # noqa: E402 # found in the folders above

kubectl_main()
