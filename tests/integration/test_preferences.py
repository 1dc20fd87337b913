"""Preferred node affinity and soft taints between otherwise equal nodes, on the real control plane.

By name the first node would be taken: in no test it is the preferred one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

SOFT = "example.com/old"


@pytest.fixture(scope="module", params=["Always", "Never"], autouse=True)
def webhook(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[LocalWebhook]:
    """`always`: the leader picks the node. `never`: the scheduler picks it, by the user's weights and ours."""
    values = {"settings": {"gate": request.param}}
    with local_webhook(control_plane, values=values) as webhook:
        webhook.wait_until_called()
        yield webhook


def preferring(key: str, value: str, weight: int = 1) -> dict[str, Any]:
    """A node affinity."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    terms = [{"weight": weight, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def disks(*names: str) -> list[Machine]:
    """n0, n1, .. with one idle NUMA node and these disks."""
    return [Machine(f"n{number}", free=(16,), labels={"disk": disk}) for number, disk in enumerate(names)]


def test_a_pod_goes_to_the_preferred_of_equal_nodes(known: Callable[..., None], pods: Pods) -> None:
    known(*disks("hdd", "hdd", "ssd", "hdd"))
    pods.create(pod("a", affinity=preferring("disk", "ssd")))
    pods.wait_until_bound("a")
    assert pods.bound() == {"a": "n2"}
    assert pods.allocation("a") == ("n2", [0])
    # It fills the node: the next one has to do without.
    pods.create(pod("b", cpu=16, affinity=preferring("disk", "ssd", weight=100)))
    pods.wait_until_bound("b")
    assert pods.bound()["b"] in {"n0", "n1", "n3"}


def test_a_node_with_a_soft_taint_is_avoided_unless_it_is_tolerated(known: Callable[..., None], pods: Pods) -> None:
    # n0 has one, n1 and n2 two of which one is tolerated by b and c, n3 none
    old, slow = SOFT, "example.com/slow"
    taints = ((old,), (old, slow), (old, slow), ())
    known(*(Machine(f"n{number}", free=(16,), soft_taints=each) for number, each in enumerate(taints)))
    tolerations = [{"key": old, "operator": "Exists", "effect": "PreferNoSchedule"}]
    pods.create(pod("a", cpu=16))
    pods.wait_until_bound("a")
    assert pods.bound() == {"a": "n3"}
    pods.create(pod("b", cpu=16, tolerations=tolerations))
    pods.wait_until_bound("b")
    assert pods.bound()["b"] == "n0"
    pods.create(pod("c", cpu=16, tolerations=[{"operator": "Exists"}]))
    pods.wait_until_bound("c")
    assert pods.bound()["c"] in {"n1", "n2"}


def test_a_pod_that_is_left_to_the_scheduler_prefers_as_its_user_says(known: Callable[..., None], pods: Pods) -> None:
    known(*disks("hdd", "hdd", "hdd", "ssd"))
    port = [{"containerPort": 80, "hostPort": 80}]
    raw = pod("a", affinity=preferring("disk", "ssd"))
    raw["spec"]["containers"][0]["ports"] = port
    pods.create(raw)
    pods.wait_until_bound("a")
    assert pods.bound() == {"a": "n3"}
