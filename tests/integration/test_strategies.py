"""Strategies of gangs on the real control plane: each gang names its own, whatever the service's setting.

zone-0 ── rack-0 rack-1      zone-1 ── rack-2 rack-3      [racks of five nodes, one pod a node]
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import rack_of, webhook
from tests.integration.members import create_all, member

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

__all__ = ["webhook"]  # a fixture

STRATEGY = "topology-webhook.dev/strategy"
IN_ZONE = {"kai.scheduler/topology-required-placement": "zone"}


def test_a_gang_names_its_strategy_and_a_pod_without_a_gang_does_not_wait(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    known(
        *(
            Machine(
                f"n-{rack}-{number}",
                free=(16,),
                labels={RACK_LABEL: f"rack-{rack}", ZONE_LABEL: f"zone-{rack // 2}"},
            )
            for rack in range(4)
            for number in range(5)
        )
    )
    for gang, strategy, counts in (("even", "Balanced", [3, 3]), ("packed", "BinPack", [5, 1])):
        create_all(pods, gang, 6, **IN_ZONE, **{STRATEGY: strategy})
        names = [f"{gang}-{number}" for number in range(6)]
        pods.wait_until_bound(*names)
        assert sorted(Counter(rack_of(pods, name) for name in names).values(), reverse=True) == counts

    with pytest.raises(
        ApiError, match=r'"balanced" is not a strategy\. Write one of BinPack, Spread, Balanced, Nearest'
    ):
        pods.create(member("bad", 0, 2, cpu=16, **{STRATEGY: "balanced"}))
    # A strategy alone asks for nothing.
    alone = pod("alone")
    alone["metadata"]["annotations"] = {STRATEGY: "Balanced"}
    assert pods.create(alone)["metadata"]["annotations"] == {STRATEGY: "Balanced"}
    pods.wait_until_bound("alone")
