"""A node's NUMA nodes side by side, each a box with what is used of it and by which pods; as many as fit in a row."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from webhook.cli.printable import shortened
from webhook.cli.text_table import bar, print_line, resource_title, short_amount, style_of
from webhook.model.counted import counted
from webhook.views.nodes import NodeDetails, NUMANodeView, PodOnNode

# Inside of a box: a resource's name, a bar of 8, and "63.9Gi/128Gi".
_WIDTH: Final = 34
_RESOURCE: Final = 12
_PODS: Final = 8

_Line = tuple[str, str]
"""The text of a line in a box, and its style."""


def print_picture(details: NodeDetails, console: Console) -> None:
    """Print the boxes."""
    boxes = [_box(numa_node, details.pods, console) for numa_node in details.node.numa_nodes]
    in_row = max(1, console.width // (_WIDTH + 5))
    for first in range(0, len(boxes), in_row):
        for line in _side_by_side(boxes[first : first + in_row], console):
            print_line(line, console)


def _box(numa_node: NUMANodeView, pods: Sequence[PodOnNode], console: Console) -> tuple[str, list[_Line]]:
    """The title and the lines of a box."""
    lines: list[_Line] = []
    for each in numa_node.amounts:
        title = shortened(resource_title(each.resource), _RESOURCE)
        filled = bar(each.allocatable - each.free, each.allocatable, console)
        free, whole = (short_amount(each.resource, amount) for amount in (each.free, each.allocatable))
        lines.append((f"{title:{_RESOURCE}} {filled}{free}/{whole}", style_of(each.free, each.allocatable)))
    holders = [pod for pod in pods if any(share.id == numa_node.id for share in pod.numa_nodes or ())]
    lines += [(shortened(f"{pod.namespace}/{pod.name}", _WIDTH), "") for pod in holders[:_PODS]]
    if len(holders) > _PODS:
        lines.append((f"+{counted(len(holders) - _PODS, 'more pod')}", "dim"))
    return f"NUMA {numa_node.id}", lines


def _side_by_side(boxes: Sequence[tuple[str, list[_Line]]], console: Console) -> Iterator[Text]:
    ascii_only = console.options.ascii_only
    across, beside = ("-", "|") if ascii_only else ("─", "│")
    top, bottom = ("++", "++") if ascii_only else ("┌┐", "└┘")
    yield Text(" ".join(f"{top[0]}{across} {title} {across * (_WIDTH - len(title) - 1)}{top[1]}" for title, _ in boxes))
    for number in range(max(len(lines) for _, lines in boxes)):
        row = Text()
        for position, (_, lines) in enumerate(boxes):
            text, style = lines[number] if number < len(lines) else ("", "")
            row.append((" " if position else "") + f"{beside} ")
            row.append(text, style=style)
            row.append(" " * max(0, _WIDTH - cell_len(text)) + f" {beside}")
        yield row
    yield Text(" ".join(f"{bottom[0]}{across * (_WIDTH + 2)}{bottom[1]}" for _ in boxes))
