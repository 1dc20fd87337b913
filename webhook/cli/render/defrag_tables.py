"""The plan of `defrag` for people."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.text import Text

from webhook.cli.offline.defrag_plan import Plan
from webhook.cli.render.printable import shortened
from webhook.cli.render.text_table import Cell, print_line, print_table
from webhook.placing.move_plan import Unmovable
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
    """What would start where, then the pods that move."""
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
