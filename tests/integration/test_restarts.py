"""A short round of restarts. `python -m tests.cluster.restarts` runs long ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.cluster.restarts import play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SEED = int(os.environ.get("TOPOLOGY_WEBHOOK_TEST_SEED") or 1)
"""Set the variable to play another round."""
RESTARTS = 3


def test_with_everything_restarted_at_random_moments_the_end_state_is_the_same(
    programs: Mapping[str, Path], record_property: Callable[[str, object], None]
) -> None:
    outcome = play(programs, SEED, RESTARTS)
    record_property("restarts", str(outcome))
    assert outcome.good, outcome
