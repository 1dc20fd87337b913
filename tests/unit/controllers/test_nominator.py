"""Nodes named to the scheduler for pods whose binding was refused."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from webhook.controllers import nominator as nominate
from webhook.controllers.nominator import Nominator
from webhook.formats.patches.affinity_patch import Constraint
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write
from webhook.model.names import MANAGED_FIELDS, NUMA_ALLOCATION, NUMA_SIGNATURE
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nominate, "_SETTLE_SECONDS", 0.0)


# a [9]  b [16]  c [2]      [free cpus]; the pods ask for 8
FREE = {"a": 9, "b": 16, "c": 2}
DENIED = {
    "type": "PodScheduled",
    "status": "False",
    "message": 'binding rejected: admission webhook "guard" denied the request: node c can no longer hold this pod',
}


class FakeCluster(PodWrites):
    """The pods p and q wait, unless the test says otherwise; what is named to the scheduler."""

    def __init__(self, assumed: str | None = None, free: Mapping[str, int] = FREE) -> None:
        self.cache = ClusterCache()
        for name, cpus in free.items():
            put(self.cache, node(name=name), nrt(node=name, free=[cpus]))
        for name in "pq":
            self.show(name)
        if assumed is not None:
            self.cache.assume(AssumedPod("default/p", "p", assumed, {}, {}, None, expires=inf))
        self.named: list[tuple[str, str, str]] = []

    def show(self, name: str, *conditions: Mapping[str, Any], allocation: str = "", **more: Any) -> None:
        """The pod, whose binding was refused or which is in these conditions."""
        raw = gated(name=name, **more.pop("spec", {}))
        signed = {NUMA_ALLOCATION: allocation, NUMA_SIGNATURE: self.cache.sign(name, allocation)} if allocation else {}
        raw["metadata"]["annotations"] |= signed | more
        raw["status"] = {"conditions": list(conditions or [DENIED])}
        put(self.cache, raw)

    async def nominate(self, key: str, uid: str, node: str | None) -> Write:
        assert node is not None
        self.named.append((key, uid, node))
        return Write(Outcome.WRITTEN)


async def named(cluster: FakeCluster, *refusals: tuple[str, str], leads: bool = True) -> str:
    """The nodes that are named, one refusal (pod, node) being looked after before the next."""
    nominator = Nominator(cluster.cache, cluster, Rules(), lambda: leads)
    running = asyncio.create_task(nominator.run())
    for pod, refused_by in refusals:
        nominator.refused(f"default/{pod}", pod, refused_by)
        for _ in range(10):
            await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return "".join(node for _, _, node in cluster.named)


async def test_the_best_node_that_can_take_the_pod_is_named_or_that_which_it_was_assumed() -> None:
    cluster = FakeCluster()
    assert await named(cluster, ("p", "c")) == "a"
    assert cluster.named == [("default/p", "p", "a")]
    assert await named(FakeCluster(assumed="b"), ("p", "c")) == "b"
    assert await named(FakeCluster(assumed="c"), ("p", "c")) == "a"


async def test_each_node_has_its_turn_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [("p", "c")] * 4
    assert await named(FakeCluster(), *refusals) == "ab"
    monkeypatch.setattr(nominate, "_AGAIN_SECONDS", 0.0)
    assert await named(FakeCluster(), *refusals) == "aaaa"


def preferring(name: str) -> dict[str, Any]:
    return {
        "weight": 100,
        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
    }


# d [9]  e [9]      [free cpus]
async def test_of_equal_nodes_that_is_named_which_the_user_prefers_not_which_was_best_once() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preferring("e")]}
    affinity = {"affinity": {"nodeAffinity": preferred}}
    for ours, best in (((), "e"), ((preferring("e"),), "d")):
        cluster = FakeCluster(free={"d": 9, "e": 9})
        cluster.show("p", spec=affinity, **{MANAGED_FIELDS: ManagedFields.of(Constraint((), ours), 0).text()})
        assert await named(cluster, ("p", "c")) == best


async def test_pods_that_were_refused_together_are_named_different_nodes() -> None:
    cluster = FakeCluster()
    nominator = Nominator(cluster.cache, cluster, Rules(), lambda: True)
    running = asyncio.create_task(nominator.run())
    for pod in "pq":
        nominator.refused(f"default/{pod}", pod, "c")
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    assert [node for _, _, node in cluster.named] == ["a", "b"]


async def test_nothing_is_named_for_a_pod_that_is_gone_or_held_to_its_node_nor_by_who_leads_no_more() -> None:
    gone = FakeCluster()
    gone.cache.pods.delete("default/p")
    held = FakeCluster()
    held.show("p", allocation='{"node": "c", "numaNodeResources": []}')
    for cluster, leads in ((gone, True), (held, True), (FakeCluster(), False)):
        assert await named(cluster, ("p", "c"), leads=leads) == ""


@pytest.mark.parametrize(
    "condition",
    [None, DENIED | {"message": "0/3 nodes are available"}, DENIED | {"status": "True"}, DENIED | {"type": "Ready"}],
)
async def test_a_refusal_that_the_scheduler_does_not_tell_of_was_forged(
    monkeypatch: pytest.MonkeyPatch, condition: Mapping[str, Any] | None
) -> None:
    cluster = FakeCluster()
    cluster.show("p", condition or {})
    assert await named(cluster, ("p", "c")) == ""
    monkeypatch.setattr(nominate, "_PROOF_SECONDS", -1.0)
    assert await named(cluster, ("p", "c")) == ""


async def test_a_refusal_on_a_node_that_the_scheduler_did_not_try_changes_nothing() -> None:
    cluster = FakeCluster()
    assert await named(cluster, ("p", "a"), ("p", "b")) == ""
    assert await named(cluster, ("p", "a"), ("p", "b"), ("p", "c")) == "a"


async def test_forged_refusals_are_remembered_in_bounds() -> None:
    nominator = Nominator(ClusterCache(), FakeCluster(), Rules(), lambda: True)
    for number in range(5000):
        nominator.refused(f"default/p{number}", "u", "a")
        nominator.refused("default/p", "u", f"n{number}")
    assert len(nominator._refused) == 1024
    assert max(map(len, nominator._refused.values())) == 8
