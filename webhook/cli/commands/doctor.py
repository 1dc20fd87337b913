"""`topology-webhook doctor`: whether the service is installed correctly and does its work."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import typer
from rich.console import Console

from webhook.app.settings import Settings
from webhook.cli.command import answering, working, write
from webhook.cli.doctor.checks import diagnose
from webhook.cli.doctor.finding import Finding, Level
from webhook.cli.doctor.release import Release
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError
from webhook.cli.input.live_cluster import connected
from webhook.cli.render.printable import shortened
from webhook.kube.api_errors import ClusterError

EXIT_FAILED: Final = 1

# DNS subdomain names, as Kubernetes requires. They become part of a URL.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_LONGEST: Final = 500


def doctor(name: str, trial_namespace: str, output: Output, **flags: str | None) -> None:
    """Print what each check of the installation found."""
    with answering():
        settings = Settings.load(flags)
        _check({"--name": name, "--trial-namespace": trial_namespace, "--namespace": settings.namespace})
        try:
            with working("checking the installation"):
                findings = asyncio.run(_findings(settings, name, trial_namespace))
        except ClusterError as error:
            raise InputError(str(error)) from error
        document = {"findings": [_document(check, finding) for check, finding in findings]}
        write(output, document, lambda console: _print(findings, console))
    if any(finding.level is Level.FAIL for _, finding in findings):
        raise typer.Exit(EXIT_FAILED)


def _check(names: Mapping[str, str]) -> None:
    for flag, name in names.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"{flag}: {name!r} is not a name: use lower-case letters, digits, '-' and '.'")


async def _findings(settings: Settings, name: str, trial_namespace: str) -> list[tuple[str, Finding]]:
    async with connected(settings) as client:
        release = Release(client, settings.namespace, name, trial_namespace)
        return [found async for found in diagnose(release)]


def _print(findings: list[tuple[str, Finding]], console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    for check, finding in findings:
        line(f"{finding.level:<4}  {check:<10}  {shortened(finding.text, _LONGEST)}")
        if finding.cure:
            line(f"{'':18}-> {finding.cure}")
    levels = Counter(finding.level for _, finding in findings)
    line(f"{levels[Level.OK]} ok, {levels[Level.WARN]} warn, {levels[Level.FAIL]} fail")


def _document(check: str, finding: Finding) -> dict[str, str]:
    return {"check": check, "level": finding.level.value, "text": finding.text, "cure": finding.cure}
