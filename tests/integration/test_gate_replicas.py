"""Three replicas: gated pods when the leader dies in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, gated_crowd, in_the_middle
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

EPOCH = "topology-webhook.dev/epoch"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    # Calls of a leader that has died should fail soon. A pod whose review is late is not gated, and 170 come at once.
    timeouts = {"timeoutSeconds": 30, "bindTimeoutSeconds": 1}
    values = {"settings": {"gate": "Always", **QUICK_LEASE}, "webhook": timeouts}
    with local_webhook(control_plane, replicas=3, values=values) as webhook:
        yield webhook


def test_when_the_leader_is_killed_the_next_one_fences_its_pods_and_goes_on(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    count = 170
    fleet = gated_crowd(pods, known, nodes=20, count=count)  # room for 160
    (leader,) = webhook.leaders
    in_the_middle(pods, fleet, leader.process.kill)
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 160)
    raws = pods.all()
    assert len(pods.gated()) == count - 160
    assert all(EPOCH in raws[name]["metadata"]["annotations"] for name in pods.gated())
    assert overcommitted(control_plane, raws.values()) == {}
    leader.start_again()


@pytest.mark.long
def test_when_the_next_leader_dies_as_soon_as_it_leads_the_third_one_goes_on(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    count = 90
    fleet = gated_crowd(pods, known, nodes=10, count=count)  # room for 80
    (first,) = webhook.leaders
    in_the_middle(pods, fleet, first.process.kill)
    control_plane.wait_for("another leader", lambda: webhook.leaders not in ([], [first]))
    (second,) = webhook.leaders
    second.process.kill()
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 80)
    assert len(pods.gated()) == count - 80
    assert overcommitted(control_plane, pods.all().values()) == {}
    for replica in (first, second):
        replica.start_again()
