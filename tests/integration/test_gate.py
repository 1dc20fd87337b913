"""Pods behind the gate on the real control plane: which ones wait, when they are ungated, and for which node."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import NUMA, PLACEMENT, SPEC, Pods, gated_crowd, in_the_middle, is_gated, pod
from tests.cluster.nodes import Machine, publish, publish_all
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {"gate": "WhenNeeded", "schedulerNames": ["default-scheduler", "batch"]}
    with local_webhook(control_plane, values={"settings": settings}) as webhook:
        yield webhook


def test_a_pod_that_fits_nowhere_waits_and_goes_when_its_node_has_room(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [2]  NUMA 1 [4]      [free cpus of 16]
    known(Machine("n0", free=(2, 4)))
    created = pods.create(pod("a", cpu=8))
    assert is_gated(created)
    assert "affinity" not in created["spec"]
    assert created["metadata"]["annotations"][PLACEMENT].startswith("waiting: SingleNUMANode: none of 1 node fits now")
    pods.wait_until_told("a", "WaitingForPlacement")
    assert is_gated(pods.get("a"))
    publish(control_plane.api, Machine("n0", free=(2, 16)))
    pods.wait_until_bound("a")
    assert pods.allocation("a") == ("n0", [1])
    assert pods.get("a")["metadata"]["annotations"][PLACEMENT].startswith("placed on n0, NUMA 1\n")
    pods.wait_until_told("a", "Assigned")


def test_the_leader_counts_who_waits_and_who_was_ungated(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    (replica,) = webhook.replicas
    known(Machine("n0", free=(2, 2)))
    before = replica.metrics()
    pods.create(pod("a"))
    control_plane.wait_for("it to be seen", lambda: replica.metrics()["topology_webhook_gated_pods"] == 1)
    publish(control_plane.api, Machine("n0", free=(2, 16)))
    pods.wait_until_bound("a")
    control_plane.wait_for("it to be seen", lambda: replica.metrics()["topology_webhook_gated_pods"] == 0)
    counters = {
        'topology_webhook_pods_ungated_total{how="assigned"}',
        'topology_webhook_placement_decision_duration_seconds_count{unit="pod"}',
        "topology_webhook_gated_duration_seconds_count",
        "topology_webhook_placement_cycles_total",
    }

    def all_have_grown() -> bool:
        after = replica.metrics()
        return all(after.get(name, 0) > before.get(name, 0) for name in counters)

    control_plane.wait_for("it to be counted", all_have_grown)


def test_pods_of_a_scheduler_that_the_operator_names_are_placed_and_guarded_and_those_of_others_left_alone(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(2, 4)))
    assert is_gated(pods.create(pod("ours", schedulerName="batch")))
    others = pods.create(pod("others", schedulerName="other"))
    assert (is_gated(others), PLACEMENT in others["metadata"]["annotations"]) == (False, False)
    publish(control_plane.api, Machine("n0", free=(2, 16)))
    control_plane.wait_for("it to be placed", lambda: not is_gated(pods.get("ours")))
    assert pods.allocation("ours") == ("n0", [1])
    # No scheduler of these names runs here: the test binds as they would.
    for name in ("ours", "others"):
        target = {"kind": "Node", "name": "n0"}
        control_plane.api.create(f"{pods.path}/{name}/binding", {"metadata": {"name": name}, "target": target})
    assert pods.bound() == {"ours": "n0", "others": "n0"}
    assert NUMA not in pods.get("others")["metadata"]["annotations"]


def test_a_waiting_pod_goes_when_another_one_ends(known: Callable[..., None], pods: Pods) -> None:
    # n0 ── NUMA 0 [8]  NUMA 1 [2]
    known(Machine("n0", free=(8, 2)))
    pods.create(pod("a"))
    pods.wait_until_bound("a")
    assert is_gated(pods.create(pod("b")))
    assert is_gated(pods.create(pod("c")))
    pods.delete("a")
    pods.wait_until_bound("b")
    assert pods.allocation("b") == ("n0", [0])
    assert pods.gated() == {"c"}


def test_a_waiting_pod_that_asks_for_nothing_any_more_goes(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(2, 2)))
    assert is_gated(pods.create(pod("a")))
    control_plane.api.patch(f"{pods.path}/a", {"metadata": {"annotations": {SPEC: None}}})
    pods.wait_until_bound("a")


def test_what_the_user_requires_stays_and_the_node_is_added_to_every_term_of_a_controllers_pod(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(2, 2)))
    job = {"apiVersion": "example.com/v1", "kind": "Some", "name": "j", "uid": "0", "controller": True}
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
        {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for name, owners in {"a": [job], "bare": []}.items():
        raw = pod(name, cpu=4, affinity={"nodeAffinity": required})
        pods.create({**raw, "metadata": {**raw["metadata"], "ownerReferences": owners}})
    publish(control_plane.api, Machine("n0", free=(8, 2)))
    pods.wait_until_bound("a", "bare")
    (held,) = pods.get("a")["spec"]["affinity"]["nodeAffinity"].values()
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    assert held["nodeSelectorTerms"] == [{**term, **named} for term in terms]
    assert pods.get("bare")["spec"]["affinity"]["nodeAffinity"] == required
    assert pods.get("bare")["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n0"}


def test_a_pod_that_another_gate_holds_back_is_not_given_a_place_before(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(2, 2)))
    pods.create(pod("a", schedulingGates=[{"name": "example.com/quota"}]))
    pods.create(pod("b"))
    publish(control_plane.api, Machine("n0", free=(8, 2)))
    pods.wait_until_bound("b")
    pods.create(pod("c", cpu=2))
    assert NUMA not in pods.get("a")["metadata"]["annotations"]


def created_later(pods: Pods, raw: dict[str, Any]) -> bool:
    """Whether the pod would be younger than all others, in whole seconds of creation times."""
    now: str = pods.plane.api.create(f"{pods.path}?dryRun=All", raw)["metadata"]["creationTimestamp"]
    return all(other["metadata"]["creationTimestamp"] < now for other in pods.all().values())


def test_higher_priority_goes_first_then_age(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    (replica,) = webhook.replicas
    classes = {"high": 1000, "low": 10}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in classes.items():
        control_plane.api.create(path, {"metadata": {"name": f"{pods.namespace}-{name}"}, "value": value})
    try:
        known(Machine("n0", free=(2, 2)))
        for name, priority in (("l1", "low"), ("l2", "low"), ("h1", "high")):
            raw = pod(name, priorityClassName=f"{pods.namespace}-{priority}")
            control_plane.wait_for("a creation time of its own", partial(created_later, pods, raw))
            pods.create(raw)
        control_plane.wait_for(
            "all to be seen", lambda: replica.metrics()["topology_webhook_gated_pods"] == len(pods.all())
        )
        publish(control_plane.api, Machine("n0", free=(8, 8)))
        pods.wait_until_bound("h1", "l1")
        assert pods.gated() == {"l2"}
    finally:
        for name in classes:
            control_plane.api.delete(f"{path}/{pods.namespace}-{name}")


def test_hundreds_of_pods_go_at_once_and_none_shares_what_is_anothers(
    known: Callable[..., None],
    pods: Pods,
    control_plane: ControlPlane,
    webhook: LocalWebhook,
    record_property: Callable[[str, object], None],
) -> None:
    (replica,) = webhook.replicas
    count = 300
    fleet = gated_crowd(pods, known, nodes=40, count=count)  # room for 320
    began = time.monotonic()
    publish_all(control_plane.api, fleet)
    # Lists of so many pods, one after another, would take the API server's time from what is measured.
    control_plane.wait_for("all to go", lambda: replica.metrics()["topology_webhook_gated_pods"] == 0)
    took = time.monotonic() - began
    assert not pods.gated()
    record_property("gate", f"{count} gated pods went in {took:.2f} s: {count / took:.0f} a second")
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == count)
    raws: list[dict[str, Any]] = list(pods.all().values())
    assert overcommitted(control_plane, raws) == {}


def test_pods_may_go_away_at_any_moment(known: Callable[..., None], pods: Pods, control_plane: ControlPlane) -> None:
    known(Machine("n0", free=(2, 2)))
    for number in range(20):
        pods.create(pod(f"p{number:02}"))
    publish(control_plane.api, Machine("n0", free=(16, 16)))
    control_plane.api.delete(pods.path)
    control_plane.wait_for("no pod", lambda: not pods.all())
    for number in range(4):
        pods.create(pod(f"q{number}"))
    pods.wait_until_bound(*(f"q{number}" for number in range(4)))
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_a_process_that_is_killed_in_the_middle_leaves_nothing_undone(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    count = 90
    fleet = gated_crowd(pods, known, nodes=10, count=count)  # room for 80
    (replica,) = webhook.replicas
    in_the_middle(pods, fleet, replica.process.kill)
    replica.start_again()
    control_plane.wait_for("all that can go to be bound", lambda: len(pods.bound()) == 80)
    assert len(pods.gated()) == count - 80
    assert overcommitted(control_plane, pods.all().values()) == {}
