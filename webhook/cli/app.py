"""The program `topology-webhook`, and the same as `kubectl topology`: one command per module, registered here."""

import re
import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from webhook.cli.commands import (
    audit,
    completion,
    defrag,
    doctor,
    explain,
    nodes,
    page,
    review,
    serve,
    simulate,
    tree,
    ungate,
    waiting,
)
from webhook.version import DISTRIBUTION, VERSION

KUBECTL: Final = "kubectl topology"

# Names, functions and examples, in the order of the help.
_COMMANDS: Final[tuple[tuple[str, Callable[..., None], str], ...]] = (
    ("review", review.review, review.EXAMPLES),
    ("explain", explain.explain, explain.EXAMPLES),
    ("tree", tree.tree, tree.EXAMPLES),
    ("doctor", doctor.doctor, doctor.EXAMPLES),
    ("audit", audit.audit, audit.EXAMPLES),
    ("page", page.page, page.EXAMPLES),
    ("nodes", nodes.nodes, nodes.EXAMPLES),
    ("waiting", waiting.waiting, waiting.EXAMPLES),
    ("defrag", defrag.defrag, defrag.EXAMPLES),
    ("simulate", simulate.simulate, simulate.EXAMPLES),
    ("serve", serve.serve, serve.EXAMPLES),
    ("ungate", ungate.ungate, ungate.EXAMPLES),
    ("completion", completion.completion, completion.EXAMPLES),
)
# Where an example calls the program: at the start of its line, or after a pipe.
_CALL: Final = re.compile(rf"^(  |.*\| ){DISTRIBUTION} ", re.MULTILINE)


def command_line(program: str) -> typer.Typer:
    """All commands; their examples call this program."""
    line = typer.Typer(
        name=program,
        help="NUMA- and rack-correct placement of pods on an unmodified kube-scheduler.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its boxes truncate flags longer than a quarter of the terminal
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_options)
    for name, function, examples in _COMMANDS:
        line.command(name, epilog=_CALL.sub(rf"\1{program} ", examples))(function)
    return line


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{DISTRIBUTION} {VERSION}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del version  # handled by the callback


app = command_line(DISTRIBUTION)


def main() -> None:
    """Run the command line, or answer the script of a shell."""
    completion.register_shells()
    app()


def kubectl_main() -> None:
    """Run it as kubectl's plugin: kubectl finds `kubectl-topology` on PATH."""
    if sys.argv[1:2] == ["__complete"]:
        complete(sys.argv[2:])
    else:
        command_line(KUBECTL)(prog_name=KUBECTL)


def kubectl_complete_main() -> None:
    """Answer kubectl when it completes `kubectl topology`: it finds `kubectl_complete-topology` on PATH."""
    complete(sys.argv[1:])


def complete(words: list[str]) -> None:
    """Print candidates for the last of these words."""
    sys.stdout.write(completion.candidates(app, words))
