"""`topology-webhook page`: the page on this machine, with the rights of the kubeconfig's user.

Its process has a snapshot, or a cluster that informers follow, and the page's port.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from webhook.app import logs
from webhook.app.page import page_port, problems_of
from webhook.app.settings import Settings, SettingsError, rules_of
from webhook.app.signals import stop_event
from webhook.cli.command import CLUSTER_SETTINGS, EXIT_UNREADABLE, Snapshots, read_cluster, tell
from webhook.cli.commands.review import DECISION_SETTINGS
from webhook.cli.flags import with_setting_flags
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


EXAMPLES: Final = """\b
Examples:
  topology-webhook page
  topology-webhook page --context training --port 8000
  topology-webhook page --cluster cluster.yaml
"""


def page(
    cluster: Snapshots = None,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on. 0 picks a free one.")] = 8090,
    **flags: str | None,
) -> None:
    """Show the cluster's topology in a browser.

    The page is a map of what is used where, with gangs, what waits and why, and where a pod or gang would fit. It
    reads the cluster with the rights of the kubeconfig's user, changes nothing, and follows the cluster until Ctrl-C.
    With --cluster, it shows a snapshot.

    The exit code is 0 if a signal ended it, and 2 if the flags or files are invalid, the API server cannot be
    reached, or the port cannot be opened.
    """
    try:
        settings = Settings.load(flags)
        if cluster:
            serve_snapshot(settings, cluster, flags, address, port)
        else:
            serve_live(settings, address, port)
    except (InputError, SettingsError, ClusterError, OSError) as error:
        tell(f"error: {error}")
        raise typer.Exit(EXIT_UNREADABLE) from error


with_setting_flags(page, tuple(dict.fromkeys((*CLUSTER_SETTINGS, *DECISION_SETTINGS))))
