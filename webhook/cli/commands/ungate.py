"""`topology-webhook ungate`: the way out for pods that wait behind the scheduling gate."""

import asyncio
import re
import sys
from typing import Final

import typer

from webhook.app.clients import placement_pace
from webhook.app.settings import Settings, SettingsError
from webhook.cli.command import working
from webhook.cli.input.live_cluster import connected
from webhook.cli.ungater import Tally, Ungater
from webhook.kube.api_errors import ClusterError
from webhook.model.wording import counted

EXIT_LEFT: Final = 1
EXIT_UNUSABLE: Final = 2

# DNS subdomain names, as Kubernetes requires. They become part of a URL.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def ungate(
    all_pods: bool,
    namespace: str | None,
    dry_run: bool,
    remove_webhooks: str | None,
    timeout: float,
    **flags: str | None,
) -> None:
    """Ungate the pods, and print how many."""
    try:
        _check(all_pods, namespace, remove_webhooks)
        settings = Settings.load(flags)
        with working("counting gated pods" if dry_run else "ungating"):
            tally = asyncio.run(_run(settings, namespace or "", remove_webhooks, dry_run=dry_run, seconds=timeout))
    except (_UsageError, SettingsError, ClusterError) as error:
        _tell(f"error: {error}")
        raise typer.Exit(EXIT_UNUSABLE) from error
    _report(tally, dry_run=dry_run, timeout=timeout)
    if tally.failed or not tally.complete:
        raise typer.Exit(EXIT_LEFT)


class _UsageError(Exception):
    """The flags are invalid; the message names the flag and what to write."""


def _check(all_pods: bool, namespace: str | None, remove_webhooks: str | None) -> None:
    if not all_pods and namespace is None:
        raise _UsageError("which pods? Use --all for all namespaces, or --namespace NS for one")
    if remove_webhooks is not None and namespace is not None:
        raise _UsageError(
            "--remove-webhooks and --namespace exclude each other: without its webhooks the service places no pod, "
            "so the pods of every namespace must be ungated. Use --all"
        )
    for flag, name in (("--namespace", namespace), ("--remove-webhooks", remove_webhooks)):
        if name is not None and not _NAME.fullmatch(name):
            raise _UsageError(f"{flag}: {name!r} is not a name: use lower-case letters, digits, '-' and '.'")


async def _run(
    settings: Settings, namespace: str, remove_webhooks: str | None, *, dry_run: bool, seconds: float
) -> Tally:
    async with connected(settings, placement_pace()) as client:
        ungater = Ungater(client, namespace)
        if dry_run:
            await ungater.count()
            return ungater.tally
        if remove_webhooks is not None:
            await ungater.remove_webhooks(remove_webhooks)
        await ungater.ungate(seconds, until_none=remove_webhooks is not None)
        return ungater.tally


def _report(tally: Tally, *, dry_run: bool, timeout: float) -> None:
    for name in tally.removed:
        print(f"deleted {name}")
    done = "would be ungated" if dry_run else "ungated"
    for namespace, count in sorted(tally.ungated.items()):
        print(f"{namespace}: {counted(count, 'pod')} {done}")
    gone = f", {tally.gone} deleted meanwhile" if tally.gone else ""
    left = f", {len(tally.failed)} left" if tally.failed else ""
    print(f"{counted(tally.ungated.total(), 'pod')} {done}{gone}{left}")
    for key, error in sorted(tally.failed.items()):
        _tell(f"still gated: {key}: {error}")
    if not tally.complete:
        trouble = f": {tally.trouble}" if tally.trouble else ""
        _tell(f"error: after {timeout:g} seconds pods may still be gated{trouble}. Run the command again")


def _tell(line: str) -> None:
    print(line, file=sys.stderr)
