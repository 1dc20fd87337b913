"""`topology-webhook waiting`: the pods and gangs that wait for a node, since when and why."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings
from webhook.cli.command import CLUSTER_SETTINGS, Output, Outputs, Snapshots, answering, read_cluster, warn, write
from webhook.cli.documents import InputError
from webhook.cli.printable import shortened
from webhook.cli.setting_flags import with_setting_flags
from webhook.cli.text_table import Cell, print_line, print_table, short_duration
from webhook.cli.watch_waiting import watch_waiting
from webhook.views.as_json import as_json
from webhook.views.waiting import WaitingView, WaitsFor, waiting_views

EXAMPLES: Final = """\b
Examples:
  topology-webhook waiting
  topology-webhook waiting --watch
  topology-webhook waiting --cluster cluster.yaml -o json
"""

# Columns of a terminal for a name and for a reason, which has up to 1,000 characters.
_NAME: Final = 64
_REASON: Final = 300


def waiting(
    cluster: Snapshots = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep printing, whenever what waits changes, until Ctrl-C.")
    ] = False,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Show the managed pods that wait for a node, the longest first: since when, for whom, and why.

    A gang is one line with its number of members. The reason is what the service wrote into the pod that has waited
    longest, and for a pod without a gate what the scheduler reports. With --watch, -o json prints one value a line.

    Exit code 0, also if nothing waits. 2: the input cannot be read, or the answer cannot be written.
    """
    with answering():
        if watch:
            if cluster:
                raise InputError("--watch and --cluster exclude each other: a snapshot does not change")
            watch_waiting(Settings.load(flags), output, _print)
            return
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        views = waiting_views(read.cache)
        write(output, {"waiting": as_json(views)}, lambda console: _print(views, console))


with_setting_flags(waiting, CLUSTER_SETTINGS)


def _print(views: Sequence[WaitingView], console: Console) -> None:
    if not views:
        print_line(Text("nothing waits"), console)
        return
    titles = ("NAMESPACE", "NAME", "PODS", "WAITS FOR", "SINCE", "WHY")
    header = [Cell(title, right=title in {"PODS", "SINCE"}) for title in titles]
    print_table([header, *map(_row, views)], console)


def _row(view: WaitingView) -> list[Cell]:
    count = f"{len(view.pods)}/{len(view.pods) + view.with_node}" if view.gang else "1"
    turns = {pod.waits_for for pod in view.pods}
    since = "?" if view.seconds is None else short_duration(view.seconds)
    return [
        Cell(shortened(view.namespace, _NAME)),
        Cell(shortened(view.name, _NAME), "bold" if view.gang else ""),
        Cell(count, right=True),
        Cell(",".join(turn for turn in WaitsFor if turn in turns)),
        Cell(since, right=True),
        Cell(shortened(view.reason, _REASON) or "-"),
    ]
