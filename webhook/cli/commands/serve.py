"""`topology-webhook serve`: a flag for every setting."""

import sys

import typer

from webhook.app.settings import Settings, SettingsError
from webhook.cli.input.configuration_file import configuration


def serve(config: str | None, **flags: str | None) -> None:
    """Serve until SIGTERM."""
    try:
        settings = Settings.load(flags, configuration(config))
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
