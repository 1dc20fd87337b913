"""`topology-webhook serve`: a flag for every setting."""

import sys
from typing import Final

import typer

from webhook.app.settings import Settings, SettingsError
from webhook.cli.flags import with_setting_flags

EXAMPLES: Final = """\b
Examples:
  topology-webhook serve
  topology-webhook serve --kubeconfig kubeconfig --port 9443 --log-level debug
"""


def serve(**flags: str | None) -> None:
    """Serve the admission webhooks until SIGTERM.

    Every flag can also be given as an environment variable: --log-level is TOPOLOGY_WEBHOOK_LOG_LEVEL. The flag wins.
    """
    try:
        settings = Settings.load(flags)
    except SettingsError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from error
    try:
        from webhook.app.main import run  # noqa: PLC0415 # the other commands need neither client nor server
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        print("serve needs the extra `server`: pip install 'topology-webhook[server]'", file=sys.stderr)
        raise typer.Exit(2) from error

    raise typer.Exit(run(settings))


with_setting_flags(serve, Settings.model_fields)
