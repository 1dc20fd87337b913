"""`topology-webhook serve`: a flag for every setting."""

import sys
from typing import Annotated, Final

import typer

from webhook.app.settings import Settings, SettingsError
from webhook.cli.flags import with_setting_flags
from webhook.cli.input.configuration_file import read_configuration

EXAMPLES: Final = """\b
Examples:
  topology-webhook serve
  topology-webhook serve --config configuration.yaml
  topology-webhook serve --kubeconfig kubeconfig --port 9443 --log-level debug
"""


def serve(
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="Configuration file, a TopologyWebhookConfiguration. Flags win over it."
        ),
    ] = None,
    **flags: str | None,
) -> None:
    """Serve the admission webhooks until SIGTERM.

    Settings stand in the file of --config, and each has a flag that wins over it. The variables
    TOPOLOGY_WEBHOOK_NAMESPACE and TOPOLOGY_WEBHOOK_POD_NAME win over the file, too.
    """
    try:
        settings = Settings.load(flags, read_configuration(config) if config is not None else None)
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
