"""Topologies for people: a line for each domain, indented below its parent."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import Cell, bar, print_line, print_table, resource_title, short_amount, style_of
from webhook.model.counted import counted
from webhook.views.domains import DomainView, FreeAmounts, GangInDomain, TopologyView

# Columns of a terminal for the name of a domain and for its gangs. A label value has at most 63 characters.
_NAME = 64
_GANG = 40
_GANGS = 2


def print_trees(views: Sequence[TopologyView], console: Console) -> None:
    """Print the topologies, one after the other."""
    for number, view in enumerate(views):
        if number:
            print_line(Text(), console)
        _print_tree(view, console)


def _print_tree(view: TopologyView, console: Console) -> None:
    print_line(Text(_title(view), style="bold"), console)
    resources = [amounts.resource for amounts in view.root.amounts]
    header = [Cell("DOMAIN"), Cell("NODES", right=True)]
    for resource in resources:
        header += [Cell(f"{printable(resource_title(resource))} FREE/TOTAL", right=True), Cell("LARGEST", right=True)]
    rows = [[*header, Cell("GANGS")]]
    rows += [_row(domain, before, console) for domain, before in _walk(view.root, console)]
    print_table(rows, console)
    if view.domains_below:
        finer = (*view.levels, "node")[view.levels.index(view.depth) + 1 if view.depth else 0]
        level = printable(finer)
        hidden = counted(view.domains_below, f"domain of level {level} is", f"domains of level {level} are")
        line = f"{hidden} not shown: --depth {level}"
        print_line(Text(line, style="dim"), console)


def _title(view: TopologyView) -> str:
    if not view.name:
        return "no Topology in the cluster: its nodes"
    return f"{printable(view.name)} ({view.api_group}): {' > '.join(map(printable, view.levels))}"


def _walk(root: DomainView, console: Console) -> Iterator[tuple[DomainView, str]]:
    """Each domain, and what stands before its name."""
    if not console.is_terminal:
        branch, last, through, beside = "  ", "  ", "  ", "  "
    elif console.options.ascii_only:
        branch, last, through, beside = "|- ", "`- ", "|  ", "   "
    else:
        branch, last, through, beside = "├─ ", "└─ ", "│  ", "   "
    stack = [(root, "", "")]
    while stack:
        domain, before, below = stack.pop()
        yield domain, before
        for number, each in enumerate(reversed(domain.domains)):
            stack.append((each, below + (branch if number else last), below + (through if number else beside)))


def _row(domain: DomainView, before: str, console: Console) -> list[Cell]:
    nodes = str(domain.nodes) if domain.usable == domain.nodes else f"{domain.usable}/{domain.nodes}"
    cells = [Cell(before + _name(domain)), Cell(nodes, right=True)]
    for amounts in domain.amounts:
        cells += _amounts(amounts, console)
    return [*cells, Cell(_gangs(domain.gangs))]


def _name(domain: DomainView) -> str:
    if domain.level is None:
        return "cluster"
    return f"(without {shortened(domain.level, _NAME)})" if domain.value is None else shortened(domain.value, _NAME)


def _amounts(amounts: FreeAmounts, console: Console) -> list[Cell]:
    free, total = (short_amount(amounts.resource, each) for each in (amounts.free, amounts.total))
    filled = bar(amounts.total - amounts.free, amounts.total, console)
    largest = "-" if amounts.largest is None else short_amount(amounts.resource, amounts.largest)
    return [
        Cell(f"{filled}{free}/{total}", style_of(amounts.free, amounts.total), right=True),
        Cell(largest, right=True),
    ]


def _gangs(gangs: Sequence[GangInDomain]) -> str:
    shown = [
        f"{shortened(f'{gang.namespace}/{gang.name}', _GANG)} {gang.pods}"
        + ("" if gang.pods == gang.of else f"/{gang.of}")
        for gang in gangs[:_GANGS]
    ]
    more = [f"+{len(gangs) - _GANGS} more"] if len(gangs) > _GANGS else []
    return ", ".join([*shown, *more])
