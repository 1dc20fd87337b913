"""Evicts the pods of a plan from a live cluster: all of them, or none.

1. Every eviction is tried with a dry run. If the API server refuses one (a right, a PodDisruptionBudget, a webhook), or
   a pod is no longer the one of the plan, nothing is evicted.
2. The pods are evicted one after the other, in the order of the plan. The first refusal ends it: budgets and pods may
   have changed since. What was evicted by then stays so.

Each call names the uid of the pod that was planned, so that its successor of the same name is never evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.app.settings import Settings
from webhook.cli.live_cluster import connect
from webhook.kube.client import Client
from webhook.kube.pod_writes import Outcome, PodWrites


@dataclass(slots=True)
class Evictions:
    """What was done."""

    evicted: list[str] = field(default_factory=list)
    """By namespace/name, in order."""
    refused: str = ""
    """The pod that could not be evicted, and why; empty if all were."""


async def evict_all(settings: Settings, uids: Mapping[str, str]) -> Evictions:
    """Evict the pods. uids: namespace/name -> uid. Raises ClusterError."""
    async with await connect(settings) as client:
        return await evict(client, uids)


async def evict(client: Client, uids: Mapping[str, str]) -> Evictions:
    """The same with a client."""
    writes = PodWrites(client)
    done = Evictions()
    for dry_run in (True, False):
        for key, uid in uids.items():
            outcome = await writes.evict(key, uid, dry_run=dry_run)
            if outcome is not Outcome.WRITTEN:
                done.refused = f"pod {key} cannot be evicted: {outcome.value}: {writes.error}"
                return done
            if not dry_run:
                done.evicted.append(key)
    return done
