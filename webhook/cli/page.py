"""`topology-webhook page`: the page on this machine, with the rights of the kubeconfig's user."""

from typing import Annotated, Final

import typer

from webhook.app.settings import Settings, SettingsError
from webhook.cli.command import CLUSTER_SETTINGS, EXIT_UNREADABLE, Snapshots, tell
from webhook.cli.documents import InputError
from webhook.cli.setting_flags import with_setting_flags
from webhook.kube.api_errors import ClusterError

EXAMPLES: Final = """\b
Examples:
  topology-webhook page
  topology-webhook page --context training --port 8000
  topology-webhook page --cluster cluster.yaml
"""


def page(
    cluster: Snapshots = None,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on. 0 picks a free one.")] = 8090,
    **flags: str | None,
) -> None:
    """Show the cluster's topology in a browser: what is free where, gangs, what waits and why.

    The page reads the cluster with the rights of the kubeconfig's user and changes nothing. It follows changes until
    Ctrl-C. With --cluster it shows a snapshot.

    Exit code 0: ended by a signal. 2: the flags or files are invalid, the API server cannot be reached, or the port
    cannot be opened.
    """
    from webhook.cli.page_process import serve_live, serve_snapshot  # noqa: PLC0415 # other commands need no server

    try:
        settings = Settings.load(flags)
        if cluster:
            serve_snapshot(settings, cluster, flags, address, port)
        else:
            serve_live(settings, address, port)
    except (InputError, SettingsError, ClusterError, OSError) as error:
        tell(f"error: {error}")
        raise typer.Exit(EXIT_UNREADABLE) from error


with_setting_flags(page, CLUSTER_SETTINGS)
