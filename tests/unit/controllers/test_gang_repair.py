"""A gang that lost a node stays in its domain if that has room, and else moves as a whole if `repair` is `Gang`."""

import asyncio
import json
from typing import Any

import pytest

from tests.builders.clusters import machine, put
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import ApiServer, Leader, metrics
from webhook.controllers.gang_repair import GangRepair
from webhook.formats.kubernetes.pod import Owner
from webhook.internal_errors import internal_error_counts
from webhook.kube.write import Outcome, Write
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, LOST_NODES, MIN_MEMBER
from webhook.model.raw import Raw

RACK = "example.com/rack"
ASKS = {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "rack", MIN_MEMBER: "2"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train", "controller": True}


def rack(name: str, *nodes: str) -> list[dict[str, Any]]:
    """Machines with 8 free CPUs each."""
    return [one for each in nodes for one in machine(name=each, free=(8,), labels={RACK: name})]


class FakeServer(ApiServer):
    """Refuses to evict `kept`; asked: the dry runs."""

    kept = ""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    async def evict(self, key: str, uid: str, *, dry_run: bool = False) -> Write:
        if dry_run:
            self.asked.append(key)
            return Write(Outcome.NOT_NOW if key == self.kept else Outcome.WRITTEN)
        return await super().evict(key, uid)

    async def read(self, key: str) -> dict[str, Any] | None:
        return self.pods.get(key)


class RepairedGang(Leader):
    """A gang of two pods of 8 CPUs runs on n0 and n1 of rack r1."""

    api: FakeServer
    api_server = FakeServer

    def __init__(self, *more: Any, owners: Any = (JOB,)) -> None:
        super().__init__(topology(labels=[RACK]), *rack("r1", "n0", "n1"), *more)
        self.owners = list(owners)
        self.metrics = metrics()
        events: Any = self.api
        self.repair = GangRepair(self.cache, self.api, events, self.controller.planner, self.is_leader, self.metrics)
        self.controller.gang_examined.subscribe(self.repair.saw)

    async def read_owner(self, namespace: str, owner: Owner) -> Raw | None:
        del namespace
        template = {"metadata": {}, "spec": gated()["spec"]}
        spec = {"parallelism": 2, "completions": 2, "template": template}
        metadata = {"name": owner.name, "uid": owner.uid}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    async def cycle(self) -> None:
        reading = asyncio.create_task(self.controller._owner_chains.run())
        await super().cycle()
        await asyncio.sleep(0.05)  # the owners are read
        reading.cancel()
        await super().cycle()

    @classmethod
    async def running(cls, *more: Any, **how: Any) -> "RepairedGang":
        cluster = cls(*more, **how)
        cluster.waits("a")
        cluster.waits("b")
        await cluster.cycle()
        assert cluster.nodes() == {"a": "n0", "b": "n1"}
        for name, place in cluster.nodes().items():
            raw = cluster.api.pods[f"default/{name}"]
            status = {"phase": "Running"}
            cluster.api.has({**raw, "spec": {**raw["spec"], "nodeName": place}, "status": status})
        cluster.api.events.clear()
        return cluster

    def waits(self, name: str) -> None:
        raw = gated(name=name, group="g", annotations=ASKS, metadata={"ownerReferences": self.owners})
        self.api.has(raw)

    def loses(self, place: str = "n1", name: str = "b") -> None:
        """A node fails, its pod is evicted, and its controller creates another one."""
        put(self.cache, {**node(name=place, cpus=16, labels={RACK: "r1"}), "status": NOT_READY})
        self.api.delete(f"default/{name}")
        self.waits(f"{name}2")

    async def loses_and_sweeps(self) -> None:
        self.loses()
        await self.cycle()
        await self.repair.sweep(0)

    def replaced_by(self) -> "RepairedGang":
        """The next leader, which has started after the loss: it knows what the API server knows."""
        other = RepairedGang(*rack("r2", "n2", "n3"))
        other.cache.use_allocation_key(self.cache.allocation_key)
        put(other.cache, {**node(name="n1", cpus=16, labels={RACK: "r1"}), "status": NOT_READY})
        other.api.has(*self.api.pods.values())
        return other

    def told(self, reason: str) -> list[str]:
        return [event.note for event in self.api.events if event.reason == reason]


NOT_READY = {
    "allocatable": {"cpu": "16", "memory": "128Gi", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "Unknown"}],
}


async def test_it_moves_as_a_whole_to_a_domain_that_holds_all_of_it() -> None:
    cluster = await RepairedGang.running(*rack("r2", "n2", "n3"))
    cluster.loses()
    await cluster.cycle()
    assert cluster.waiting() == {"b2"}
    await cluster.repair.sweep(0)
    assert cluster.api.evicted == ["default/a"]
    (text,) = set(cluster.told("GangMoved"))
    assert text == "moves as a whole: lost n1, and its domain has no room for the lost pods; rack r2 holds all 2 pods"
    assert cluster.metrics.gangs_moved._value.get() == 1
    cluster.api.delete("default/a")
    cluster.waits("a2")
    await cluster.cycle()
    assert {name: place for name, place in cluster.nodes().items() if name in {"a2", "b2"}} == {"a2": "n2", "b2": "n3"}


R2 = rack("r2", "n2", "n3")


@pytest.mark.parametrize(
    ("others", "added", "owners", "leads"),
    [
        (R2, rack("r1", "n4"), (JOB,), True),
        (rack("r2", "n2"), [], (JOB,), True),
        (R2, [], (), True),
        (R2, [], (JOB,), False),
    ],
    ids=["its domain has room", "no domain holds all of it", "no controller recreates its members", "not the leader"],
)
async def test_else_it_stays(
    others: list[dict[str, Any]], added: list[dict[str, Any]], owners: Any, leads: bool
) -> None:
    cluster = await RepairedGang.running(*others, owners=owners)
    put(cluster.cache, *added)
    cluster.loses()
    await cluster.cycle()
    cluster.leads = leads
    await cluster.repair.sweep(0)
    assert (cluster.api.evicted, cluster.told("GangMoved")) == ([], [])
    assert leads or cluster.api.asked == []
    assert cluster.nodes().get("b2") == ("n4" if added else None)


async def test_if_one_member_may_not_be_evicted_none_is() -> None:
    cluster = await RepairedGang.running(*rack("r2", "n2", "n3"))
    cluster.api.kept = "default/a"
    await cluster.loses_and_sweeps()
    assert cluster.api.evicted == []
    assert cluster.told("GangNotMoved")[0].endswith("it stays, because default/a may not be evicted now")
    cluster.api.kept = ""
    await cluster.repair.sweep(1)
    assert cluster.api.evicted == []  # not again so soon
    await cluster.repair.sweep(31)
    assert cluster.api.evicted == ["default/a"]


async def test_an_eviction_that_a_budget_delays_is_repeated() -> None:
    cluster = await RepairedGang.running(*rack("r2", "n2", "n3"))
    cluster.loses()
    await cluster.cycle()
    cluster.api.outcome = Outcome.NOT_NOW
    await cluster.repair.sweep(0)
    cluster.api.outcome = Outcome.WRITTEN
    await cluster.repair.sweep(2)
    await cluster.repair.sweep(4)
    assert cluster.api.evicted == ["default/a", "default/a"]


async def test_a_leader_that_has_not_seen_the_loss_moves_it_as_well() -> None:
    cluster = await RepairedGang.running()
    await cluster.loses_and_sweeps()
    assert cluster.api.evicted == []
    successor = cluster.replaced_by()
    await successor.cycle()
    await successor.repair.sweep(0)
    (text,) = set(successor.told("GangMoved"))
    assert text.startswith("moves as a whole: lost n1, ")
    assert successor.api.evicted == ["default/a"]


@pytest.mark.parametrize("how", ["another gang", "another node", "another seal", "text", "another type", "deep"])
async def test_a_forged_record_moves_nothing(how: str) -> None:
    before = dict(internal_error_counts())
    cluster = await RepairedGang.running()
    await cluster.loses_and_sweeps()
    raw = cluster.api.pods["default/a"]
    record = json.loads(raw["metadata"]["annotations"][LOST_NODES])
    forged = {
        "another gang": cluster.cache.allocation_key.seal("LostNodes", "default/name/h", json.dumps(["n1"]), ""),
        "another seal": "0000",
    }.get(how, record["seal"])
    value = json.dumps({"nodes": ["n0"] if how == "another node" else record["nodes"], "seal": forged})
    others = {"text": "{", "another type": "[1]", "deep": "[" * 100_000}
    await cluster.api.annotate("default/a", LOST_NODES, others.get(how, value))
    successor = cluster.replaced_by()
    await successor.cycle()
    await successor.repair.sweep(0)
    assert successor.api.evicted == []
    assert internal_error_counts() == before


async def test_a_record_is_void_for_other_members_and_is_removed_when_the_gang_is_whole() -> None:
    cluster = await RepairedGang.running()
    await cluster.loses_and_sweeps()
    assert LOST_NODES in cluster.api.pods["default/a"]["metadata"]["annotations"]
    put(cluster.cache, *rack("r1", "n4"))
    await cluster.cycle()
    assert cluster.nodes()["b2"] == "n4"
    await cluster.repair.sweep(2)
    assert LOST_NODES not in cluster.api.pods["default/a"]["metadata"]["annotations"]


async def test_a_waiting_gang_is_read_for_a_record_only_once() -> None:
    cluster = await RepairedGang.running(*rack("r2", "n2", "n3"))
    cluster.waits("c")
    reads: list[str] = []
    read = cluster.api.read

    async def counted(key: str) -> dict[str, Any] | None:
        reads.append(key)
        return await read(key)

    cluster.api.read = counted  # type: ignore[method-assign]
    for second in range(4):
        put(cluster.cache, *rack("r3", f"m{second}"))
        await cluster.cycle()
        await cluster.repair.sweep(40 * second)
    assert sorted(reads) == ["default/a", "default/b"]
    assert cluster.api.evicted == []


async def test_a_gang_that_is_whole_again_before_a_budget_allows_its_move_loses_no_member() -> None:
    cluster = await RepairedGang.running(*rack("r2", "n2", "n3"))
    cluster.loses()
    await cluster.cycle()
    cluster.api.outcome = Outcome.NOT_NOW  # the budget changes between the dry run and the eviction
    await cluster.repair.sweep(0)
    cluster.api.outcome = Outcome.WRITTEN
    cluster.api.evicted.clear()
    assert cluster.waiting() == {"b2"}
    # Its node comes back: the lost member is placed beside the running one, and runs.
    put(
        cluster.cache,
        node(name="n1", cpus=16, labels={RACK: "r1"}),
        *machine(name="n1", free=(8,), labels={RACK: "r1"}),
    )
    await cluster.cycle()
    assert cluster.nodes()["b2"] == "n1"
    assert cluster.waiting() == set()
    await cluster.repair.sweep(2)
    assert cluster.api.evicted == []
