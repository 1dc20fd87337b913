"""One measurement: a cluster of some size, from the start of a replica to its limits.

Phases:
1. Start: the replica lists everything, is elected and is ready.
2. Floods of NRT updates, as fast as the replica takes them: first such that only timestamps change, then such that the
   free amounts of every updated node change. The CPU time of an update is the limit of one core.
3. Steady load: NRTs at their rate, heartbeats of nodes, pods that are created, placed, bound and deleted.
4. Decisions: reviews of new pods as fast as they are answered, while the NRTs go on.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from certs import Authority, ServerNames
from tests.leaf_files import write_leaf
from tests.scale.api_server import serving
from tests.scale.fleet import EqualMachines
from tests.scale.load import Load, at_once
from tests.scale.measured import Measured, measured
from tests.scale.reviews import Reviews, session
from tests.scale.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_CONNECTIONS: Final = 64
_DECISIONS_AT_ONCE: Final = 4
_TOLD: Final = 10
_UPDATE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Size:
    """What is measured. updates: NRTs a second; None: each node's once a minute."""

    nodes: int
    zones: int = 8
    pods_per_node: int = 10
    churn: float = 100.0
    updates: float | None = None
    seconds: float = 30.0
    flood: int = 5000

    @property
    def updates_per_second(self) -> float:
        return self.nodes / _UPDATE_SECONDS if self.updates is None else self.updates


async def measure(size: Size, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """All figures, as documented in docs/scale.md."""
    fleet = EqualMachines(size.nodes, size.zones, size.pods_per_node)
    storage = Storage(fleet)
    with TemporaryDirectory() as folder:
        _write_certificate(Path(folder))
        began = time.monotonic()
        async with serving(storage) as url, measured(storage, url, Path(folder)) as replica:
            await replica.wait_until(lambda: replica.ready)
            ready = {
                "seconds": round(time.monotonic() - began, 2),
                "cpu_seconds": round(replica.cpu_seconds, 2),
                "peak_mib": round(replica.peak_mib, 1),
            }
            tell(f"ready: {ready}")
            async with session(_CONNECTIONS) as calls:
                reviews = Reviews(calls, replica.url)
                load = Load(storage, reviews, lives=min(20.0, size.seconds))
                floods = await _floods(size, storage, load, replica)
                tell(f"floods: {floods}")
                steady = await _steady(size, load, reviews, replica)
                tell(f"steady: {steady}")
                decisions = await _decisions(size, load, reviews, replica)
                peak = replica.peak_mib
    figures = {
        "bench": "scale",
        "nodes": size.nodes,
        "zones": size.zones,
        "pods": fleet.pods,
        "cpus": os.cpu_count(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "ready": ready,
        "updates": floods,
        "steady": steady,
        "decisions": decisions,
        "memory": {"peak_mib": round(peak, 1)},
        "log": replica.log[:_TOLD],
    }
    return figures | {"goals": goals(figures)}


def goals(figures: dict[str, Any]) -> dict[str, bool]:
    """The goals for 50,000 nodes with 8 NUMA nodes, and whether they are met."""
    reviews = figures["steady"]["create_ms"]["p99"], figures["steady"]["bind_ms"]["p99"]
    return {
        "ready_in_120_s": figures["ready"]["seconds"] <= 120,
        "under_2_gib": figures["memory"]["peak_mib"] < 2048,
        "review_p99_under_20_ms": max(reviews) < 20,
        "1000_updates_per_cpu_second": figures["updates"]["changed_per_cpu_second"] >= 1000,
    }


async def _floods(size: Size, storage: Storage, load: Load, replica: Measured) -> dict[str, Any]:
    """Phase 2."""

    async def unchanged() -> None:
        load.flood(size.flood)
        await replica.caught_up()

    await unchanged()  # the first update of an object after a list is decoded whole

    async def changed() -> None:
        for done in range(0, size.flood, size.nodes):
            storage.change_free_devices()
            load.flood(min(size.nodes, size.flood - done))
        await replica.caught_up()

    seconds = await _cpu_of(unchanged, replica), await _cpu_of(changed, replica)
    return {
        "count": size.flood,
        "unchanged_cpu_us": round(seconds[0] / size.flood * 1e6, 1),
        "changed_cpu_us": round(seconds[1] / size.flood * 1e6, 1),
        "unchanged_per_cpu_second": round(size.flood / seconds[0]),
        "changed_per_cpu_second": round(size.flood / seconds[1]),
    }


async def _steady(size: Size, load: Load, reviews: Reviews, replica: Measured) -> dict[str, Any]:
    """Phase 3."""
    for kind in replica.behind:
        replica.behind[kind].clear()

    async def until_all_ended() -> None:
        await load.run(size.seconds, size.updates_per_second, size.churn)
        await load.end()
        await replica.caught_up()

    cpu = await _cpu_of(until_all_ended, replica)
    counts = load.counts
    return {
        "seconds": size.seconds,
        "updates_per_second": round(size.updates_per_second, 1),
        "pods_per_second": size.churn,
        "cores": round(cpu / size.seconds, 3),
        "created": counts.created,
        "bound": counts.bound,
        "refused_bindings": counts.refused,
        "failed": counts.failed[:_TOLD],
        "lag_ms": {kind: _quantiles(replica.behind[kind]) for kind in replica.behind},
        "create_ms": _quantiles(reviews.seconds["pods"]),
        "bind_ms": _quantiles(reviews.seconds["bindings"]),
        "assign_ms": _quantiles(counts.assign_seconds),
    }


async def _decisions(size: Size, load: Load, reviews: Reviews, replica: Measured) -> dict[str, Any]:
    """Phase 4."""
    reviews.seconds["pods"].clear()
    seconds = size.seconds / 3
    count = 0

    async def both() -> None:
        nonlocal count
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(seconds, size.updates_per_second, 0.0))
            calls = tasks.create_task(at_once(_DECISIONS_AT_ONCE, seconds, lambda: reviews.create(load.unplaced())))
        count = calls.result()

    cpu = await _cpu_of(both, replica)
    return {
        "at_once": _DECISIONS_AT_ONCE,
        "per_second": round(count / seconds, 1),
        "cpu_ms": round(cpu / count * 1000, 3),
        "ms": _quantiles(reviews.seconds["pods"]),
    }


async def _cpu_of(run: Callable[[], Awaitable[None]], replica: Measured) -> float:
    """CPU seconds of the replica while this runs."""
    before = replica.cpu_seconds
    await run()
    return replica.cpu_seconds - before


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum in milliseconds; 0 without a measurement."""
    ordered = sorted(seconds) or [0.0]
    last = len(ordered) - 1
    return {
        "p50": round(ordered[last // 2] * 1000, 1),
        "p99": round(ordered[int(last * 0.99)] * 1000, 1),
        "max": round(ordered[-1] * 1000, 1),
    }


def _write_certificate(folder: Path) -> None:
    now = datetime.now(UTC)
    names = ServerNames.of(["topology-webhook.topology-webhook.svc"])
    write_leaf(Authority.create("scale", now).issue(names, now), folder / "tls.crt", folder / "tls.key")
