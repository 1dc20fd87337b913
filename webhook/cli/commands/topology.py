"""`topology-webhook topology discover`: a Topology from the labels that nodes have."""

import typer
from rich.console import Console
from rich.text import Text

from webhook.app.settings import Settings
from webhook.cli.command import answering, read_cluster, tell, warn, write
from webhook.cli.flags import EXIT_REFUSED, Action, Output
from webhook.cli.input.yaml_text import dump_all
from webhook.cli.render.printable import printable
from webhook.cli.render.text_table import Cell, print_line, print_table
from webhook.views.as_json import as_json
from webhook.views.topology_discovery import TopologyProposal, discover


def topology(
    action: Action,
    cluster: list[str] | None,
    label: list[str] | None,
    name: str,
    output: Output,
    **flags: str | None,
) -> None:
    """Print the proposal; with -o yaml the object to apply, its warnings to stderr."""
    del action  # there is one
    with answering():
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        nodes = {each: node.labels for each, node in read.cache.state.nodes.items()}
        proposal = discover(nodes, name, label or ())
        if output is Output.YAML:
            for warning in proposal.warnings:
                tell(f"warning: {warning}")
            if not proposal.levels:
                tell(f"error: {_NOTHING}")
        if output is not Output.YAML or proposal.levels:
            value = proposal.to_object() if output is Output.YAML else as_json(proposal)
            write(output, value, lambda console: _print(proposal, console))
    if not proposal.levels:
        raise typer.Exit(EXIT_REFUSED)


_NOTHING = (
    "No known label says where nodes are. Label them with their racks, and name the labels with --label, coarse first."
)


def _print(proposal: TopologyProposal, console: Console) -> None:
    if not proposal.levels:
        print_line(Text(_NOTHING), console)
    else:
        titles = (Cell("LEVEL"), Cell("DOMAINS", right=True), Cell("NODES", right=True))
        rows = [
            [Cell(printable(level.label)), Cell(str(level.domains), right=True), Cell(str(level.nodes), right=True)]
            for level in proposal.levels
        ]
        print_table([list(titles), *rows], console)
    for warning in proposal.warnings:
        print_line(Text.assemble(("warning", "yellow"), f": {printable(warning)}"), console)
    if proposal.levels:
        print_line(Text(), console)
        print_line(Text("The Topology (-o yaml prints only this, for kubectl apply -f -):", style="bold"), console)
        for line in dump_all([proposal.to_object()]).splitlines():
            console.print(Text(printable(line)), soft_wrap=True)
