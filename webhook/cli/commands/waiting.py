"""`topology-webhook waiting`: the pods and gangs that wait for a node, since when and why.

`topology-webhook waiting --watch`: print what waits again whenever it changes, until Ctrl-C.

Changes that follow each other within a moment are printed once. A terminal is cleared before each table; elsewhere
tables follow each other. JSON is one value a line.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from webhook.app.rules_of_settings import rules_of
from webhook.app.settings import Settings
from webhook.app.signals import stop_event
from webhook.cli.command import (
    CLUSTER_SETTINGS,
    Output,
    Outputs,
    Snapshots,
    answering,
    read_cluster,
    tell,
    warn,
    write,
    writing,
)
from webhook.cli.input.documents import InputError
from webhook.cli.input.followed_cluster import FollowedCluster, followed
from webhook.cli.offline.what_frees import owners_of_first, with_frees
from webhook.cli.render.printable import shortened
from webhook.cli.render.text_table import Cell, print_line, print_table, short_duration
from webhook.cli.setting_flags import with_setting_flags
from webhook.kube.api_errors import ClusterError
from webhook.model.counted import counted
from webhook.views.as_json import as_json
from webhook.views.waiting import Frees, Helps, Slots, WaitingView, WaitsFor, waiting_views

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


EXAMPLES: Final = """\b
Examples:
  topology-webhook waiting
  topology-webhook waiting --watch
  topology-webhook waiting --what-frees 50
  topology-webhook waiting --cluster cluster.yaml -o json
"""

# Columns of a terminal for a name and for a reason, which has up to 1,000 characters.
_NAME: Final = 64
_REASON: Final = 300
_HELP: Final = 500
# Pods named in a line.
_PODS: Final = 5


def waiting(
    cluster: Snapshots = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print the list again whenever it changes, until Ctrl-C.")
    ] = False,
    what_frees: Annotated[
        int,
        typer.Option(
            "--what-frees",
            min=0,
            metavar="NUMBER",
            help="For how many entries, from the first, to find what would let them run.",
        ),
    ] = 5,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Show which pods and gangs have no node yet, and why.

    These are the managed pods that are not bound, the oldest first, with what has to act next. A gang is one line
    with its number of members. The reason is what the service wrote into the oldest pod, or, for a pod without a
    gate, what the scheduler reports. For the first entries, you also see which pods would have to terminate to let
    them run, except with --watch, with which -o json prints one value a line.

    The exit code is 0, even if nothing waits, or 2 if the input cannot be read or the answer cannot be written.
    """
    with answering():
        if watch:
            if cluster:
                raise InputError("--watch and --cluster exclude each other: a snapshot does not change")
            watch_waiting(Settings.load(flags), output, _print)
            return
        settings = Settings.load(flags)
        read = read_cluster(cluster or [], settings, flags, also=owners_of_first(what_frees))
        warn(read)
        views = with_frees(waiting_views(read.cache), what_frees, read, rules_of(settings))
        write(output, {"waiting": as_json(views)}, lambda console: _print(views, console))


# Those that affect the engine's answers, too.
with_setting_flags(waiting, (*CLUSTER_SETTINGS, "fidelity", "gang_strategy", "not_alignable", "unenforced"))


def _print(views: Sequence[WaitingView], console: Console) -> None:
    if not views:
        print_line(Text("nothing is waiting"), console)
        return
    titles = ("NAMESPACE", "NAME", "PODS", "WAITS FOR", "SINCE", "WHY")
    header = [Cell(title, right=title in {"PODS", "SINCE"}) for title in titles]
    print_table([header, *map(_row, views)], console)
    if any(view.frees is not None for view in views):
        print_line(Text(), console)
        print_line(Text("WHAT WOULD LET THEM RUN", style="bold"), console)
        for view in views:
            if view.frees is not None:
                name = shortened(f"{view.namespace}/{view.name}", 2 * _NAME)
                print_line(Text(f"{name}: {shortened(_help(view.frees), _HELP)}"), console)


def _help(frees: Frees) -> str:
    match frees.helps:
        case Helps.NOTHING_NEEDED:
            return f"it fits now{f' on {frees.node}' if frees.node else ''}; no pod has to terminate"
        case Helps.PODS:
            more = f" and {len(frees.pods) - _PODS} more" if len(frees.pods) > _PODS else ""
            least = "" if frees.at_least == len(frees.pods) else f"; fewer may do, but at least {frees.at_least}"
            named = ", ".join(frees.pods[:_PODS])
            pods = counted(len(frees.pods), "pod")
            return f"{pods} on {frees.node} would have to terminate: {named}{more}{least}"
        case Helps.SLOTS:
            return "; ".join(map(_slots, frees.slots))
        case Helps.NO_END:
            return "terminating pods with known NUMA nodes would not help" + (f": {frees.why}" if frees.why else "")
        case _:
            return f"not known: {frees.why or 'no answer within the limits'}"


def _slots(slots: Slots) -> str:
    where = slots.level.rpartition("/")[2] or "the cluster"
    path = " / ".join(value for _, value in slots.domain)
    short = f", short of {slots.resource}" if slots.resource else ""
    return f"{where}{' ' if path else ''}{path} has room for {slots.holds} of {counted(slots.needed, 'pod')}{short}"


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
