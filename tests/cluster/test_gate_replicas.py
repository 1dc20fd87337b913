"""Three replicas, of which one places: what becomes of gated pods when it dies in the middle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine, machines, publish
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

EPOCH = "topology-webhook.dev/epoch"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWebhook]:
    """A leader counts as dead after three seconds."""
    values = tmp_path_factory.mktemp("values") / "values.yaml"
    values.write_text(
        "settings: {gate: always, leaseDurationSeconds: 3, renewDeadlineSeconds: 2, retryPeriodSeconds: 0.5}\n"
        "webhook: {timeoutSeconds: 1}\n"
    )
    with local_webhook(control_plane, replicas=3, values=values) as webhook:
        yield webhook


def test_when_the_leader_is_killed_the_next_one_fences_its_pods_and_goes_on(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    # 20 nodes of 4 NUMA nodes of 16 CPUs: room for 160 pods of 8
    fleet = machines(20, 4, prefix="gate")
    known(*(Machine(one.name, free=(0,) * 4, labels=one.labels) for one in fleet))
    count = 170
    control_plane.api.in_parallel(partial(pods.create, pod(f"p{number:03}")) for number in range(count))
    assert len(pods.gated()) == count
    control_plane.api.in_parallel(partial(publish, control_plane.api, one) for one in fleet)
    control_plane.wait_for("some to go", lambda: len(pods.gated()) < count - 10)
    (leader,) = webhook.marked
    leader.process.kill()
    left = pods.gated()
    assert len(left) > count - 160
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 160)
    raws = pods.all()
    assert len(pods.gated()) == count - 160
    assert all(EPOCH in raws[name]["metadata"]["annotations"] for name in pods.gated() & left)
    assert overcommitted(control_plane, raws.values()) == {}
    leader.start(leader.backend)
    leader.wait_until_ready()


def test_when_the_next_leader_dies_as_soon_as_it_leads_the_third_one_goes_on(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    # 10 nodes of 4 NUMA nodes of 16 CPUs: room for 80 pods of 8
    fleet = machines(10, 4, prefix="gate")
    known(*(Machine(one.name, free=(0,) * 4, labels=one.labels) for one in fleet))
    count = 90
    control_plane.api.in_parallel(partial(pods.create, pod(f"p{number:03}")) for number in range(count))
    control_plane.api.in_parallel(partial(publish, control_plane.api, one) for one in fleet)
    control_plane.wait_for("some to go", lambda: len(pods.gated()) < count - 5)
    (first,) = webhook.marked
    first.process.kill()
    control_plane.wait_for("another leader", lambda: webhook.marked not in ([], [first]))
    (second,) = webhook.marked
    second.process.kill()
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 80)
    assert len(pods.gated()) == count - 80
    assert overcommitted(control_plane, pods.all().values()) == {}
    for replica in (first, second):
        replica.start(replica.backend)
        replica.wait_until_ready()
