"""All checks in their order. A check that is forbidden is a warning; one that breaks off is a failure."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from webhook.app.settings import SettingsError
from webhook.cli.doctor.configurations import configurations, protection
from webhook.cli.doctor.finding import Finding, Level, fail, warn
from webhook.cli.doctor.nodes import judge_exporters, judge_policies, judge_waiting, levels, read_fleet
from webhook.cli.doctor.release import Release, crds, kubernetes
from webhook.cli.doctor.replicas import leader, replicas, shards, versions
from webhook.cli.doctor.rights import account_rights, clocks
from webhook.cli.doctor.state import agreement
from webhook.cli.doctor.trial_pods import bad_pod, good_pod
from webhook.kube.api_errors import APIError, ClusterError

Check = Callable[[Release], Awaitable[list[Finding]]]

_FIRST: Final[tuple[tuple[str, Check], ...]] = (
    ("kubernetes", kubernetes),
    ("crds", crds),
    ("replicas", replicas),
    ("versions", versions),
    ("leader", leader),
    ("shards", shards),
    ("rights", account_rights),
    ("webhooks", configurations),
    ("protection", protection),
    ("good-pod", good_pod),
    ("bad-pod", bad_pod),
    ("state", agreement),
    ("clocks", clocks),
)
_OF_THE_FLEET: Final = ("exporters", "policies", "topologies", "gates")
NAMES: Final = (*(name for name, _ in _FIRST), *_OF_THE_FLEET)
# Without these nothing ungates a pod.
_PLACING: Final = frozenset({"leader", "webhooks"})


async def diagnose(release: Release) -> AsyncIterator[tuple[str, Finding]]:
    """Each finding, with the name of its check. Raises ClusterError if the API server does not answer at all."""
    await release.client.get("/version")
    placed = True
    for name, check in _FIRST:
        for finding in await _contained(check, release):
            placed = placed and not (name in _PLACING and finding.level is Level.FAIL)
            yield name, finding
    try:
        fleet = await read_fleet(release)
    except ClusterError as error:
        for name in _OF_THE_FLEET:
            yield name, _broken_off(error)
        return
    now = datetime.now(UTC).timestamp()
    judged = (
        judge_exporters(fleet, now),
        judge_policies(fleet),
        await _contained(lambda release: levels(release, fleet), release),
        judge_waiting(fleet, now, placed=placed),
    )
    for name, findings in zip(_OF_THE_FLEET, judged, strict=True):
        for finding in findings:
            yield name, finding


async def _contained(check: Check, release: Release) -> list[Finding]:
    try:
        return await check(release)
    except ClusterError as error:
        return [_broken_off(error)]
    except SettingsError as error:
        text = f"not checked: the replicas do not start with their settings: {str(error).splitlines()[0]}"
        return [fail(text, "correct the chart's values")]


def _broken_off(error: ClusterError) -> Finding:
    if isinstance(error, APIError) and error.status == 403:
        return warn(f"not checked: {error}", "run it as an administrator, or grant this right")
    return fail(f"not checked: {error}", "run it again; if that does not help, see the API server's logs")
