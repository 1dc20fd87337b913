"""Gangs of 64 pods and two replicas: each gang gets one rack, whichever replica leads or dies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod, wait_until_known
from tests.cluster.mixed_load import RACKS, racks_known
from tests.cluster.nodes import RACK_LABEL, machines
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

SIZE = 64


@pytest.fixture
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    """failurePolicy Fail: no member is admitted without a review."""
    values = {
        "settings": QUICK_LEASE,
        "webhook": {"timeoutSeconds": 2, "failurePolicy": "Fail", "bindFailurePolicy": "Fail"},
    }
    with racks_known(control_plane), local_webhook(control_plane, replicas=2, values=values) as webhook:
        yield webhook


def test_of_two_groups_of_64_one_goes_whole_though_the_leader_dies_and_the_other_when_it_ends(
    webhook: LocalWebhook, create_machines: Callable[..., None], control_plane: ControlPlane, namespace: str
) -> None:
    # rack-0 ── 16 nodes ── 4 NUMA nodes of 16 CPUs each: 64
    # rack-1 ── 12 nodes                                : 48, too few for either
    pods = Pods(control_plane, namespace)
    fleet = machines(28, 4, prefix="gang")
    create_machines(*fleet)
    wait_until_known(pods, len(fleet))
    mixed = [_member(group, number) for number in range(SIZE) for group in ("a", "b")]
    control_plane.api.in_parallel(partial(pods.create, raw) for raw in mixed)
    control_plane.wait_for("some to go", lambda: len(pods.gated()) < 2 * SIZE)
    (leader,) = webhook.leaders
    leader.process.kill()
    control_plane.wait_for("one of them to be bound", lambda: len(pods.bound()) >= SIZE)
    first = next(iter(pods.bound())).partition("-")[0]
    second = "b" if first == "a" else "a"
    assert set(pods.bound()) == {f"{first}-{number}" for number in range(SIZE)}
    assert pods.gated() == {f"{second}-{number}" for number in range(SIZE)}
    assert _racks(pods, first) == {"rack-0"}
    assert overcommitted(control_plane, pods.all().values()) == {}
    pods.wait_until_says(f"{second}-0", "waiting: gang")
    leader.start_again()
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(pods.delete, list(pods.bound())))
    control_plane.wait_for("the other to be bound", lambda: len(pods.bound()) == SIZE)
    assert _racks(pods, second) == {"rack-0"}
    assert overcommitted(control_plane, pods.all().values()) == {}


def _member(group: str, number: int) -> dict[str, Any]:
    asked = {"pod-group-name": group, "topology-webhook.dev/min-member": str(SIZE), **RACKS}
    return pod(f"{group}-{number}", cpu=16, annotations=asked)


def _racks(pods: Pods, group: str) -> set[str]:
    """The racks of a gang's pods."""
    nodes = {node for name, node in pods.bound().items() if name.startswith(f"{group}-")}
    labels = [pods.plane.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"] for node in nodes]
    return {found[RACK_LABEL] for found in labels}
