"""Shell completion: `topology-webhook completion SHELL`, and what kubectl runs to complete `kubectl topology`.

The scripts and the search for candidates are Typer's. kubectl runs the executable `kubectl_complete-topology` with
the words after `kubectl topology`, and reads candidates and a directive as Cobra prints them.
Source: k8s.io/kubectl, pkg/cmd/plugin/plugin_completion.go; spf13/cobra, completions.go (ShellCompDirective).
"""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import typer
from typer._completion_classes import BashComplete  # Typer has no public name for the search without a shell
from typer.completion import (  # type: ignore[attr-defined] # it has them, and does not list them as exports
    completion_init,
    get_completion_script,
)
from typer.main import get_command

from webhook.cli.flags import EXIT_UNREADABLE
from webhook.version import DISTRIBUTION

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


def completion(context: typer.Context, shell: Shell) -> None:
    """Print the script for a shell."""
    if shell is Shell.KUBECTL:
        sys.stdout.write(_OF_KUBECTL)
        return
    if context.find_root().info_name != DISTRIBUTION:
        print(
            f"error: kubectl completes its plugins in {shell} itself. Write what `kubectl topology completion kubectl` "
            "prints into the executable file kubectl_complete-topology, in a folder of $PATH",
            file=sys.stderr,
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
    finder = BashComplete(get_command(line), {}, DISTRIBUTION, _VARIABLE)
    found = finder.get_completions(list(words[:-1]), words[-1] if words else "")
    named = [one for one in found if one.type == "plain"]  # the others are files, which kubectl finds itself
    lines = [f"{one.value}\t{' '.join(one.help.split())}" if one.help else one.value for one in named]
    return "\n".join([*lines, f":{_NO_FILES if lines else _FILES}", ""])
