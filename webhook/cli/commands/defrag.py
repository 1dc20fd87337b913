"""`topology-webhook defrag`: the fewest running pods to move so that what waits can start; moved only on request."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import typer
from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings, rules_of
from webhook.cli.command import answering, read_cluster, tell, warn, working, write
from webhook.cli.evictions import evict_all
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError, Item, Source
from webhook.cli.input.live_cluster import objects, read_owners
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.defrag_plan import Plan, plan_moves
from webhook.cli.render.printable import shortened
from webhook.cli.render.text_table import Cell, print_line, print_table
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.placing.move_plan import Unmovable
from webhook.views.as_json import as_json
from webhook.views.defragmentation import DefragmentationView, Defragments, PlaceView

# Columns of a terminal for a name.
_NAME: Final = 64
_REASON: Final = 300
# Places of a gang named in a line.
_PLACES: Final = 4

_UNMOVABLE: Final = {
    Unmovable.NO_CONTROLLER: "without a ReplicaSet, StatefulSet or ReplicationController",
    Unmovable.DAEMON_SET: "of DaemonSets",
    Unmovable.SYSTEM_CRITICAL: "system-critical",
    Unmovable.GANG: "in gangs",
    Unmovable.UNMANAGED: "unmanaged",
    Unmovable.SCHEDULER: "with constraints that only the scheduler can judge",
    Unmovable.PROTECTED: "with an annotation against eviction",
    Unmovable.BUDGETS: "protected by PodDisruptionBudgets",
    Unmovable.NOT_RUNNING: "not running, or not readable",
}


def print_plan(plan: Plan, console: Console) -> None:
    """Print the plan: what would start where, then the pods that move."""
    if not plan.views:
        print_line(Text("nothing is waiting"), console)
        return
    header = [Cell(title, right=title in {"PODS", "MOVES"}) for title in ("NAMESPACE", "NAME", "PODS", "MOVES", "PLAN")]
    print_table([header, *map(_row, plan.views)], console)
    if plan.left_out:
        print_line(Text(f"{plan.left_out} more are waiting; --first NUMBER plans for more"), console)
    if plan.moves:
        print_line(Text(), console)
        titles = [Cell(title) for title in ("POD THAT MOVES", "FROM", "COULD GO TO", "WHY")]
        rows = [
            [
                Cell(shortened(f"{move.namespace}/{move.name}", 2 * _NAME)),
                Cell(_where(move.node, move.numa_nodes)),
                Cell(_where(move.to_node, move.to_numa_nodes)),
                Cell(shortened(move.why, 3 * _NAME)),
            ]
            for move in plan.moves
        ]
        print_table([titles, *rows], console)
    if any(view.verdict in {Defragments.NO_MOVES, Defragments.NOT_FOUND} for view in plan.views):
        counts = ", ".join(f"{count} {_UNMOVABLE[why]}" for why, count in sorted(plan.running.unmovable.items()))
        if counts:
            print_line(Text(), console)
            print_line(Text(f"pods that are not moved: {counts}"), console)


def _row(view: DefragmentationView) -> list[Cell]:
    return [
        Cell(shortened(view.namespace, _NAME)),
        Cell(shortened(view.name, _NAME), "bold" if view.gang else ""),
        Cell(str(view.pods), right=True),
        Cell(str(len(view.moves)) if view.verdict in {Defragments.FITS, Defragments.MOVES} else "-", right=True),
        Cell(shortened(_plan(view), _REASON)),
    ]


def _plan(view: DefragmentationView) -> str:
    match view.verdict:
        case Defragments.FITS:
            return f"fits without moves: {_places(view.starts)}"
        case Defragments.MOVES:
            least = "" if view.at_least == len(view.moves) else f"; fewer may do, but at least {view.at_least}"
            return f"starts on {_places(view.starts)}{least}"
        case _:
            return view.why


def _places(places: Iterable[PlaceView]) -> str:
    found = list(dict.fromkeys(_where(place.node, place.numa_nodes) for place in places))
    more = f" and {len(found) - _PLACES} more" if len(found) > _PLACES else ""
    return "; ".join(found[:_PLACES]) + more


def _where(node: str, numa_nodes: Iterable[int]) -> str:
    ids = ",".join(map(str, numa_nodes))
    return f"{node}, NUMA {ids}" if ids else node


EXIT_NO_PLAN: Final = 1

_PODS: Final = Resource("", "v1", "pods")
_RUNNING: Final = "status.phase=Running"
_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets")


def defrag(cluster: list[str] | None, first: int, apply: bool, output: Output, **flags: str | None) -> None:
    """Print the plan, and carry it out if asked to."""
    with answering():
        if apply and cluster:
            raise InputError("--apply and --cluster exclude each other: pods of a snapshot cannot be evicted")
        settings = Settings.load(flags)
        live = _LivePods()
        read = read_cluster(cluster or [], settings, flags, also=live.read)
        warn(read)
        pods = live.pods if not cluster else [raw for raw in read.others if raw.get("kind") == "Pod"]
        with working("planning moves"):
            plan = plan_moves(read, pods, rules_of(settings), first)
        with working("evicting"):
            evicted = _apply(plan, settings) if apply else []
        write(output, _as_json(plan, evicted, applied=apply), lambda console: print_plan(plan, console))
        if apply and output is Output.TABLE:
            for key in evicted:
                print(f"evicted {key}")
    if any(view.verdict not in {Defragments.FITS, Defragments.MOVES} for view in plan.views):
        raise typer.Exit(EXIT_NO_PLAN)


class _LivePods:
    """Reads what a plan needs beyond the rest of a live cluster."""

    def __init__(self) -> None:
        self.pods: list[Mapping[str, Any]] = []

    async def read(self, cluster: Cluster, client: Client) -> None:
        """The objects of running pods, the PodDisruptionBudgets, and the owners of pods that wait."""
        self.pods = [raw async for raw in objects(client, _PODS.path, _RUNNING)]
        try:
            async for raw in objects(client, _BUDGETS.path, ""):
                cluster.add_disruption_budget(raw)
        except (APIError, UserError) as error:
            cluster.warnings.append(f"PodDisruptionBudgets cannot be read, so the plan counts none: {error}")
        source = Source(client.host, "")
        items = [Item(source, 1, 1, "", {"apiVersion": "v1", "kind": "Pod", **raw}) for raw in cluster.gated.values()]
        await read_owners(cluster, client, items)


def _apply(plan: Plan, settings: Settings) -> Sequence[str]:
    """Evict the pods of the plan. Raises InputError if one cannot be evicted."""
    if not plan.evictions:
        return []
    try:
        done = asyncio.run(evict_all(settings, plan.evictions))
    except ClusterError as error:
        raise InputError(str(error)) from error
    if done.refused:
        for key in done.evicted:
            tell(f"evicted {key}")
        raise InputError(f"{done.refused}. {'No other' if done.evicted else 'No'} pod was evicted")
    return done.evicted


def _as_json(plan: Plan, evicted: Sequence[str], *, applied: bool) -> Mapping[str, Any]:
    return {
        "plan": as_json(plan.views),
        "leftOut": plan.left_out,
        "unmovable": as_json(dict(sorted(plan.running.unmovable.items()))),
        "applied": applied,
        "evicted": list(evicted),
    }
