"""Nodes for people: a line for each; of a single node its NUMA nodes side by side, its pods and reservations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import (
    Cell,
    bar,
    names_text,
    print_line,
    print_table,
    resource_title,
    short_amount,
    short_duration,
    style_of,
)
from webhook.model.wording import counted
from webhook.views.nodes import (
    DeviceView,
    NodeDetails,
    NodeView,
    NUMANodeAmount,
    NUMANodeView,
    NUMAShare,
    PodOnNode,
    ReservationView,
)

# Inside of a box: a resource's name, a bar of 8, and "63.9Gi/128Gi".
_WIDTH: Final = 34
_RESOURCE: Final = 12
_PODS: Final = 8

_Line = tuple[str, str]
"""The text of a line in a box, and its style."""


def print_picture(details: NodeDetails, console: Console) -> None:
    """Print a node's NUMA nodes side by side, as many as fit in a row.

    Each is a box with what is used of it and by which pods.
    """
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


# Columns of a terminal for a name.
_NAME = 64
_MANAGER = 32
_TAINTS = 5
_TEXT = 1_000


def print_nodes(nodes: Sequence[NodeView], console: Console) -> None:
    """Print a line for each node, and below what holds for all of them."""
    resources = list(dict.fromkeys(amount.resource for node in nodes for amount in node.amounts))
    reports = [node.topology for node in nodes if node.topology is not None]
    writers = {report.written_by for report in reports}
    aged = any(report.age_seconds is not None for report in reports)
    titles = ["NODE", *(["STATUS"] if any(map(_is_unusual, nodes)) else []), "POLICY", "SCOPE"]
    titles += [*(["NRT AGE"] if aged else []), *(["WRITTEN BY"] if len(writers) > 1 else []), "PODS"]
    header = [Cell(title, right=title in {"NRT AGE", "PODS"}) for title in titles]
    header += [Cell(f"{printable(resource_title(resource))} FREE BY NUMA NODE") for resource in resources]
    rows = [[_cell(title, node) for title in titles] for node in nodes]
    free = [[_free(resource, node.numa_nodes) for resource in resources] for node in nodes]
    print_table([header, *(left + right for left, right in zip(rows, free, strict=True))], console)
    if differing := [shortened(node.name, _NAME) for node in nodes if node.policies_disagree]:
        text = f"* the label counts, and the NodeResourceTopology differs: {names_text(differing)}"
        print_line(Text(text, style="red"), console)
    if missing := [node.name for node in nodes if node.topology is None]:
        text = f"without a NodeResourceTopology (NRT): {names_text([shortened(name, _NAME) for name in missing])}"
        print_line(Text(text, style="red"), console)
    if len(writers) == 1 and (writer := shortened(next(iter(writers)), _MANAGER)):
        print_line(Text(f"the NodeResourceTopologies are written by {writer}", style="dim"), console)
    if reports and not aged:
        text = "ages of NodeResourceTopologies are not known: kubectl get prints them with --show-managed-fields"
        print_line(Text(text, style="dim"), console)


def _is_unusual(node: NodeView) -> bool:
    return node.cordoned or not node.ready


def _cell(title: str, node: NodeView) -> Cell:
    report = node.topology
    match title:
        case "NODE":
            return Cell(shortened(node.name, _NAME))
        case "STATUS":
            return Cell(_status(node), "yellow" if _is_unusual(node) else "")
        case "POLICY":
            return Cell(
                node.policy + ("*" if node.policies_disagree else ""),
                "red" if node.policy == "unknown" or node.policies_disagree else "",
            )
        case "SCOPE":
            return Cell("-" if report is None else node.scope)
        case "NRT AGE":
            return Cell(_age(node), "red" if report is None else "", right=True)
        case "WRITTEN BY":
            return Cell("-" if report is None else shortened(report.written_by, _MANAGER) or "unknown")
        case _:
            return Cell(str(node.pods), right=True)


def _status(node: NodeView) -> str:
    return ("Ready" if node.ready else "NotReady") + (", cordoned" if node.cordoned else "")


def _policy(node: NodeView) -> str:
    return node.policy + (" (label and NRT differ)" if node.policies_disagree else "")


def _age(node: NodeView) -> str:
    if node.topology is None:
        return "no NRT"
    return "unknown" if node.topology.age_seconds is None else short_duration(node.topology.age_seconds)


def _free(resource: str, numa_nodes: Iterable[NUMANodeView]) -> Cell:
    found = [_amount_of(resource, numa_node) for numa_node in numa_nodes]
    texts = ["-" if each is None else short_amount(resource, each.free) for each in found]
    listed = [each for each in found if each is not None]
    if not listed:
        return Cell("-")
    most = short_amount(resource, max(each.allocatable for each in listed))
    free, whole = max(each.free for each in listed), sum(each.allocatable for each in listed)
    return Cell(f"{' '.join(texts)} (of {most})", style_of(free, whole) if free <= 0 else "")


def _amount_of(resource: str, numa_node: NUMANodeView) -> NUMANodeAmount | None:
    return next((each for each in numa_node.amounts if each.resource == resource), None)


def print_details(details: NodeDetails, console: Console) -> None:
    """Print a node."""
    node = details.node
    print_line(Text(f"{shortened(node.name, _NAME)}: {_status(node)}", style="bold"), console)
    source = {"Label": "by its label", "NodeResourceTopology": "by its NRT", "None": "none published"}
    print_line(Text(f"policy   {_policy(node)}, {source[node.policy_source]}; scope {node.scope}"), console)
    print_line(Text(f"NRT      {_report(node)}"), console)
    for each in node.managers:
        print_line(Text(f"{each.manager:8} manager: {shortened(each.text, _TEXT)}"), console)
    for options in node.kubelet_options:
        known = ", ".join(f"{name}={value}" for name, value in options.options.items())
        evidence = f"{options.source.lower()}: {shortened(options.text, _TEXT)}"
        print_line(Text(f"options  {known} ({evidence})"), console)
    if node.taints:
        more = f" +{len(node.taints) - _TAINTS} more" if len(node.taints) > _TAINTS else ""
        taints = ", ".join(shortened(taint, 2 * _NAME) for taint in node.taints[:_TAINTS])
        print_line(Text(f"taints   {taints}{more}"), console)
    rows = [
        [
            Cell(printable(each.resource)),
            Cell(short_amount(each.resource, each.free), style_of(each.free, each.allocatable), right=True),
            Cell(short_amount(each.resource, each.allocatable), right=True),
        ]
        for each in node.amounts
    ]
    _print_rows(("NODE AS A WHOLE", "FREE", "ALLOCATABLE"), rows, console, right={1, 2})
    if console.is_terminal and node.numa_nodes:
        print_line(Text(), console)
        print_picture(details, console)
    else:
        _print_numa_nodes(details, console)
    _print_rows(("POD", "QOS", "POLICY", "NUMA", "KNOWN", "REQUESTS"), map(_pod, details.pods), console)
    _print_rows(("RESERVED FOR", "STATE", "NUMA", "AMOUNTS"), map(_reservation, details.reservations), console)
    devices = sorted(details.devices, key=lambda one: (one.numa_node is None, one.numa_node or 0))
    _print_rows(("DEVICE", "NUMA", "STATE", "CLAIM", "POD"), map(_device, devices), console)


def _report(node: NodeView) -> str:
    report = node.topology
    if report is None:
        return "none: nothing is known of its NUMA nodes"
    writer = f" by {shortened(report.written_by, _MANAGER)}" if report.written_by else ""
    written = "written at an unknown time" if report.age_seconds is None else f"written {_age(node)} ago"
    meaning = "free amounts" if report.published == "Free" else "totals, pods are subtracted here"
    named = "names the pods that it reports" if report.has_fingerprint else "does not name the pods that it reports"
    return f"{written}{writer}; publishes {meaning}; {named}"


def _print_numa_nodes(details: NodeDetails, console: Console) -> None:
    rows = [
        [
            Cell(str(numa_node.id), right=True),
            Cell(printable(each.resource)),
            Cell(short_amount(each.resource, each.free), style_of(each.free, each.allocatable), right=True),
            Cell(short_amount(each.resource, each.allocatable), right=True),
            Cell(short_amount(each.resource, each.capacity), right=True),
        ]
        for numa_node in details.node.numa_nodes
        for each in numa_node.amounts
    ]
    _print_rows(("NUMA", "RESOURCE", "FREE", "ALLOCATABLE", "CAPACITY"), rows, console, right={0, 2, 3, 4})


def _print_rows(
    titles: Sequence[str], rows: Iterable[list[Cell]], console: Console, right: frozenset[int] | set[int] = frozenset()
) -> None:
    found = list(rows)
    if found:
        print_line(Text(), console)
        print_table([[Cell(title, right=number in right) for number, title in enumerate(titles)], *found], console)


def _pod(pod: PodOnNode) -> list[Cell]:
    numa = "-" if pod.numa_nodes is None else _ids(pod.numa_nodes)
    name = shortened(f"{pod.namespace}/{pod.name}", 2 * _NAME)
    known = pod.numa_source.value if pod.numa_source else "-"
    if pod.ignored_observation:
        known += f", observation ignored: {pod.ignored_observation}"
    return [
        Cell(name), Cell(pod.qos), Cell(pod.policy or "-"), Cell(numa), Cell(known), Cell(amounts_text(pod.requests))
    ]  # fmt: skip


def _reservation(reservation: ReservationView) -> list[Cell]:
    held: dict[str, int] = dict(reservation.requests)
    for share in reservation.numa_nodes:
        for resource, amount in share.amounts.items():
            held[resource] = max(held.get(resource, 0), 0) + (0 if reservation.requests else amount)
    name = shortened(f"{reservation.namespace}/{reservation.name}", 2 * _NAME)
    state = "bound, not reported yet" if reservation.bound else "not bound yet"
    return [Cell(name), Cell(state), Cell(_ids(reservation.numa_nodes) or "-"), Cell(amounts_text(held))]


def _device(device: DeviceView) -> list[Cell]:
    state = "held" if device.claims else ("tainted" if device.taints else "free")
    return [
        Cell(shortened(f"{device.driver}/{device.pool}/{device.name}", 2 * _NAME)),
        Cell("-" if device.numa_node is None else str(device.numa_node)),
        Cell(state, "" if device.claims else ("yellow" if device.taints else "green")),
        Cell(_some(device.claims)),
        Cell(_some(device.pods)),
    ]


def _some(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    more = f" +{len(names) - 1} more" if len(names) > 1 else ""
    return f"{shortened(names[0], 2 * _NAME)}{more}" if names else "-"


def _ids(shares: Sequence[NUMAShare]) -> str:
    return "+".join(str(share.id) for share in shares)


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts in a line: "8 cpu, 16Gi memory"; zeros are left out."""
    ordered = sorted(amounts.items(), key=lambda item: ("/" in item[0], item[0]))
    return ", ".join(f"{short_amount(name, amount)} {shortened(name, _NAME)}" for name, amount in ordered if amount)
