"""The previous release: its chart, and its program in a virtual environment of its own, in the user's cache."""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.once import made_once, user_cache
from tests.release.distributions import Installation

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).with_name("previous")
(CHART,) = FOLDER.glob("topology-webhook-*.tgz")
(WHEEL,) = FOLDER.glob("topology_webhook-*.whl")
REQUIREMENTS = FOLDER / "runtime.txt"
VERSION = CHART.stem.removeprefix("topology-webhook-")


def find_program(tell: Callable[[str], None]) -> Path:
    """The program of the previous release; installed if the user's cache does not have it."""
    folder = made_once(user_cache() / "previous-release" / _key(), partial(_install, tell), tell)
    return folder / "bin" / "topology-webhook"


def _install(tell: Callable[[str], None], folder: Path) -> None:
    tell(f"installing release {VERSION} with its locked requirements")
    # Relocatable, because the folder gets its final name when it is complete.
    Installation(folder, WHEEL, REQUIREMENTS, "--relocatable", "--allow-existing")


def _key() -> str:
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for file in (WHEEL, REQUIREMENTS):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
