"""A gang for people: the domain and a line for each pod, or what is missing at each level.

in zone zone-a, rack rack-1
POD      RANK  NODE  NUMA  DOMAIN
train-0     0  n0    0     zone-a / rack-1
"""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from webhook.cli.render.printable import printable
from webhook.cli.render.text_table import Cell, indented, names_text, print_line, print_table
from webhook.engine.gang.result import GangAssignment, Path
from webhook.placing.gang.workload_judgement import WorkloadAssignment

_POD_HEADER = ("POD", "RANK", "NODE", "NUMA", "DOMAIN")
_WHY_HEADER = ("LEVEL", "DOMAIN", "HOLDS", "NEEDED", "SHORT OF")


def print_gangs(group: WorkloadAssignment, console: Console) -> None:
    """Print the gangs of a workload, without text that is already in the message."""
    for gang in group.gangs:
        if len(group.gangs) > 1:
            _print(f"gang {gang.name}: {'placed' if gang.assigned else 'no place'}", console)
        _print_gang(gang, console)
    for name, node in group.running.items():
        _print(f"{name} runs on {node}", console)


def _print_gang(gang: GangAssignment, console: Console) -> None:
    if not gang.assigned:
        why = [
            (
                short.level or "cluster",
                _values(short.domain) or "-",
                str(short.holds),
                str(short.needed),
                (short.resource or "usable nodes")
                + (f" ({short.held})" if short.segments else "")
                + (f", {short.part}" if short.part else ""),
            )
            for short in gang.why
        ]
        _print_columns([_WHY_HEADER, *why], console)
        return
    for part in gang.by_topology():
        if part.domain is not None and (path := part.tree.path(part.domain)):
            whose = f"{part.name} in topology {part.tree.topology.name}: " if gang.parts else "in "
            _print(whose + ", ".join(f"{label.rpartition('/')[2]} {value}" for label, value in path), console)
    pods = [
        (pod.name, str(pod.rank), pod.node, "+".join(map(str, pod.numa_nodes)) or "any", _values(pod.domain))
        for pod in gang.pods()
    ]
    if pods:
        _print_columns([_POD_HEADER, *pods], console)
    if unplaced := gang.unplaced():
        find = "finds" if len(unplaced) == 1 else "find"
        _print(f"{names_text(unplaced, most=8)} {find} no room now", console)


def _values(domain: Path) -> str:
    return " / ".join(value for _, value in domain)


def _print_columns(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """The rows in columns; numbers are right-aligned."""
    right = [all(cell.isdigit() for cell in column[1:]) for column in zip(*rows, strict=True)]
    print_table(
        indented(
            [[Cell(printable(text), right=number) for text, number in zip(row, right, strict=True)] for row in rows]
        ),
        console,
    )


def _print(text: str, console: Console) -> None:
    print_line(Text(f"  {printable(text)}"), console, hanging=4)
