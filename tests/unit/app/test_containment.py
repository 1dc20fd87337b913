"""What runs beside the ports, and what comes from the API server: a fault of each is its own, found by looking."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from webhook.app import informers
from webhook.app.clients import Clients
from webhook.app.informers import FAILED_PODS, PODS, watch_cluster, watch_pod_groups
from webhook.app.service import Service
from webhook.app.settings import Settings
from webhook.internal_errors import Where, internal_error_counts
from webhook.kube.client import Client
from webhook.kube.informer import InformerStatus
from webhook.kube.pacing import Backoff
from webhook.state.cluster_cache import ClusterCache
from webhook.state.store import Feed
from webhook.supervise import supervised

WEBHOOK = Path(__file__).parents[3] / "webhook"
# Tasks that are not supervised, and what contains what they raise.
CONTAINED_OTHERWISE = {
    "controllers/placement/writes_in_flight.py: self._run(key, uid, write)": "contains all that the write raises",
    "controllers/placement/shard_moves.py: self._write(one.key, one.raw, moved)": "contains all that the write raises",
    "controllers/placement/controller.py: self._fence_beside(shard, term)": "contains all that the fence raises",
    "controllers/preemption/controller.py: run()": "contains all that the work raises",
    "controllers/owner_chains.py: self._read_one(key)": "contains all that the read raises",
    "controllers/autoscaling/provisioning_writer.py: run()": "it contains the writes of one gang",
    "server/listener.py: self._establish(accepted, connection)": "closed by its done callback, whatever it raises",
    "kube/discovery.py: self.informer.run()": "its exception is that of DiscoveredInformer.run, which is supervised",
    "app/service.py: self._elector.hand_over(settings.drain_seconds)": "the process is ending",
    "app/service.py: drain(self._health, reviews, settings.drain_seconds)": "the process is ending",
    "cli/input/live_cluster.py: read_owner(self._client, namespace, owner)": "those who ask await it; `found` omits it",
    "cli/commands/waiting.py: cluster.synced()": "raises nothing; cancelled at the end",
    "cli/commands/waiting.py: stop_event().wait()": "an event's own",
    "cli/input/live_cluster.py: call": "awaited at once; its error ends the command",
    "app/service.py: wanted": "its exception is that of the start: without it nothing can be served",
    "app/service.py: stop.wait()": "an event's own",
}


class InjectedError(Exception):
    """No caller knows it."""


def service() -> Service:
    client: Any = Client.__new__(Client)
    return Service(Settings(), Clients(client, client, client, client))


def tasks_begun() -> Iterator[str]:
    """Where a task is begun, and of what."""
    for path in sorted(WEBHOOK.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("create_task", "ensure_future")):
                yield f"{path.relative_to(WEBHOOK)}: {ast.unparse(call.args[0])}"


def test_every_task_is_supervised_or_contained_otherwise() -> None:
    begun = set(tasks_begun())
    assert {one for one in begun if ": supervised(" not in one} == set(CONTAINED_OTHERWISE)
    assert "app/main.py: supervised(run)" in begun


async def test_the_service_supervises_all_that_it_has_in_the_background() -> None:
    runs = list(service().background())
    assert len(runs) >= 15
    names = {run.__qualname__ for run in runs}
    assert {"PlacementController.run", "OwnerChains.run", "LeaderElector.run", "ServingCertificate.run"} <= names


async def test_a_supervised_task_is_started_again_whenever_it_fails_or_ends() -> None:
    turns = asyncio.Queue[int]()
    count = 0
    before = internal_error_counts().get(Where.TASK, 0)

    async def run() -> None:
        nonlocal count
        count += 1
        turns.put_nowait(count)
        if count % 2:
            raise InjectedError

    task = asyncio.create_task(supervised(run, Backoff(base=0.0)))
    async with asyncio.timeout(60):
        while await turns.get() < 6:
            pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert internal_error_counts()[Where.TASK] >= before + 3


def feeds() -> list[Feed[Any]]:
    """All feeds of the service, as its informers fill them."""
    client: Any = None
    pod_groups: Any = type("PodGroups", (), {"put": lambda _, raw: raw, "drop": lambda _, key: key})()
    statuses = InformerStatus(PODS), InformerStatus(FAILED_PODS)
    cache = ClusterCache()
    watched = (*watch_cluster(client, cache, *statuses), watch_pod_groups(client, pod_groups, cache))
    return [each.feed for each in watched]


@pytest.mark.parametrize("feed", feeds(), ids=lambda feed: feed.kind)
@pytest.mark.parametrize("broken", ["_read", "_put", "_drop"])
def test_a_fault_with_one_object_of_any_feed_is_that_objects(
    feed: Feed[Any], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []

    def use(name: str, subject: Any) -> Any:
        key = subject if isinstance(subject, str) else subject["metadata"]["name"]
        if name == broken and key == "faulty":
            raise InjectedError
        kept.append(f"{name} {key}")
        return subject

    for name in ("_read", "_put", "_drop"):
        monkeypatch.setattr(feed, name, lambda subject, name=name: use(name, subject))
    for key in ("faulty", "a"):
        feed.upsert(key, {"metadata": {"name": key}})
        feed.delete(key)
    assert {"_put a", "_drop a"} <= set(kept)
    feed.upsert("faulty", {"metadata": {"name": "faulty"}})
    assert ("faulty" in feed.faults) is (broken != "_drop")


def test_all_that_is_watched_goes_into_a_feed() -> None:
    assert informers.Watched.__dataclass_fields__["feed"].type in {"Feed[Any]", Feed[Any]}


class NodeError(Exception):
    """With the record of one node."""


def filled_cache() -> ClusterCache:
    cache = ClusterCache()
    for name in ("faulty", "n0"):
        put(cache, node(name=name), nrt(node=name, free=(16, 16)))
    return cache


@pytest.mark.parametrize("part", ["write_node", "write_zones", "write_held"])
def test_a_node_whose_column_cannot_be_written_is_closed_until_there_is_news_of_it(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webhook.engine.snapshot.buffers import Buffer  # noqa: PLC0415 # what is broken here

    cache = ClusterCache()
    write = getattr(Buffer, part)
    before = internal_error_counts().get(Where.NODE, 0)

    def fails(self: Buffer, n: int, *rest: Any) -> None:
        if self.names[n] == "faulty":
            raise NodeError
        write(self, n, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(Buffer, part, fails)
        for name in ("faulty", "n0"):
            put(cache, node(name=name), nrt(node=name, free=(16, 16)))
        node_arrays = cache.snapshot().nodes.node_arrays
        assert cache.snapshot().nodes.node_arrays is node_arrays
        assert internal_error_counts()[Where.NODE] == before + 1
        assert [bool(node_arrays.ready[node_arrays.index[name]]) for name in ("faulty", "n0")] == [False, True]
        put(cache, node(name="n1"))
        assert not cache.snapshot().nodes.node_arrays.ready[node_arrays.index["faulty"]]
    put(cache, node(name="faulty", cpus=16))
    healed = cache.snapshot().nodes.node_arrays
    assert healed.ready[healed.index["faulty"]]
    fresh = filled_cache()
    put(fresh, node(name="n1"))
    put(fresh, node(name="faulty", cpus=16))
    other = fresh.snapshot().nodes.node_arrays
    for field in ("available", "capacity", "node_free", "allocatable", "unschedulable", "policy"):
        column, twin = getattr(healed, field)[..., healed.index["faulty"]], getattr(other, field)
        assert column.tolist() == twin[..., other.index["faulty"]].tolist(), field


def test_a_node_that_cannot_be_settled_or_replayed_breaks_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = filled_cache()
    settle = cache._assumed_pods._settle_node

    def fails(name: str, now: float) -> None:
        if name == "faulty":
            raise NodeError
        settle(name, now)

    monkeypatch.setattr(cache._assumed_pods, "_settle_node", fails)
    monkeypatch.setattr(cache._assumed_pods.replay, "nodes", lambda: ("faulty", "n0"))
    before = internal_error_counts().get(Where.NODE, 0)
    for key in ("p", "q"):
        raw = gated(name=key)
        raw["spec"]["nodeName"] = "faulty"
        cache.pods.upsert(f"default/{key}", raw)
        cache.snapshot()
    assert internal_error_counts()[Where.NODE] > before
    assert cache.snapshot().nodes.node_arrays.index.keys() == {"faulty", "n0"}
