"""Evicts the pods of a plan from a live cluster: all of them, or none.

1. Every eviction is tried with a dry run. If the API server refuses one (a right, a PodDisruptionBudget, a webhook), or
   a pod is no longer the one of the plan, nothing is evicted.
2. What waits is nominated where it would start. The leader holds these nodes for it as soon as the pods are being
   deleted there (see `placing.preemption.takeover`), so that their next pods go elsewhere.
3. The pods are evicted one after the other, in the order of the plan. The first refusal ends it: budgets and pods may
   have changed since. What was evicted by then stays so, and the nominations that are not complete are removed.

Each call names the uid of the pod that was planned, so that its successor of the same name is never evicted.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.app.settings import Settings
from webhook.cli.input.live_cluster import connected
from webhook.kube.client import Client
from webhook.kube.pod_writes import PodWrites

# A write takes the API server 10 to 20 ms. The leader removes nominations for which no pod ends, but not while others
# are added in the namespace (see `NominationSweep`): so a gang may be of any size.
_AT_A_TIME: Final = 16


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that waits, and where it would start."""

    key: str
    """namespace/name."""
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class MovesOfOne:
    """What one pod or gang needs."""

    evicts: Mapping[str, str]
    """namespace/name -> uid of the pods that move."""
    starts: Sequence[PodOnNode]


@dataclass(slots=True)
class Evictions:
    """What was done."""

    evicted: list[str] = field(default_factory=list)
    """By namespace/name, in order."""
    refused: str = ""
    """What the API server refused, and why; empty if nothing."""


async def evict_all(settings: Settings, moves: Sequence[MovesOfOne]) -> Evictions:
    """Evict the pods. Raises ClusterError."""
    async with connected(settings) as client:
        return await evict(client, moves)


async def evict(client: Client, moves: Sequence[MovesOfOne]) -> Evictions:
    """The same with a client."""
    writes = PodWrites(client)
    done = Evictions()
    for one in moves:
        if not await _evict(writes, one, done, dry_run=True):
            return done
    for one in moves:
        if not (await _nominate(writes, one, done) and await _evict(writes, one, done, dry_run=False)):
            for pod in one.starts:
                await writes.nominate(pod.key, pod.uid, None)
            return done
    return done


async def _nominate(writes: PodWrites, one: MovesOfOne, done: Evictions) -> bool:
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def nominate(pod: PodOnNode) -> str:
        async with slots:
            write = await writes.nominate(pod.key, pod.uid, pod.node)
            why = f"pod {pod.key} cannot be nominated on {pod.node}: {write.outcome.value}: {write.error}"
            return "" if write.is_written else why

    refused = [why for why in await asyncio.gather(*map(nominate, one.starts)) if why]
    done.refused = next(iter(refused), "")
    return not refused


async def _evict(writes: PodWrites, one: MovesOfOne, done: Evictions, *, dry_run: bool) -> bool:
    for key, uid in one.evicts.items():
        write = await writes.evict(key, uid, dry_run=dry_run)
        if not write.is_written:
            done.refused = f"pod {key} cannot be evicted: {write.outcome.value}: {write.error}"
            return False
        if not dry_run:
            done.evicted.append(key)
    return True
