"""The process of `topology-webhook page`: a snapshot, or a cluster that informers follow, and the page's port."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from webhook.app import logs
from webhook.app.informers import FAILED_PODS, PODS, watch_cluster
from webhook.app.page import keep_current, page_port, problems_of
from webhook.app.rules_of_settings import rules_of, times_of
from webhook.app.settings import Settings
from webhook.app.signals import stop_event
from webhook.cache.cluster_cache import ClusterCache
from webhook.cli.command import read_cluster
from webhook.cli.live_cluster import connect
from webhook.kube.informer import InformerStatus
from webhook.model.hint_key import UnverifiedHints
from webhook.page.app import Source
from webhook.supervise import supervised

if TYPE_CHECKING:
    from webhook.controllers.placement.controller import Background

_WARNINGS: Final = 20
"""Faults of a snapshot that the page lists. Someone who fixes the first ones looks again."""


def serve_snapshot(
    settings: Settings, files: Sequence[str], flags: Mapping[str, str | None], address: str, port: int
) -> None:
    """Show a snapshot until a signal. Raises InputError, OSError."""
    cluster = read_cluster(files, settings, flags)
    source = Source(cluster.cache, ", ".join(files), lambda: cluster.warnings[:_WARNINGS], live=False)
    asyncio.run(_serve(source, address, port))


def serve_live(settings: Settings, address: str, port: int) -> None:
    """Show the cluster and follow it until a signal. Raises ClusterError, OSError."""
    asyncio.run(_follow(settings, address, port))


async def _follow(settings: Settings, address: str, port: int) -> None:
    pods, failed = InformerStatus(PODS), InformerStatus(FAILED_PODS)
    cache = ClusterCache(
        times_of(settings), rules=rules_of(settings), pods_in_order=pods.in_order, failed_in_order=failed.in_order
    )
    cache.use_hint_key(UnverifiedHints(b""))
    async with await connect(settings) as client, asyncio.TaskGroup() as tasks:
        watched = watch_cluster(client, cache, settings.list_page_size, pods, failed)
        source = Source(cache, settings.context or client.host, lambda: list(problems_of(watched)))
        loops: list[Background] = [*(each.run for each in watched), partial(keep_current, source)]
        running = [tasks.create_task(supervised(loop)) for loop in loops]
        try:
            await _serve(source, address, port)
        finally:
            for task in running:
                task.cancel()


async def _serve(source: Source, address: str, port: int) -> None:
    logs.configure("warning", "console")
    stop = stop_event()
    async with page_port(source, address, port) as actual:
        shown = f"[{address}]" if ":" in address else address
        print(f"The page of {source.cluster} is at http://{shown}:{actual}/ (Ctrl-C ends it)", flush=True)
        await stop.wait()
