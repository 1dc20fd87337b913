"""Shell completion: `topology-webhook completion SHELL`, and what kubectl runs to complete `kubectl topology`.

The scripts and the search for candidates are Typer's. kubectl runs the executable `kubectl_complete-topology` with
the words after `kubectl topology`, and reads candidates and a directive as Cobra prints them.
Source: k8s.io/kubectl, pkg/cmd/plugin/plugin_completion.go; spf13/cobra, completions.go (ShellCompDirective).
"""

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import (  # type: ignore[attr-defined] # it has them, and does not list them as exports
    completion_init,
    get_completion_script,
)

from webhook.cli.command import EXIT_UNREADABLE, tell
from webhook.version import DISTRIBUTION

EXAMPLES: Final = """\b
Examples:
  topology-webhook completion bash > /etc/bash_completion.d/topology-webhook
  topology-webhook completion zsh > ~/.zfunc/_topology-webhook
  topology-webhook completion fish > ~/.config/fish/completions/topology-webhook.fish
  topology-webhook completion kubectl > ~/.local/bin/kubectl_complete-topology
"""

_OF_KUBECTL: Final = """\
#!/bin/sh
# kubectl runs this to complete `kubectl topology`: make it executable, in a folder of $PATH.
exec kubectl-topology __complete "$@"
"""
_VARIABLE: Final = "_TOPOLOGY_WEBHOOK_COMPLETE"
# Descriptions would be wrapped at the terminal's width, and each line read as a candidate.
_UNWRAPPED: Final = "10000"

# Cobra's directives: files may follow; nothing but the candidates.
_FILES: Final = 0
_NO_FILES: Final = 4


class Shell(StrEnum):
    """What reads the script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="The shell, or kubectl for kubectl topology in every shell.")],
) -> None:
    """Print the script that completes commands and flags in a shell.

    kubectl completes its plugins itself, with the executable file kubectl_complete-topology in a folder of $PATH.
    pip and uv install that file; otherwise, write what `completion kubectl` prints into it.

    The exit code is 0, or 2 if kubectl topology is asked for another script than kubectl's.
    """
    if shell is Shell.KUBECTL:
        sys.stdout.write(_OF_KUBECTL)
        return
    if context.find_root().info_name != DISTRIBUTION:
        tell(
            f"error: kubectl completes its plugins in {shell} itself. Write what `kubectl topology completion kubectl` "
            "prints into the executable file kubectl_complete-topology, in a folder of $PATH"
        )
        raise typer.Exit(EXIT_UNREADABLE)
    print(get_completion_script(prog_name=DISTRIBUTION, complete_var=_VARIABLE, shell=shell))


def register_shells() -> None:
    """Make the program answer the scripts of `completion`, which call it with a variable set."""
    completion_init()
    if _VARIABLE in os.environ:
        os.environ["COLUMNS"] = _UNWRAPPED


def candidates(line: typer.Typer, words: Sequence[str]) -> str:
    """What Cobra would answer for these words, the last of which is to be completed.

    A line for each candidate, with its description after a tab; then the directive.
    """
    # Typer answers for fish in this form, too.
    os.environ |= {
        "_TYPER_COMPLETE_ARGS": shlex.join([DISTRIBUTION, *words]),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        _VARIABLE: "complete_fish",
    }
    register_shells()
    found = io.StringIO()
    with contextlib.redirect_stdout(found), contextlib.suppress(SystemExit):
        line(prog_name=DISTRIBUTION, complete_var=_VARIABLE)
    lines = found.getvalue().split()
    directive = _NO_FILES if lines else _FILES
    return f"{found.getvalue().strip()}\n:{directive}\n".lstrip()
