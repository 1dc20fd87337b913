"""`topology-webhook waiting --watch`: print what waits again whenever it changes, until Ctrl-C.

Changes that follow each other within a moment are printed once. A terminal is cleared before each table; elsewhere
tables follow each other. JSON is one value a line.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console

from webhook.app.settings import Settings
from webhook.app.signals import stop_event
from webhook.cli.command import Output, tell, writing
from webhook.cli.documents import InputError
from webhook.cli.followed_cluster import FollowedCluster, followed
from webhook.kube.api_errors import ClusterError
from webhook.views.as_json import as_json
from webhook.views.waiting import WaitingView, waiting_views

_PAUSE_SECONDS: Final = 0.5

Printer = Callable[[Sequence[WaitingView], Console], None]


def watch_waiting(settings: Settings, output: Output, print_views: Printer) -> None:
    """Print until a signal. Raises InputError."""
    if output is Output.YAML:
        raise InputError("--watch: -o yaml cannot be followed. Use -o json, which prints one value a line")
    try:
        asyncio.run(_watch(settings, output, print_views))
    except ClusterError as error:
        raise InputError(str(error)) from error


async def _watch(settings: Settings, output: Output, print_views: Printer) -> None:
    stop = asyncio.ensure_future(stop_event().wait())
    async with followed(settings) as cluster:
        told: tuple[str, ...] = ()
        synced = asyncio.ensure_future(cluster.synced())
        shown: object = None
        while not stop.done():
            if (errors := cluster.errors()) != told:
                for error in errors:
                    tell(f"warning: {error}")
                told = errors
            if synced.done():
                shown = _print_if_changed(cluster, output, print_views, shown)
            await asyncio.wait({stop}, timeout=_PAUSE_SECONDS)
        synced.cancel()


def _print_if_changed(cluster: FollowedCluster, output: Output, print_views: Printer, shown: object) -> object:
    """Print what waits unless it was printed before; returns what is printed now. Ages alone are no change."""
    views = waiting_views(cluster.cache)
    now = [_without_ages(view) for view in views]
    if now == shown:
        return shown
    with writing():
        if output is Output.JSON:
            sys.stdout.write(json.dumps({"waiting": as_json(views)}, ensure_ascii=False) + "\n")
        else:
            console = Console(highlight=False)
            if console.is_terminal:
                console.clear()
            elif shown is not None:
                console.print()
            print_views(views, console)
    return now


def _without_ages(view: WaitingView) -> WaitingView:
    pods = sorted((replace(pod, seconds=None) for pod in view.pods), key=lambda pod: pod.name)
    return replace(view, seconds=None, pods=tuple(pods))
