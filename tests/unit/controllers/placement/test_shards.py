"""Two leaders, each of a shard of the nodes: each pod gets one node, in the shard of the leader that placed it."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import gated
from tests.unit.controllers.leader import ApiServer, Leader
from webhook.formats.shard_choice import ShardChoice
from webhook.kube.election import Term
from webhook.kube.write import Outcome, Write
from webhook.model.names import MIN_MEMBER, SHARD
from webhook.state.cluster_cache import ClusterCache
from webhook.state.shards import NodeShards

LABEL = "example.com/shard"
SETTLE_SECONDS = 65.0


class SharedApiServer(ApiServer):
    """Pods with resource versions, shown to the caches of all leaders. A patch of an old version is refused."""

    def __init__(self, cache: ClusterCache) -> None:
        super().__init__(cache)
        self.others: list[ClusterCache] = []
        self.versions = count(1)

    def has(self, *raws: Mapping[str, Any]) -> None:
        super().has(
            *({**raw, "metadata": {**raw["metadata"], "resourceVersion": str(next(self.versions))}} for raw in raws)
        )

    def show(self) -> None:
        if self.shows:
            for cache in (self._cache, *self.others):
                put(cache, *self.pods.values())

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        self.patched.append(key)
        version = next((one["value"] for one in operations if one["path"] == "/metadata/resourceVersion"), None)
        if version not in {None, self.pods[key]["metadata"]["resourceVersion"]}:
            return Write(Outcome.STALE)
        self.has(jsonpatch.apply_patch(self.pods[key], list(operations)))
        return Write(Outcome.WRITTEN)


class ShardLeader(Leader):
    """The leader of some shards. now: the clock of the nodes' changes, in seconds."""

    api: SharedApiServer
    api_server = SharedApiServer

    def __init__(self, *objects: Mapping[str, Any], leads: frozenset[str], now: list[float]) -> None:
        self.shards = leads
        super().__init__(*objects, cluster=cluster_cache(shards=NodeShards(LABEL, SETTLE_SECONDS, lambda: now[0])))
        self.controller.stopped()
        for shard in leads:
            self.controller.started(Term(1, f"1-{shard}", 0.0, 0.0), shard)

    def is_leader(self, shard: str = "") -> bool:
        return shard in self.shards

    async def cycle(self) -> None:
        assert await self.controller._settle_terms()
        await super().cycle()
        await asyncio.gather(*self.controller._moves._tasks)


class Pair:
    """Two leaders: one of the shard a, the other one of b and of the default shard. They see the same objects."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.now = [0.0]
        self.a = ShardLeader(*objects, leads=frozenset({"a"}), now=self.now)
        self.b = ShardLeader(*objects, leads=frozenset({"b", ""}), now=self.now)
        self.a.api.others, self.b.api.others = [self.b.cache], [self.a.cache]
        self.b.api.pods, self.b.api.versions = self.a.api.pods, self.a.api.versions

    def has(self, *raws: Mapping[str, Any]) -> None:
        self.a.api.has(*raws)

    def sees(self, *raws: Mapping[str, Any]) -> None:
        for leader in (self.a, self.b):
            put(leader.cache, *raws)

    async def cycles(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            await self.a.cycle()
            await self.b.cycle()

    def nodes(self) -> dict[str, str]:
        return self.a.nodes()

    def moves(self, name: str) -> ShardChoice | None:
        return ShardChoice.of(self.a.api.pods[f"default/{name}"])


def shard_of_two(name: str, free: Sequence[int] = (8, 8), shard: str = "") -> list[dict[str, Any]]:
    return machine(name=name, free=free, labels={LABEL: shard or name[0]})


# shard a ── a0 [8 8]     shard b ── b0 [8 8]      [free cpus per NUMA node]; a pod asks for 8
TWO_SHARDS = [*shard_of_two("a0"), *shard_of_two("b0")]


def member(number: int, **how: Any) -> dict[str, Any]:
    return gated(name=f"g-{number}", group="g", annotations={MIN_MEMBER: "2", **how.pop("annotations", {})}, **how)


async def test_all_pods_get_a_node_and_each_is_placed_once() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.has(*(gated(name=f"p{number}", second=number) for number in range(4)))
    await pair.cycles()
    assert sorted(pair.nodes().values()) == ["a0", "a0", "b0", "b0"]
    assert pair.a.waiting() == set()


async def test_a_pod_moves_once_to_the_shard_that_has_room_and_its_leader_places_it() -> None:
    pair = Pair(*shard_of_two("a0", (4,)), *shard_of_two("b0"))
    pair.has(gated(name="p", annotations={SHARD: "a"}))
    await pair.a.cycle()
    choice = pair.moves("p")
    assert choice is not None
    assert (choice.shard, choice.moves) == ("b", 1)
    await pair.b.cycle()
    assert pair.nodes() == {"p": "b0"}


async def test_a_pod_that_was_sent_away_is_not_attempted_before_the_write_shows() -> None:
    pair = Pair(*shard_of_two("a0", (4,)), *shard_of_two("b0"))
    pair.has(gated(name="p", annotations={SHARD: "a"}))
    pair.a.api.shows = pair.b.api.shows = False
    await pair.a.cycle()
    assert len(pair.a.api.patched) == 1
    pair.sees(*shard_of_two("a0"))  # there is room here now, but the other leader may have begun
    await pair.a.cycle()
    assert len(pair.a.api.patched) == 1
    assert pair.nodes() == {}


async def test_a_pod_is_not_sent_back_at_once_if_its_room_is_taken() -> None:
    pair = Pair(*shard_of_two("a0", (4,)), *shard_of_two("b0", (8,)))
    pair.has(gated(name="p", annotations={SHARD: "a"}))
    await pair.a.cycle()
    pair.sees(*shard_of_two("b0", (4,)), *shard_of_two("a0", (8,)))
    await pair.cycles()
    choice = pair.moves("p")
    assert choice is not None
    assert (choice.shard, choice.moves) == ("b", 1)
    assert pair.nodes() == {}


async def test_a_pod_that_fits_nowhere_says_what_all_shards_lack() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.has(gated(name="large", cpu="16", annotations={SHARD: "a"}))
    await pair.cycles()
    assert "2 nodes" in pair.a.text("large")
    assert pair.b.text("large") == ""


async def test_a_gang_moves_whole_to_the_shard_that_holds_it() -> None:
    pair = Pair(*shard_of_two("a0", (8, 4)), *shard_of_two("b0"))
    pair.has(*(member(number, annotations={SHARD: "a"}) for number in range(2)))
    await pair.cycles()
    assert pair.nodes() == {"g-0": "b0", "g-1": "b0"}


async def test_a_gang_that_only_all_shards_together_hold_waits_and_says_so() -> None:
    pair = Pair(*shard_of_two("a0", (8, 4)), *shard_of_two("b0", (8, 4)))
    pair.has(*(member(number, annotations={SHARD: "a"}) for number in range(2)))
    await pair.cycles()
    assert pair.nodes() == {}
    assert "across shards, but in none alone" in pair.a.text("g-0")


async def test_a_shard_without_nodes_counts_as_absent() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.has(gated(name="p", annotations={SHARD: "gone"}))
    await pair.cycles()
    assert pair.nodes().keys() == {"p"}


async def test_the_new_leader_of_a_node_waits_until_what_the_last_one_assumed_there_must_show() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.sees(*shard_of_two("a0", shard="b"))
    pair.has(*(gated(name=f"p{number}", annotations={SHARD: "b"}) for number in range(3)))
    await pair.cycles()
    assert sorted(pair.nodes().values()) == ["b0", "b0"]
    pair.now[0] = SETTLE_SECONDS
    pair.b.controller._changed()
    await pair.cycles()
    assert sorted(pair.nodes().values()) == ["a0", "b0", "b0"]


async def test_a_leader_that_loses_a_shard_begins_nothing_there() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.b.shards = frozenset({""})
    pair.b.controller.stopped("b")
    pair.has(gated(name="p", annotations={SHARD: "b"}))
    await pair.cycles()
    assert pair.nodes() == {}


async def test_the_leader_after_one_that_died_takes_over_its_pods_although_nothing_changes() -> None:
    pair = Pair(*TWO_SHARDS)
    pair.has(gated(name="p", annotations={SHARD: "b"}))
    pair.b.unsettled = 60.0
    pair.b.controller.started(Term(2, "2-b", 0.0, 0.0), "b")
    running = asyncio.create_task(pair.b.controller.run())
    async with asyncio.timeout(30):
        while pair.b.waiting():  # noqa: ASYNC110 # the controller's own loop runs beside it
            await asyncio.sleep(0.01)
    running.cancel()
    assert pair.b.api.annotated == ["default/p"]
    assert pair.nodes() == {"p": "b0"}


@pytest.mark.parametrize("text", ["", "a b", "a 1", "a -1 0", "a 1 2 3", "a ² 1", "a 1 1234567890123"])
def test_an_annotation_that_we_did_not_write_names_no_shard(text: str) -> None:
    assert ShardChoice.of({"metadata": {"annotations": {SHARD: text}}}) is None


@pytest.mark.parametrize("choice", [ShardChoice(""), ShardChoice("a"), ShardChoice("a", 2, 7), ShardChoice("", 1, 7)])
def test_a_choice_is_read_as_it_was_written(choice: ShardChoice) -> None:
    assert ShardChoice.of({"metadata": {"annotations": {SHARD: choice.text()}}}) == choice
