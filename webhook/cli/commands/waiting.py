"""`topology-webhook waiting`: the pods and gangs that wait for a node, since when and why.

1. Each pod or gang that waits is a line.
2. For the first of them, the engine's own answers say what would let them run (`with_frees`).
3. With `--watch`, what waits is printed again whenever it changes, until Ctrl-C (`watch_waiting`).
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings, rules_of
from webhook.app.signals import stop_event
from webhook.cli.command import answering, read_cluster, tell, warn, working, write, writing
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError, Item, Source
from webhook.cli.input.followed_cluster import FollowedCluster, followed
from webhook.cli.input.live_cluster import Also, read_owners
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.bare_pods import judge_waiting
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.render.printable import shortened
from webhook.cli.render.text_table import Cell, print_line, print_table, short_duration
from webhook.engine.freeing import NoSet
from webhook.formats.kubernetes.placed_condition import placed_condition
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.model.errors import UserError
from webhook.model.wording import counted
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.wait_reason import WaitReason
from webhook.state.rules import Rules
from webhook.views.as_json import as_json
from webhook.views.waiting import Frees, Helps, Slots, WaitingView, WaitsFor, waiting_views


def owners_of_first(count: int) -> Also:
    """Reads the owners of the first entries from a live cluster."""

    async def read(cluster: Cluster, client: Client) -> None:
        waiting = cluster.cache.waiting_pods()
        first = waiting_views(cluster.cache)[:count]
        raws = [waiting[f"{view.namespace}/{pod.name}"] for view in first for pod in view.pods]
        source = Source(client.host, "")
        items = [Item(source, 1, 1, "", {"apiVersion": "v1", "kind": "Pod", **raw}) for raw in raws]
        await read_owners(cluster, client, items)

    return read


def with_frees(views: Sequence[WaitingView], count: int, cluster: Cluster, rules: Rules) -> list[WaitingView]:
    """The views, the first of them with what would let them run.

    - A single pod: the smallest set of pods on one node whose end lets it run (`webhook.engine.freeing`).
    - A gang: how many of its pods the best domain of each level has room for. The smallest set for a whole gang would
      take a search over all combinations of nodes.

    Equal pods have the same answer, so it is computed once.
    """
    finder = _Finder(cluster, rules)
    return [*(replace(view, frees=finder.find(view)) for view in views[:count]), *views[count:]]


class _Finder:
    def __init__(self, cluster: Cluster, rules: Rules) -> None:
        self._around = JudgementContext.of(cluster, rules)
        self._planner = self._around.planner
        self._known: dict[object, Frees] = {}

    def find(self, view: WaitingView) -> Frees | None:
        """What would let the entry run; None if it has a node."""
        waiting = [pod for pod in view.pods if not pod.node]
        if not waiting:
            return None
        if any(pod.waits_for is WaitsFor.OTHER_GATES for pod in waiting):
            return Frees(Helps.UNKNOWN, why="another gate has to be removed first")
        raw = self._planner.state.waiting_pods()[f"{view.namespace}/{waiting[0].name}"]
        try:
            gated = self._around.gated(raw)
        except UserError as error:
            return Frees(Helps.UNKNOWN, why=" ".join(map(str, error.faults)))
        if gated.membership is not None:
            if placed_condition(raw).get("reason") == WaitReason.SHARD:
                return Frees(Helps.UNKNOWN, why="its leader found room in other shards only")
            return self._of_gang(gated)
        if gated.claims is not None:  # the search knows no devices of claims, and would call them taken
            return Frees(Helps.UNKNOWN, why="the search does not cover the devices that its resource claims need")
        return self._of_pod(gated)

    def _of_pod(self, gated: GatedPod) -> Frees:
        signature = gated.signature
        if signature not in self._known:
            found = self._planner.frees(gated)
            if isinstance(found, NoSet):
                self._known[signature] = Frees(Helps.NO_END if found.certain else Helps.UNKNOWN)
            else:
                helps = Helps.PODS if found.pods else Helps.NOTHING_NEEDED
                self._known[signature] = Frees(helps, found.node, found.pods, found.at_least)
        return self._known[signature]

    def _of_gang(self, gated: GatedPod) -> Frees:
        judged = judge_waiting(gated, self._around)
        if judged.verdict is Verdict.ALLOW:
            return Frees(Helps.NOTHING_NEEDED)
        placement = judged.placement
        if placement is None or placement.assigned:
            return Frees(Helps.UNKNOWN, why=judged.message)
        slots = tuple(Slots(one.level, one.domain, one.holds, one.needed, one.resource) for one in placement.why)
        if placement.fits_when_empty is False:
            return Frees(Helps.NO_END, slots=slots, why=judged.message)
        return Frees(Helps.SLOTS, slots=slots)


_PAUSE_SECONDS: Final = 0.5

Printer = Callable[[Sequence[WaitingView], Console], None]


def watch_waiting(settings: Settings, output: Output, print_views: Printer) -> None:
    """Print what waits, again whenever it changes, until a signal. Raises InputError.

    Changes that follow each other within a moment are printed once. A terminal is cleared before each table; elsewhere
    tables follow each other. JSON is one value a line.
    """
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


# Columns of a terminal for a name and for a reason, which has up to 1,000 characters.
_NAME: Final = 64
_REASON: Final = 300
_HELP: Final = 500
# Pods named in a line.
_PODS: Final = 5


def waiting(cluster: list[str] | None, watch: bool, what_frees: int, output: Output, **flags: str | None) -> None:
    """Print what waits, once or whenever it changes."""
    with answering():
        if watch:
            if cluster:
                raise InputError("--watch and --cluster exclude each other: a snapshot does not change")
            watch_waiting(Settings.load(flags), output, _print)
            return
        settings = Settings.load(flags)
        read = read_cluster(cluster or [], settings, flags, also=owners_of_first(what_frees))
        warn(read)
        with working("finding what would let them run"):
            views = with_frees(waiting_views(read.cache), what_frees, read, rules_of(settings))
        write(output, {"waiting": as_json(views)}, lambda console: _print(views, console))


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
            why = f": {frees.why}" if frees.why else ""
            return f"it would not fit even if every pod whose NUMA nodes are known terminated{why}"
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
