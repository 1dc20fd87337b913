"""The replicas: ready, of one version, and one of them leads and renews its Lease."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from time import monotonic
from typing import Final

from webhook.cli.doctor.finding import Finding, fail, ok, some, warn
from webhook.cli.doctor.release import Release, is_ready
from webhook.kube.election import LeaseRecord
from webhook.kube.resource import Resource, items_of
from webhook.model.names import SHARD
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.state.shards import shard_text
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
    """Whether a replica leads, renews its Lease, and says where others reach it."""
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
    return [judge_leader(record, await release.pods(), elsewhere=await release.calls_a_url())]


async def shards(release: Release) -> list[Finding]:
    """Whether each shard with nodes has a leader, and all replicas lead equally many."""
    label = (await release.settings()).shard_label
    if not label:
        return [ok("one leader places pods on all nodes")]
    path, prefix = Resource("coordination.k8s.io", "v1", "leases", release.namespace).path, f"{release.name}-shard-"
    held, unled = Counter[str](), []
    for raw in items_of(await release.client.get(path), path):
        metadata = raw["metadata"]
        if metadata["name"] != release.name and not metadata["name"].startswith(prefix):
            continue
        shard = (metadata.get("annotations") or {}).get(SHARD, "")
        if holder := LeaseRecord.from_object(raw).holder:
            held[holder] += 1
        elif not shard or items_of(
            await release.client.get("/api/v1/nodes", {"labelSelector": f"{label}={shard}", "limit": "1"}), "nodes"
        ):
            unled.append(shard_text(shard))
    return [judge_shards(held, unled, await release.pods())]


def judge_shards(held: Mapping[str, int], unled: Sequence[str], pods: Sequence[Raw]) -> Finding:
    """held: candidate -> its shards; unled: the shards with nodes and without a leader."""
    if unled:
        return fail(
            f"without a leader: {some(unled)}", "pods wait in these shards; the replicas' logs (leader.) say why"
        )
    ready, most = sum(map(is_ready, pods)), max(held.values(), default=0)
    total = sum(held.values())
    if ready and most > ceil(total / ready) + 1:
        return warn(
            f"one replica leads {most} of {counted(total, 'shard')}, and {ready} are ready",
            "shards move to replicas that lead fewer within a minute; if they stay, see the logs of both",
        )
    return ok(f"{counted(total, 'led shard')}, by replica: {', '.join(map(str, sorted(held.values(), reverse=True)))}")


def judge_leader(record: LeaseRecord, pods: Sequence[Raw], *, elsewhere: bool) -> Finding:
    """Whether other replicas find the leader. elsewhere: as for `judge_replicas`."""
    pod = record.holder.rpartition("_")[0]
    ready = {each["metadata"]["name"] for each in pods if is_ready(each)}
    if pod not in ready and not elsewhere:
        return warn(f"{record.holder} leads, and is no ready pod of the release", "see its log")
    if not record.address and len(ready) > 1:
        return warn(
            f"{pod} leads, and does not say where other replicas reach it, so a binding may be tried several times",
            "it may be of an older release: wait for the roll-out; TOPOLOGY_WEBHOOK_POD_IP must be the pod's address",
        )
    return ok(f"{pod} leads")
