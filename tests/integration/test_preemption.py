"""Pods of lower priority end for those that wait, on the real control plane with simulated kubelets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, SINGLE, Pods, is_gated, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.preempting import fill, let_end, of, priority_classes
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

__all__ = ["priority_classes"]  # a fixture

# k0 ── NUMA 0 [8]  NUMA 1 [8], rack r0; k1, k2 likewise, rack r1
FLEET = [
    even_machine(f"k{number}", cpus=8, labels={ZONE_LABEL: "z0", RACK_LABEL: rack})
    for number, rack in enumerate(("r0", "r1", "r1"))
]
LAG = 3.0
"""Seconds after which an exporter shows a change."""


@pytest.fixture(scope="module")
def machines(control_plane: ControlPlane) -> Iterator[Kubelets]:
    with topology_of_racks(control_plane), kubelets(control_plane, FLEET, lag=LAG) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, machines: Kubelets) -> Iterator[LocalWebhook]:
    del machines
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    pods = Pods(control_plane, namespace)
    wait_until_known(pods, len(FLEET))
    yield pods
    control_plane.delete_namespace(namespace)


def condition(raw: dict[str, Any]) -> tuple[str, str]:
    found = (one for one in raw["status"].get("conditions", ()) if one["type"] == "DisruptionTarget")
    return next(((one["status"], one["reason"]) for one in found), ("", ""))


def test_a_pod_frees_a_numa_node_though_the_sums_fit_and_no_other_pod_gets_its_place(pods: Pods) -> None:
    # k0 ── NUMA 0 [8-5]  NUMA 1 [8-5]: 6 CPUs are free, in no NUMA node.
    names = fill(pods, "k0", cpu=5, slow=True)
    pods.create(of("high", "high", 6, on="k0"))
    victims: dict[str, dict[str, Any]] = {}

    def deleted() -> bool:
        victims.update({name: raw for name, raw in pods.all().items() if "deletionTimestamp" in raw["metadata"]})
        return bool(victims)

    pods.plane.wait_for("a victim", deleted)
    pods.create(of("rival", "high", 3, on="k0"))  # fits in NUMA node 1 of k0 now; the node is held
    pods.wait_until_says("high", "1 lower-priority pod on node k0 must terminate first")
    assert len(victims) == 1
    said = ("True", "PreemptionByTopologyWebhook")
    pods.plane.wait_for("its condition", lambda: {condition(pods.get(name)) for name in victims} == {said})
    let_end(pods, *names)
    pods.wait_until_bound("high")
    assert victims.keys() <= set(names)
    (victim,) = victims
    pods.wait_until_told(victim, "Preempted", "preempted by pod high of priority 100")
    pods.wait_until_told("high", "Preempting", "preempts 1 lower-priority pod on k0")
    assert set(pods.all()) == {*names, "high", "rival"} - {victim}
    pods.plane.wait_for("it to run", lambda: pods.get("high")["status"]["phase"] == "Running")
    pods.wait_until_bound("rival")


def test_a_gang_frees_a_rack_and_starts_whole(pods: Pods) -> None:
    # r0: k0 is full of pods of middle priority; r1: k1, k2 are full of low ones
    kept = fill(pods, "k0", priority="middle")
    names = fill(pods, "k1", "k2", slow=True)
    annotations = {
        POD_GROUP_NAME: "train",
        MIN_MEMBER: "4",
        **RACKS,
    }
    members = [f"train-{rank}" for rank in range(4)]
    for name in members:
        pods.create(of(name, "high", annotations=annotations))
    pods.wait_until_says("train-0", "4 lower-priority pods on 2 nodes (k1, k2) must terminate first")
    let_end(pods, *names[:3])
    time.sleep(3 * LAG)
    assert pods.gated() == set(members), "three of four have room"
    let_end(pods, names[3])
    pods.wait_until_bound(*members)
    assert set(pods.all()) == {*kept, *members}
    assert {pods.bound()[name] for name in members} == {"k1", "k2"}


def test_a_budget_keeps_its_pods_as_long_as_others_can_end(pods: Pods) -> None:
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}}
    path = f"/apis/policy/v1/namespaces/{pods.namespace}/poddisruptionbudgets"
    pods.plane.api.create(path, {"metadata": {"name": "kept"}, "spec": budget})
    for name, labels in {"a": {"app": "kept"}, "b": {"app": "kept"}, "c": {}}.items():
        raw = of(name, "low" if labels else "middle", on="k0" if name != "c" else "k1")
        raw["metadata"]["labels"] = labels
        pods.create(raw)
    fill(pods, "k2", priority="high")
    pods.create(of("d", "high", on="k1"))
    pods.wait_until_bound("a", "b", "c", "d")
    pods.create(of("high", "high"))
    pods.wait_until_bound("high")
    assert {"a", "b", "d"} <= pods.all().keys(), "the pod of middle priority ended, which no budget keeps"
    assert "c" not in pods.all()
    # Now nothing else is left: the budget is violated, as kube-scheduler does.
    pods.create(of("last", "high"))
    pods.wait_until_bound("last")
    assert len({"a", "b"} & pods.all().keys()) == 1
    pods.wait_until_told("last", "Preempting", "1 of them against a PodDisruptionBudget")


def test_a_pod_whose_class_never_preempts_waits(pods: Pods) -> None:
    names = fill(pods, "k0", "k1", "k2")
    pods.create(of("polite", "polite"))
    pods.create(of("high", "high"))
    pods.wait_until_bound("high")
    assert is_gated(pods.get("polite"))
    assert len(pods.all().keys() & set(names)) == len(names) - 1
    assert "lower priority" not in pods.get("polite")["metadata"]["annotations"][PLACEMENT]


def test_the_next_leader_ends_no_more_pods(pods: Pods, webhook: LocalWebhook) -> None:
    names = fill(pods, "k0", "k1", "k2")
    pods.create(of("high", "high", grace=2))
    pods.plane.wait_for("its node", lambda: pods.get("high")["status"].get("nominatedNodeName"))
    (leader,) = webhook.leaders
    leader.process.kill()
    leader.start_again()
    pods.wait_until_bound("high")
    assert len(pods.all().keys() & set(names)) == len(names) - 1


def test_the_next_leader_holds_the_place_of_a_workloads_gang_while_it_reads_the_owner(
    pods: Pods, webhook: LocalWebhook
) -> None:
    # r0: k0 is full of pods that stay; r1: k1, k2 are full of low ones
    fill(pods, "k0", priority="high")
    names = fill(pods, "k1", "k2", slow=True)
    template: dict[str, Any] = of("", "high")
    labels = {"app": "g"}
    template["metadata"] = {"labels": labels, "annotations": {**SINGLE, **RACKS, MIN_MEMBER: "4"}}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    pods.plane.api.create(path, {"metadata": {"name": "g"}, "spec": spec})
    pods.plane.wait_for("the nominations", lambda: len(_nominated(pods)) == 4)
    pods.plane.wait_for("the evictions", lambda: _all_end(pods, names))
    pods.create(of("rival", "high"))
    (leader,) = webhook.leaders
    leader.process.kill()
    let_end(pods, *names)
    leader.start_again()
    pods.plane.wait_for("the gang to be bound", lambda: len([n for n in pods.bound() if n.startswith("g-")]) == 4)
    assert "rival" in pods.gated()


def _all_end(pods: Pods, names: list[str]) -> bool:
    return all("deletionTimestamp" in pods.get(name)["metadata"] for name in names)


def _nominated(pods: Pods) -> list[str]:
    return [name for name, raw in pods.all().items() if raw["status"].get("nominatedNodeName")]
