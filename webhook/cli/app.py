"""The program `topology-webhook`: one command per module of this package, registered here."""

from typing import Annotated

import typer

from webhook.cli import audit, doctor, explain, nodes, tree, waiting
from webhook.cli.page import page
from webhook.cli.review import review
from webhook.cli.serve import serve
from webhook.cli.ungate import ungate
from webhook.version import DISTRIBUTION, VERSION

app = typer.Typer(
    name=DISTRIBUTION,
    help="NUMA- and rack-correct placement of pods on an unmodified kube-scheduler.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes truncate flags longer than a quarter of the terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{DISTRIBUTION} {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del version  # handled by the callback


app.command("review")(review)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("tree", epilog=tree.EXAMPLES)(tree.tree)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
app.command("page")(page)
app.command("nodes", epilog=nodes.EXAMPLES)(nodes.nodes)
app.command("waiting", epilog=waiting.EXAMPLES)(waiting.waiting)
app.command("serve")(serve)
app.command("ungate")(ungate)


def main() -> None:
    """Run the command line."""
    app()
