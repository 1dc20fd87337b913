"""Nodes named to the scheduler for pods whose binding was refused."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from webhook.admission.pod.affinity_patch import Constraint
from webhook.admission.pod.managed_fields import ManagedFields
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.controllers import nominator as nominate
from webhook.controllers.nominator import Nominator
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.names import MANAGED_FIELDS, NUMA_HINT
from webhook.model.rules import Rules

# a [9]  b [16]  c [2]      [free cpus]; the pods ask for 8
CLUSTER = cluster_snapshot(
    *(node(name=name) for name in "abc"), nrt(node="a", free=[9]), nrt(node="b", free=[16]), nrt(node="c", free=[2])
)


DENIED = {
    "type": "PodScheduled",
    "status": "False",
    "message": 'binding rejected: admission webhook "guard" denied the request: node c can no longer hold this pod',
}


class Cluster(PodWrites):
    """The pods p and q wait, unless the test says otherwise; what is named to the scheduler."""

    def __init__(self, assumed: str | None = None, annotations: Mapping[str, str] | None = None) -> None:
        self.error = ""
        self.waiting = {f"default/{name}": gated(name=name) for name in "pq"}
        for raw in self.waiting.values():
            raw["metadata"]["annotations"].update(annotations or {})
            raw["status"] = {"conditions": [DENIED]}
        self.named: list[tuple[str, str, str]] = []
        self._assumed_for = assumed

    def snapshot(self) -> ClusterSnapshot:
        return CLUSTER

    def waiting_pod(self, key: str, uid: str) -> Mapping[str, Any] | None:
        return self.waiting.get(key)

    def assumed_node(self, pod: str) -> str | None:
        return self._assumed_for

    async def nominate(self, key: str, uid: str, node: str) -> Outcome:
        self.named.append((key, uid, node))
        return Outcome.WRITTEN


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nominate, "_SETTLE_SECONDS", 0.0)


async def named(cluster: Cluster, *refusals: tuple[str, str], leads: bool = True) -> str:
    """The nodes that are named, one refusal (pod, node) being looked after before the next."""
    nominator = Nominator(cluster, cluster, Rules(), lambda: leads)
    running = asyncio.create_task(nominator.run())
    for pod, refused_by in refusals:
        nominator.refused(f"default/{pod}", pod, refused_by)
        for _ in range(10):
            await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return "".join(node for _, _, node in cluster.named)


async def test_the_best_node_that_can_take_the_pod_is_named() -> None:
    cluster = Cluster()
    assert await named(cluster, ("p", "c")) == "a"
    assert cluster.named == [("default/p", "p", "a")]


def preferring(name: str) -> dict[str, Any]:
    return {
        "weight": 100,
        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
    }


# d [9]  e [9]      [free cpus]
async def test_of_equal_nodes_that_is_named_which_the_user_prefers_not_which_was_best_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    equal = cluster_snapshot(*(node(name=name) for name in "de"), nrt(node="d", free=[9]), nrt(node="e", free=[9]))
    monkeypatch.setattr(Cluster, "snapshot", lambda _: equal)
    for ours, best in (((), "e"), ((preferring("e"),), "d")):
        cluster = Cluster()
        for raw in cluster.waiting.values():
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preferring("e")]}
            raw["spec"]["affinity"] = {"nodeAffinity": preferred}
            raw["metadata"]["annotations"][MANAGED_FIELDS] = ManagedFields.of(Constraint((), ours), 0).text()
        assert await named(cluster, ("p", "c")) == best


async def test_that_which_it_was_assumed_goes_before() -> None:
    assert await named(Cluster(assumed="b"), ("p", "c")) == "b"
    assert await named(Cluster(assumed="c"), ("p", "c")) == "a"


async def test_each_node_has_its_turn_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [("p", "c")] * 4
    assert await named(Cluster(), *refusals) == "ab"
    monkeypatch.setattr(nominate, "_AGAIN_SECONDS", 0.0)
    assert await named(Cluster(), *refusals) == "aaaa"


async def test_pods_that_were_refused_together_are_named_different_nodes() -> None:
    cluster = Cluster()
    nominator = Nominator(cluster, cluster, Rules(), lambda: True)
    running = asyncio.create_task(nominator.run())
    for pod in "pq":
        nominator.refused(f"default/{pod}", pod, "c")
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    assert [node for _, _, node in cluster.named] == ["a", "b"]


async def test_nothing_is_named_for_a_pod_that_is_gone_or_held_to_its_node_nor_by_who_leads_no_more() -> None:
    gone = Cluster()
    gone.waiting.clear()
    held = Cluster(annotations={NUMA_HINT: '{"node": "c", "numaNodeResources": []}'})
    for cluster, leads in ((gone, True), (held, True), (Cluster(), False)):
        assert await named(cluster, ("p", "c"), leads=leads) == ""


@pytest.mark.parametrize(
    "condition",
    [None, DENIED | {"message": "0/3 nodes are available"}, DENIED | {"status": "True"}, DENIED | {"type": "Ready"}],
)
async def test_a_refusal_that_the_scheduler_does_not_tell_of_was_forged(
    monkeypatch: pytest.MonkeyPatch, condition: Mapping[str, Any] | None
) -> None:
    cluster = Cluster()
    cluster.waiting["default/p"]["status"] = {"conditions": [condition] if condition else None}
    assert await named(cluster, ("p", "c")) == ""
    monkeypatch.setattr(nominate, "_PROOF_SECONDS", -1.0)
    assert await named(cluster, ("p", "c")) == ""


async def test_a_refusal_on_a_node_that_the_scheduler_did_not_try_changes_nothing() -> None:
    cluster = Cluster()
    assert await named(cluster, ("p", "a"), ("p", "b")) == ""
    assert await named(cluster, ("p", "a"), ("p", "b"), ("p", "c")) == "a"


async def test_forged_refusals_are_remembered_in_bounds() -> None:
    nominator = Nominator(Cluster(), Cluster(), Rules(), lambda: True)
    for number in range(5000):
        nominator.refused(f"default/p{number}", "u", "a")
        nominator.refused("default/p", "u", f"n{number}")
    assert len(nominator._refused) == 1024
    assert max(map(len, nominator._refused.values())) == 8
