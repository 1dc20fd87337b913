"""The replicas: ready, of one version, and one of them leads and renews its Lease."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Final

from webhook.cli.doctor.finding import Finding, fail, ok, some, warn
from webhook.cli.doctor.release import Release, is_ready
from webhook.kube.election import LeaseRecord
from webhook.kube.leader_label import LEADER
from webhook.kube.resource import Resource
from webhook.model.names import ROLE_LABEL
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.version import VERSION

_LOOK_AGAIN_SECONDS: Final = 0.25
_VERSION_LABEL: Final = "app.kubernetes.io/version"


async def replicas(release: Release) -> list[Finding]:
    """Whether the pods of the Deployment are ready."""
    deployment = await release.deployment()
    if deployment is None:
        return [
            fail(
                f"there is no Deployment {release.namespace}/{release.name}",
                "install the chart, or name its namespace and full name with --namespace and --name",
            )
        ]
    return [judge_replicas(deployment, await release.pods(), elsewhere=await release.calls_a_url())]


def judge_replicas(deployment: Raw, pods: Sequence[Raw], *, elsewhere: bool) -> Finding:
    """elsewhere: whether the API server calls a URL, so that replicas need not be pods."""
    ready = [pod for pod in pods if is_ready(pod)]
    wanted = deployment["spec"].get("replicas", 1)
    logs = f"kubectl -n {deployment['metadata']['namespace']} describe pods, and their logs"
    if not ready:
        report = warn if elsewhere else fail
        return report(f"no replica is ready; the Deployment wants {wanted}", logs)
    names = [pod["metadata"]["name"] for pod in ready]
    if len(ready) < wanted:
        return warn(f"{len(ready)} of {counted(wanted, 'replica')} are ready: {some(names)}", logs)
    return ok(f"{len(ready)} ready: {some(names)}")


async def versions(release: Release) -> list[Finding]:
    """Whether the replicas run the image of the Deployment, and this program is of the same version."""
    deployment = await release.deployment()
    return [] if deployment is None else judge_versions(deployment, await release.pods())


def judge_versions(deployment: Raw, pods: Sequence[Raw]) -> list[Finding]:
    """An old image: a roll-out is under way, or it hangs."""
    wanted = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    old = [pod["metadata"]["name"] for pod in pods if pod["spec"]["containers"][0]["image"] != wanted]
    found = []
    if old:
        found.append(
            warn(
                f"not of the Deployment's image: {some(old)}",
                f"wait: kubectl -n {deployment['metadata']['namespace']} rollout status "
                f"deployment/{deployment['metadata']['name']}",
            )
        )
    version = (deployment["metadata"].get("labels") or {}).get(_VERSION_LABEL, "")
    if version != VERSION:
        found.append(
            warn(
                f"the release is {version or 'of an unknown version'}, this program is {VERSION}",
                "use the program of the release's version",
            )
        )
    return found or [ok(f"release, replicas and this program are {VERSION}")]


async def leader(release: Release) -> list[Finding]:
    """Whether a replica leads, renews its Lease, and is found by the Service of bindings."""
    path = f"{Resource('coordination.k8s.io', 'v1', 'leases', release.namespace).path}/{release.name}"
    lease = await release.get(path)
    record = None if lease is None else LeaseRecord.from_object(lease)
    if record is None or not record.holder:
        return [
            fail(
                f"no replica leads: the Lease {release.namespace}/{release.name} has no holder",
                f"the logs of the replicas say why: kubectl -n {release.namespace} logs deployment/{release.name}",
            )
        ]
    # The times in a Lease are its holder's clock. Only a renewal proves that it leads.
    ends = monotonic() + record.duration
    while LeaseRecord.from_object(await release.client.get(path)) == record:
        if monotonic() > ends:
            return [
                fail(
                    f"{record.holder} holds the Lease and has not renewed it for {record.duration:g} s",
                    "another replica leads when the Lease has expired; if none does, see the replicas' logs",
                )
            ]
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return [judge_leader(await release.pods(), release.namespace, elsewhere=await release.calls_a_url())]


def judge_leader(pods: Sequence[Raw], namespace: str, *, elsewhere: bool) -> Finding:
    """Whether the Service of the bindings leads to one pod."""
    marked = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == LEADER]
    names = [pod["metadata"]["name"] for pod in marked if is_ready(pod)]
    if len(names) == 1:
        return ok(f"{names[0]} leads")
    if names:
        return warn(
            f"several pods have the leader's label: {some(names)}",
            "the leader removes it from the others within seconds; if it stays, see the leader's logs",
        )
    report = warn if elsewhere else fail
    return report(
        "a replica leads, but no ready pod has the leader's label, so bindings are not checked",
        f"may the service label pods? kubectl auth can-i patch pods -n {namespace}, as its service account",
    )
