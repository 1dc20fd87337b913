"""A gang for people: the domain and a line for each pod, or what is missing at each level.

in zone zone-a, rack rack-1
POD      RANK  NODE  NUMA  DOMAIN
train-0     0  n0    0     zone-a / rack-1
"""

from collections.abc import Iterator, Sequence

from webhook.engine.gang.result import GangAssignment, Path
from webhook.placing.gang.workload_judgement import WorkloadAssignment

_POD_HEADER = ("POD", "RANK", "NODE", "NUMA", "DOMAIN")
_WHY_HEADER = ("LEVEL", "DOMAIN", "HOLDS", "NEEDED", "SHORT OF")


def group_lines(group: WorkloadAssignment) -> Iterator[str]:
    """The lines of one gang, without text that is already in the message."""
    for gang in group.gangs:
        if len(group.gangs) > 1:
            yield f"  gang {gang.name}: {'placed' if gang.assigned else 'no place'}"
        yield from _gang(gang)
    for name, node in group.running.items():
        yield f"  {name} runs on {node}"


def _gang(gang: GangAssignment) -> Iterator[str]:
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
        yield from _columns([_WHY_HEADER, *why])
        return
    for part in gang.by_topology():
        if part.domain is not None and (path := part.tree.path(part.domain)):
            whose = f"{part.name} in topology {part.tree.topology.name}: " if gang.parts else "in "
            yield f"  {whose}" + ", ".join(f"{label.rpartition('/')[2]} {value}" for label, value in path)
    pods = [
        (pod.name, str(pod.rank), pod.node, "+".join(map(str, pod.numa_nodes)) or "any", _values(pod.domain))
        for pod in gang.pods()
    ]
    if pods:
        yield from _columns([_POD_HEADER, *pods])
    for name in gang.unplaced():
        yield f"  {name} finds no room now"


def _values(domain: Path) -> str:
    return " / ".join(value for _, value in domain)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The rows in columns; numbers are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(cell.isdigit() for cell in column[1:]) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            f"{cell:>{width}}" if number else f"{cell:{width}}"
            for cell, width, number in zip(row, widths, right, strict=True)
        )
        yield f"  {'  '.join(cells)}".rstrip()
