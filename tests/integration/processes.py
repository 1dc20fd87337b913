"""Replicas that must survive a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.webhook_process import LocalWebhook


@pytest.fixture(autouse=True)
def process_lives(webhook: LocalWebhook) -> Iterator[None]:
    """The process that runs after the test is the one that ran before it."""
    (replica,) = webhook.replicas
    process, pid = replica.process, replica.process.pid
    yield
    replica.process.require_running()
    assert replica.process is not process or process.pid == pid
