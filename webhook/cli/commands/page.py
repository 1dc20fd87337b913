"""`topology-webhook page`: the page on this machine, with the rights of the kubeconfig's user.

Its process has a snapshot, or a cluster that informers follow, and the page's port.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import typer

from webhook.app import logs
from webhook.app.page import page_port, problems_of
from webhook.app.settings import Settings, SettingsError, rules_of
from webhook.app.signals import stop_event
from webhook.cli.command import read_cluster, tell
from webhook.cli.flags import EXIT_UNREADABLE
from webhook.cli.input.documents import InputError
from webhook.cli.input.followed_cluster import followed
from webhook.kube.api_errors import ClusterError
from webhook.page.app import Source
from webhook.placing.planner import Planner

_WARNINGS: Final = 20
"""Faults of a snapshot that the page lists. Someone who fixes the first ones looks again."""


def serve_snapshot(
    settings: Settings, files: Sequence[str], flags: Mapping[str, str | None], address: str, port: int
) -> None:
    """Show a snapshot until a signal. Raises InputError, OSError."""
    cluster = read_cluster(files, settings, flags)
    source = Source(
        Planner(cluster.cache, rules_of(settings)), ", ".join(files), lambda: cluster.warnings[:_WARNINGS], live=False
    )
    asyncio.run(_serve(source, address, port))


def serve_live(settings: Settings, address: str, port: int) -> None:
    """Show the cluster and follow it until a signal. Raises ClusterError, OSError."""
    asyncio.run(_follow(settings, address, port))


async def _follow(settings: Settings, address: str, port: int) -> None:
    async with followed(settings) as cluster:
        planner = Planner(cluster.cache, rules_of(settings))
        source = Source(planner, settings.context or cluster.host, lambda: list(problems_of(cluster.watched)))
        await _serve(source, address, port)


async def _serve(source: Source, address: str, port: int) -> None:
    logs.configure("warning", "console")
    stop = stop_event()
    async with page_port(source, address, port) as actual:
        shown = f"[{address}]" if ":" in address else address
        print(f"The page of {source.cluster} is at http://{shown}:{actual}/ (Ctrl-C ends it)", flush=True)
        await stop.wait()


def page(cluster: list[str] | None, address: str, port: int, **flags: str | None) -> None:
    """Serve the page until a signal."""
    try:
        settings = Settings.load(flags)
        if cluster:
            serve_snapshot(settings, cluster, flags, address, port)
        else:
            serve_live(settings, address, port)
    except (InputError, SettingsError, ClusterError, OSError) as error:
        tell(f"error: {error}")
        raise typer.Exit(EXIT_UNREADABLE) from error
