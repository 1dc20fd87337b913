"""Which tasks of the leader run in which mode."""

from typing import Any

import pytest

from webhook.app.clients import Clients
from webhook.app.service import Service
from webhook.app.settings import Settings
from webhook.kube.client import Client
from webhook.state.rules import Mode


def tasks(**settings: Any) -> set[str]:
    client: Any = Client.__new__(Client)
    service = Service(Settings(**settings), Clients(client, client, client, client))
    return {type(run.__self__).__name__ for run in service._runnables.background() if hasattr(run, "__self__")}


@pytest.mark.parametrize("mode", ["Observe", "Off"])
def test_where_nothing_is_enforced_gates_are_removed_and_events_written(mode: Mode) -> None:
    assert tasks(mode=mode, repair="Gang") == {"LeaderRunnables", "GateRemoval"}


def test_what_is_enforced_is_written_and_no_gate_is_removed_otherwise() -> None:
    found = tasks(mode="Enforce")
    assert {"PlacementController", "StatusReporter", "PodGroupKeeper", "AllocationCorrections", "StuckPods"} <= found
    assert "GateRemoval" not in found


def test_what_a_setting_disables_does_not_run() -> None:
    assert "GangRepair" in tasks(repair="Gang")
    assert "GangRepair" not in tasks(repair="Pod")
