"""`topology-webhook doctor`: whether the service is installed correctly and does its work."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.console import Console

from webhook.app.settings import Settings
from webhook.cli.command import Output, Outputs, answering, write
from webhook.cli.doctor.checks import diagnose
from webhook.cli.doctor.finding import Finding, Level
from webhook.cli.doctor.release import Release
from webhook.cli.flags import with_setting_flags
from webhook.cli.input.documents import InputError
from webhook.cli.input.live_cluster import connect
from webhook.cli.render.printable import shortened
from webhook.kube.api_errors import ClusterError

EXIT_FAILED: Final = 1
EXAMPLES: Final = """\b
Examples:
  topology-webhook doctor
  topology-webhook doctor --namespace placement --name tw-topology-webhook
  topology-webhook doctor --trial-namespace training -o json
"""

# DNS subdomain names, as Kubernetes requires. They become part of a URL.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_LONGEST: Final = 500


def doctor(
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="Full name of the release, with which the names of its objects begin."
        ),
    ] = "topology-webhook",
    trial_namespace: Annotated[
        str,
        typer.Option(
            "--trial-namespace",
            metavar="NS",
            help="A namespace that the webhooks cover, in which pods are created as dry runs.",
        ),
    ] = "default",
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Check an installation, and say what to fix.

    The checks are about versions, CRDs, replicas, leader, rights, webhooks, exporters, policies and gated pods. Two
    dry runs show whether a pod with an annotation is admitted with a decision, and one with a typo in it is denied.
    The command changes nothing. Each line says ok, warn or fail, and what to do about it.

    The exit code is 0 if no check failed (there may be warnings), 1 if one did, and 2 if the flags are invalid or
    the API server cannot be reached.
    """
    with answering():
        settings = Settings.load(flags)
        _check({"--name": name, "--trial-namespace": trial_namespace, "--namespace": settings.namespace})
        try:
            findings = asyncio.run(_findings(settings, name, trial_namespace))
        except ClusterError as error:
            raise InputError(str(error)) from error
        document = {"findings": [_document(check, finding) for check, finding in findings]}
        write(output, document, lambda console: _print(findings, console))
    if any(finding.level is Level.FAIL for _, finding in findings):
        raise typer.Exit(EXIT_FAILED)


with_setting_flags(doctor, ("namespace", "kubeconfig", "context"))


def _check(names: Mapping[str, str]) -> None:
    for flag, name in names.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"{flag}: {name!r} is not a name: use lower-case letters, digits, '-' and '.'")


async def _findings(settings: Settings, name: str, trial_namespace: str) -> list[tuple[str, Finding]]:
    async with await connect(settings) as client:
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
