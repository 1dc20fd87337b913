"""A short round of restarts; `python -m tests.cluster.restarts` plays long ones."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from tests.cluster.restarts import play

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

SEED = int(os.environ.get("TOPOLOGY_WEBHOOK_TEST_SEED") or random.SystemRandom().randrange(10_000))
"""Set the variable to repeat a round."""
RESTARTS = 6


def test_with_everything_restarted_at_random_moments_the_end_state_is_the_same(
    programs: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = play(programs, SEED, RESTARTS)
    with capsys.disabled():
        print(f"\n{outcome}")  # noqa: T201 - the seed
    assert outcome.good, outcome
