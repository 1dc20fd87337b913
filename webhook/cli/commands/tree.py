"""`topology-webhook tree`: the domains of each topology, with what is free in them."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings
from webhook.cli.command import answering, read_cluster, resources_of, warn, working, write
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError
from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import (
    Cell,
    bar,
    fits,
    print_line,
    print_table,
    resource_title,
    short_amount,
    style_of,
)
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.wording import counted, did_you_mean, quoted
from webhook.state.cluster_cache import ClusterCache
from webhook.views.as_json import as_json
from webhook.views.domains import (
    DomainView,
    FreeAmounts,
    GangInDomain,
    TopologyView,
    depth_of,
    topology_view,
    tree_of,
    usual_depth,
)

# Columns of a terminal for the name of a domain and for its gangs. A label value has at most 63 characters.
_NAME = 64
_GANG = 40
_GANGS = 2


def print_trees(views: Sequence[TopologyView], console: Console) -> None:
    """Print the topologies, one after the other: a line for each domain, indented below its parent."""
    for number, view in enumerate(views):
        if number:
            print_line(Text(), console)
        _print_tree(view, console)


def _print_tree(view: TopologyView, console: Console) -> None:
    print_line(Text(_title(view), style="bold"), console)
    header = [Cell("DOMAIN"), Cell("NODES", right=True)]
    for amounts in view.root.amounts:
        title = printable(resource_title(amounts.resource))
        header += [Cell(f"{title} FREE/TOTAL", right=True), Cell(f"{title} LARGEST", right=True)]
    walked = list(_walk(view.root, console))
    header.append(Cell("GANGS"))
    rows = [header, *(_row(domain, before, console, bars=True) for domain, before in walked)]
    if not fits(rows, console):
        rows = [header, *(_row(domain, before, console, bars=False) for domain, before in walked)]
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


def _row(domain: DomainView, before: str, console: Console, *, bars: bool) -> list[Cell]:
    nodes = str(domain.nodes) if domain.usable == domain.nodes else f"{domain.usable}/{domain.nodes}"
    cells = [Cell(before + _name(domain)), Cell(nodes, right=True)]
    for amounts in domain.amounts:
        cells += _amounts(amounts, console, bars=bars)
    return [*cells, Cell(_gangs(domain.gangs))]


def _name(domain: DomainView) -> str:
    if domain.level is None:
        return "cluster"
    return f"(without {shortened(domain.level, _NAME)})" if domain.value is None else shortened(domain.value, _NAME)


def _amounts(amounts: FreeAmounts, console: Console, *, bars: bool) -> list[Cell]:
    free, total = (short_amount(amounts.resource, each) for each in (amounts.free, amounts.total))
    filled = bar(amounts.total - amounts.free, amounts.total, console) if bars else ""
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


def tree(
    cluster: list[str] | None,
    topology: str | None,
    depth: str | None,
    resource: str | None,
    output: Output,
    **flags: str | None,
) -> None:
    """Print the domains of each topology."""
    with answering():
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        with working("adding up the domains"):
            views = _views(read.cache, topology, depth, resource)
        write(output, {"topologies": as_json(views)}, lambda console: print_trees(views, console))


def _views(cache: ClusterCache, name: str | None, depth: str | None, resource: str | None) -> tuple[TopologyView, ...]:
    snapshot, trees = cache.snapshot(), TopologyTrees()
    topologies = _topologies(cache, name)
    resources = resources_of(resource, cache)
    built = [tree_of(snapshot.nodes, each, trees) for each in topologies]
    levels: list[int] = []
    faults: list[UserError] = []
    for each in built:
        try:
            levels.append(usual_depth(each) if depth is None else depth_of(depth, each))
        except UserError as error:
            levels.append(usual_depth(each))
            faults.append(error)
    if len(faults) == len(built):
        fault = faults[0].message if topologies[0] is not None else f"{quoted(depth)}: the cluster has no Topology."
        raise InputError(f"--depth: {fault} Or write node, or a number from 0 to {built[0].node_level}.")
    return tuple(
        topology_view(cache, each, resources, level, trees) for each, level in zip(topologies, levels, strict=True)
    )


def _topologies(cache: ClusterCache, name: str | None) -> list[Topology | None]:
    """The topologies to show; None: the cluster has none."""
    known = cache.topologies_by_name()
    if name is None:
        return [known[each] for each in sorted(known)] or [None]
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise InputError(
            f"--topology: {quoted(name)} is no Topology of the cluster. There are: {names}.{did_you_mean(name, known)}"
        )
    return [known[name]]
